package fetch

import (
	"net"
	"strings"
	"testing"
)

// TestDeadProxy: the error of a proxy that refuses names the proxy as the cause, and not its
// address.
func TestDeadProxy(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"http", "socks5"} {
		at, err := ParseProxy(scheme + "://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ViaProxy(at, new(net.Dialer))(t.Context(), "tcp", "192.0.2.1:80")
		if err == nil || !strings.HasPrefix(err.Error(), "proxy: ") || strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
