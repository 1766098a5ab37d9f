package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// serve is every site: it notes gaps and overlaps, and answers robots.txt with 404 unless the
// handler wants it.
func (x *world) serve(rw http.ResponseWriter, r *http.Request) {
	x.requests.Add(1)
	now := time.Now()
	x.mu.Lock()
	x.asked["http://"+r.Host+r.URL.RequestURI()]++
	if end, ok := x.ends[r.Host]; ok {
		if gap, had := x.gaps[r.Host]; !had || now.Sub(end) < gap {
			x.gaps[r.Host] = now.Sub(end)
		}
	}
	if x.open[r.Host]++; x.open[r.Host] > 1 {
		x.lapped++
	}
	x.mu.Unlock()
	x.handler.ServeHTTP(rw, r)
	x.mu.Lock()
	x.open[r.Host]--
	x.ends[r.Host] = time.Now()
	x.mu.Unlock()
}

type resolver struct{}

func (resolver) Lookup(_ context.Context, host string) ([]netip.Addr, error) {
	if host == "nowhere.example" {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// pipeListener is a listener in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return pipeConn{here}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeConn is an end of a pipe. As with TCP, what its other end sent before it was closed can be
// read, and then io.EOF.
type pipeConn struct{ net.Conn }

// SetReadDeadline implements net.Conn. Of a net.Pipe it fails once the other end is closed.
func (c pipeConn) SetReadDeadline(t time.Time) error {
	if err := c.Conn.SetReadDeadline(t); !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
