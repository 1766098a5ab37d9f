package p2p

import (
	"io"
	"net"
	"strings"
	"testing"
)

// TestDialCauses: what dials come to, against real sockets, is said in words of people.
func TestDialCauses(t *testing.T) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { web.Close() })
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		}
	}()
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	other := newNet(t, "test", "", nil)
	const id = "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	_, webPort, _ := net.SplitHostPort(web.Addr().String())
	_, mutePort, _ := net.SplitHostPort(mute.LocalAddr().String())
	at := other.Addrs()[0]
	for addr, want := range map[string]string{
		"/ip4/127.0.0.1/tcp/1" + id:                        "connection refused: nothing listens there",
		"/ip4/127.0.0.1/tcp/" + webPort + id:               "what answers there is no peer",
		"/ip4/127.0.0.1/udp/" + mutePort + "/quic-v1" + id: "no answer: nothing runs there, or a firewall",
		at[:strings.LastIndex(at, "/p2p/")] + id:           "another peer answers there, " + at[strings.LastIndex(at, "/")+1:],
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			n := newNet(t, "test", "", nil) // each knows one address of the peer
			text := n.Bootstrap(t.Context(), Sources{Bootstrap: []string{addr}}).Error()
			if !strings.Contains(text, addr+": "+want) {
				t.Errorf("%s", text)
			}
		})
	}
}
