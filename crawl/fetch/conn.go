package fetch

import (
	"container/list"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// conn is one connection to a host. It is used by one exchange at a time.
type conn struct {
	net.Conn // TCP, or TLS over it
	meter    *meter
	h2       *http2.ClientConn // nil for HTTP/1.1
	key      string
	addr     netip.AddrPort
	used     bool // by an exchange before the present one
	broken   bool // not to be used again

	idleSince time.Time     // guarded by the pool
	place     *list.Element // in the pool's list
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// abort makes whatever waits on the connection return at once.
func (c *conn) abort() { _ = c.SetDeadline(longAgo) }

// orClosed returns the connection if it can be used again; otherwise it closes it and returns nil.
func (c *conn) orClosed() *conn {
	if c.broken {
		c.close()
		return nil
	}
	return c
}

// close closes the connection. Nothing is done about an error: there is nobody that it would tell anything.
func (c *conn) close() {
	if c.h2 != nil {
		_ = c.h2.Close()
		return
	}
	_ = c.Conn.Close()
}

// meter counts the bytes that come over the wire, beneath TLS.
type meter struct {
	net.Conn
	n atomic.Int64 // HTTP/2 reads in a goroutine of its own
}

// Read counts what was read.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.n.Add(int64(n))
	return n, err
}

// pace says until when the next bytes of a response are waited for.
type pace struct {
	end     time.Time // of the exchange
	headEnd time.Time // of waiting for the head
	body    time.Time // when the body began; zero before
	grace   time.Duration
	rate    int // bytes a second; not positive: none
	got     int64
}

// next returns the deadline and what reaching it means.
func (p *pace) next() (time.Time, error) {
	if p.body.IsZero() {
		return earlier(p.headEnd, p.end), errTimeout
	}
	if p.rate <= 0 {
		return p.end, errTimeout
	}
	due := p.body.Add(p.grace + time.Duration(p.got)*time.Second/time.Duration(p.rate))
	if due.Before(p.end) {
		return due, errTooSlow
	}
	return p.end, errTimeout
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
