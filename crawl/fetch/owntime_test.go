package fetch_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// lazyRoom delays each request for memory, or lets it wait.
type lazyRoom struct {
	testRoom
	grow, wait time.Duration
}

func (r *lazyRoom) Grow(size int64) bool {
	time.Sleep(r.grow)
	return r.testRoom.Grow(size)
}

func (r *lazyRoom) Wait(ctx context.Context, size int64) error {
	time.Sleep(r.wait)
	return r.testRoom.Wait(ctx, size)
}

// oneConn is a listener with one connection, and none after that was closed.
type oneConn struct {
	net.Listener // of which nothing is used
	conns        chan net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error { return nil }

// serveOne serves one connection until it is closed.
func serveOne(c net.Conn, h http.Handler) {
	l := &oneConn{conns: make(chan net.Conn, 1)}
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Hour, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(l.conns)
		}
	}}
	srv.Protocols.SetHTTP2(true)
	l.conns <- c
	_ = srv.Serve(l)
}

// overHTTP2 returns a server of one connection, by TLS and HTTP/2 alone.
func overHTTP2(t *testing.T, h http.HandlerFunc) func(net.Conn) {
	t.Helper()
	some := httptest.NewTLSServer(nil) // for its certificate
	defer some.Close()
	config := http2Only()
	config.Certificates = some.TLS.Certificates
	return func(c net.Conn) { serveOne(tls.Server(c, config), h) }
}

// TestOwnTime checks that the timeouts of a site do not count local processing of a body between
// two reads, or a wait for memory.
func TestOwnTime(t *testing.T) {
	body := noise(4 << 20)
	over1 := func(c net.Conn) {
		readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n")
		_, _ = c.Write(body)
	}
	over2 := overHTTP2(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = rw.Write(body)
	})
	for proto, tt := range map[string]struct {
		url   string
		serve func(net.Conn)
	}{"HTTP/1.1": {"http://a.example/", over1}, "HTTP/2.0": {"https://a.example/", over2}} {
		for name, room := range map[string]*lazyRoom{
			"processing": {testRoom{memory: 8 << 20}, 70 * time.Second, 0},
			"wait":       {testRoom{}, 0, 70 * time.Second},
		} {
			t.Run(proto+"/"+name, func(t *testing.T) {
				// The HTTP/2 server keeps channels in a sync.Pool: those of another bubble must be gone
				// from it.
				runtime.GC()
				runtime.GC()
				inBubble(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true }, tt.serve, func(t *testing.T, f *fetch.Fetcher) {
					begun := time.Now()
					resp, err := f.Get(t.Context(), &fetch.Request{URL: tt.url, Room: room})
					if err != nil {
						t.Fatalf("after %s: %v", time.Since(begun), err)
					}
					defer resp.Release()
					if resp.Proto != proto || len(resp.Body) != len(body) {
						t.Errorf("%d bytes over %s", len(resp.Body), resp.Proto)
					}
					if took := time.Since(begun); took < 61*time.Second {
						t.Errorf("took %s: the delay was too short to show anything", took)
					}
				})
			})
		}
	}
}
