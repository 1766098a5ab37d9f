package bandwidth

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Conn is a connection limited by a line: reads by its download limiter, writes by its upload
// limiter. A read waits until data is available, then for the limiter, and then reads. So an idle
// connection reserves no bandwidth, and unread data stays with the sender, except for the kernel's
// buffer (see [Line.Control]).
type Conn struct {
	net.Conn
	line  *Line
	class Class
	held  atomic.Int64 // nanoseconds
	made  int64        // download limit when it was made
	// life ends the wait for the limiter: with Close, and with a deadline that has passed.
	life context.Context //nolint:containedctx // of waiting calls
	end  context.CancelFunc
}

// Conn adds a connection to the line. Without a limit it costs a few atomic additions a call.
func (l *Line) Conn(c net.Conn, class Class) *Conn {
	k := &Conn{Conn: c, line: l, class: class, made: l.Down.Rate()}
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// Stirred reports whether data has arrived on a connection where none is expected, or it has ended;
// false if unknown. A connection that has stirred must not be used any more.
func Stirred(c net.Conn) bool {
	if k, ok := c.(*Conn); ok {
		c = k.Conn
	}
	return stirred(c)
}

// Outgrown reports whether the kernel's buffer is that of a higher limit, or of none. The sender
// may use the window that it offers, so an idle connection should be replaced.
func (c *Conn) Outgrown() bool {
	limit := c.line.Down.Rate()
	return limit > 0 && (c.made == 0 || c.made > limit)
}

// Held returns the total time that the connection waited for the download limiter.
func (c *Conn) Held() time.Duration { return time.Duration(c.held.Load()) }

// Read reads at most a piece while there is a limit.
func (c *Conn) Read(p []byte) (int, error) {
	down := c.line.Down
	if down.Rate() == 0 || len(p) == 0 {
		n, err := c.Conn.Read(p)
		down.Spent(c.class, n) // a limit may have been set meanwhile
		return n, err
	}
	p = p[:min(len(p), down.Piece())]
	available, ok, err := peek(c.Conn, p)
	if err != nil {
		return 0, err
	}
	if !ok { // not supported by this system: read first, pay then
		n, err := c.Conn.Read(p)
		if werr := c.wait(down, n); werr != nil && err == nil {
			err = werr
		}
		return n, err
	}
	if available == 0 { // the end, or an error, which costs nothing
		return c.Conn.Read(p)
	}
	if err := c.wait(down, available); err != nil {
		return 0, err
	}
	return c.Conn.Read(p[:available])
}

// Write writes a piece at a time while there is a limit.
func (c *Conn) Write(p []byte) (n int, err error) {
	up := c.line.Up
	for {
		part := p[n:min(len(p), n+up.Piece())]
		if up.Rate() == 0 {
			part = p[n:]
		}
		if err := c.wait(up, len(part)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(part)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// wait waits for the limiter to grant n bytes.
func (c *Conn) wait(l *Limiter, n int) error {
	if l.Rate() == 0 {
		return l.Wait(c.life, c.class, n)
	}
	begun := time.Now()
	err := l.Wait(c.life, c.class, n)
	if l == c.line.Down {
		c.held.Add(int64(time.Since(begun)))
	}
	if err != nil {
		return &net.OpError{Op: "bandwidth", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.ErrDeadlineExceeded}
	}
	return nil
}

// Close closes the connection and ends all waiting on it.
func (c *Conn) Close() error {
	c.end()
	return c.Conn.Close()
}

// SetDeadline implements net.Conn. A deadline that has passed aborts the connection, also calls
// that wait for the limiter; later ones only limit the reads and writes themselves.
func (c *Conn) SetDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		c.end()
	}
	return c.Conn.SetDeadline(t)
}
