package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// CheckLoopback says what is wrong with an address to serve on, HOST:PORT, that must be one of this machine's own: the flag is named in the error.
func CheckLoopback(name, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return Usage(fmt.Sprintf("%s %q: must be HOST:PORT, such as 127.0.0.1:9464", name, addr))
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return Usage(fmt.Sprintf("%s %q: must be an address of loopback, such as 127.0.0.1; a proxy in front may let others in", name, addr))
	}
	return nil
}

// ListenLoopback opens such an address. It looks again at what was opened: a name may stand for another address.
func ListenLoopback(ctx context.Context, name, addr string) (net.Listener, error) {
	if err := CheckLoopback(name, addr); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = ln.Close()
		return nil, fmt.Errorf("%s %q: it stands for %s, which is not loopback", name, addr, ln.Addr())
	}
	return ln, nil
}

// ServeLoopback serves h on ln, a unix socket or a listener of ListenLoopback, until ctx ends, then waits briefly for the running requests. What a browser was led
// to ask is turned away.
func ServeLoopback(ctx context.Context, what string, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           local(http.NewCrossOriginProtection().Handler(h)),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(ln)
	if ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	wg.Wait()
	return nil
}
