package control_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

func TestCheckAddress(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:9464": true, "127.9.9.9:0": true, "[::1]:9464": true, "localhost:9464": true,
		"0.0.0.0:9464": false, ":9464": false, "[::]:9464": false, "192.168.1.1:9464": false, "example.org:9464": false, "127.0.0.1": false, "": false,
	} {
		err := control.CheckAddress("metrics", addr, false)
		if (err == nil) != ok || err != nil && (control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), `metrics "`+addr+`"`)) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// TestServeDebug: what is asked under this machine's addresses is answered, what a browser was led
// to ask is not, and serving ends with its context.
func TestServeDebug(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ln, err := control.ListenTCP(ctx, "metrics", "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- control.ServeDebug(ctx, "metrics", ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }), "", slog.New(slog.DiscardHandler))
	}()
	for host, want := range map[string]int{"": 200, "localhost": 200, "evil.example": 403, "peer": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, res.StatusCode, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
