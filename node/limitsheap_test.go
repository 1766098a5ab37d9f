package node

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/limits"
)

// TestBodiesDoNotSlow: a body that is held in memory, within the bound of pages, is nothing that
// has a peer slowed for its memory.
func TestBodiesDoNotSlow(t *testing.T) {
	const size = 6 << 20
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write(bytes.Repeat([]byte("words "), size/6))
		w.(http.Flusher).Flush()
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(t.TempDir(), ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Network = true, 0, "test"
	cfg.FetchFrom = netip.MustParseAddr("127.0.1.1")
	cfg.Limits.Memory = 256 << 20
	p := startWith(t, cfg)
	settle(t, []*testPeer{p})
	if _, err := p.Post(t.Context(), control.JobSpec{URLs: []string{"http://held.web.localhost:" + at.Port() + "/"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the body to be here", func(context.Context) bool { return p.crawl.Worker.Stats().Memory >= size/2 })
	runtime.GC()
	if live, heap := limits.LiveHeap(), p.limits.Heap(); heap > live-size/2 {
		t.Errorf("the heap counts as %d bytes of %d, with a body of %d in it", heap, live, size)
	}
}
