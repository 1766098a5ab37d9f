package webgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// drain is how long running responses may continue after the server is stopped.
const drain = 2 * time.Second

// Serve serves the web of cfg on the TCP address listen ("127.0.0.1:0" selects a free port) until
// ctx ends, which is not an error. It calls onReady, if not nil, once with its address, before the
// first request is accepted.
func Serve(ctx context.Context, listen string, cfg Config, onReady func(addr net.Addr)) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("serve synthetic web: %w", err)
	}
	if onReady != nil {
		onReady(l.Addr())
	}
	return New(cfg).Serve(ctx, l)
}

// Serve serves the web on l until ctx ends, which is not an error, and closes l.
func (w *Web) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, ConnState: w.audit.connects.state}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve synthetic web at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if srv.Shutdown(last) != nil {
		_ = srv.Close() // close connections that are open after the drain
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve synthetic web at %s: %w", l.Addr(), err)
	}
	return nil
}
