package harness

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
)

// Web is a synthetic web that peers crawl.
type Web struct {
	*webgen.Web
	Port int
}

// ServeWeb serves what `apoidea web serve` would, until ctx ends; the group waits for its end.
func ServeWeb(ctx context.Context, group *sync.WaitGroup, listen string, cfg webgen.Config) (*Web, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("web server: %w", err)
	}
	return ServeWebOn(ctx, group, ln, cfg), nil
}

// ServeWebOn serves it on a listener of TCP.
func ServeWebOn(ctx context.Context, group *sync.WaitGroup, ln net.Listener, cfg webgen.Config) *Web {
	w := &Web{webgen.New(cfg), ln.Addr().(*net.TCPAddr).Port}
	group.Go(func() { _ = w.Serve(ctx, ln) })
	return w
}

// Seeds are the first pages of all hosts.
func (w *Web) Seeds() []string { return w.Web.Seeds(w.Port) }

// Truth is what a right crawl of all hosts comes to.
func (w *Web) Truth() webtruth.Truth {
	return webtruth.Of(w.Web, webtruth.Walk{Port: w.Port, MaxDepth: -1})
}

// Asked is how often each URL was asked for.
func (w *Web) Asked() map[string]int {
	asked := make(map[string]int)
	for u := range w.AuditURLs() {
		asked[fmt.Sprintf("%s://%s:%d%s", w.Scheme(), u.Host, w.Port, u.Path)] = u.Count
	}
	return asked
}
