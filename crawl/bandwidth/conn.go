package bandwidth

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection limited by a line: reads by its download limiter, writes by its upload
// limiter. A read waits until data is available, then for the limiter, and then reads. So an idle
// connection reserves no bandwidth, and unread data stays with the sender, except for the kernel's
// buffer (see [Line.Control]).
//
// On a connection to a site that buffer is paid for: the part that it will receive of an answer
// before the request is written, what replaces it by each read. Deadlines include the wait for the
// limiter.
type Conn struct {
	net.Conn
	line        *Line
	class       Class
	read, write deadline
	held        atomic.Int64 // nanoseconds
	due         atomic.Int64 // bytes paid for and not seen yet, of connections to sites
	left        atomic.Int64 // bytes seen and not read
	sized       atomic.Int64 // limit for which the kernel's buffer was last sized, of connections to sites
}

// Conn adds a connection to the line. Without a limit it costs a few atomic additions a call.
func (l *Line) Conn(c net.Conn, class Class) *Conn {
	k := &Conn{Conn: c, line: l, class: class}
	k.sized.Store(l.Down.Rate())
	return k
}

// resize sets the kernel's buffer to the size for the current limit: a larger one would receive
// more unsolicited bytes. Connections to peers are few and carry leases; theirs are not resized.
func (c *Conn) resize(rate int64) {
	if c.class != Sites || rate == 0 || c.sized.Swap(rate) == rate {
		return
	}
	if sc, ok := c.Conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = shrink(raw, rate) // if closed meanwhile, the read fails
		}
	}
}

// Stirred reports whether data has arrived on a connection where none is expected, or it has ended;
// false if unknown. A connection that has stirred must not be used any more.
func Stirred(c net.Conn) bool {
	if k, ok := c.(*Conn); ok {
		c = k.Conn
	}
	return stirred(c)
}

// Outgrown reports whether the kernel's buffer is still that of a higher limit, or of none. A
// reduced buffer takes effect only after the window offered to the sender is used up, so an idle
// connection should be replaced.
func (c *Conn) Outgrown() bool {
	rate, sized := c.line.Down.Rate(), c.sized.Load()
	return rate > 0 && (sized == 0 || sized > rate)
}

// Held returns the total time that the connection waited for the download limiter.
func (c *Conn) Held() time.Duration { return time.Duration(c.held.Load()) }

// Read reads at most a piece while there is a limit.
func (c *Conn) Read(p []byte) (int, error) {
	down := c.line.Down
	if down.Rate() == 0 || len(p) == 0 {
		n, err := c.Conn.Read(p)
		c.left.Store(0)
		down.Spent(c.class, n) // a limit may have been set meanwhile
		return n, err
	}
	c.resize(down.Rate())
	p = p[:min(len(p), down.Piece())]
	there, ok, err := peek(c.Conn, p)
	if err != nil {
		return 0, err
	}
	if !ok { // not supported by this system: read first, pay then
		n, err := c.Conn.Read(p)
		if werr := c.wait(&c.read, down, n); werr != nil && err == nil {
			down.Spent(c.class, n)
		}
		return n, err
	}
	if there == 0 { // the end, or an error, which costs nothing
		return c.Conn.Read(p)
	}
	if c.class == Sites {
		c.reconcile(there)
	}
	if err := c.wait(&c.read, down, there); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p[:there])
	if c.class == Sites { // as many may replace them, if the answer continues
		c.due.Add(int64(there))
		c.left.Add(int64(-n))
	} else {
		down.Return(c.class, there-n)
	}
	return n, err
}

// expect pays for the part of an answer that the kernel will receive before the first read.
func (c *Conn) expect() error {
	rate := c.line.Down.Rate()
	if rate == 0 || c.class != Sites {
		return nil
	}
	if c.due.Load() > 0 {
		return nil
	}
	n := buffer(rate)
	if err := c.wait(&c.write, c.line.Down, n); err != nil {
		return err
	}
	c.due.Add(int64(n))
	return nil
}

// reconcile settles the difference between the bytes received since the last call and those paid
// for.
func (c *Conn) reconcile(there int) {
	came := int64(there) - c.left.Swap(int64(there))
	if more := int(came - c.due.Swap(0)); more > 0 {
		c.line.Down.Spent(c.class, more)
	} else {
		c.line.Down.Return(c.class, -more)
	}
}

// Rest declares that nothing more will arrive until the next Write.
func (c *Conn) Rest() { c.line.Down.Return(c.class, int(c.due.Swap(0))) }

// Write writes a piece at a time while there is a cap.
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.expect(); err != nil {
		return 0, err
	}
	up := c.line.Up
	for {
		part := p[n:min(len(p), n+up.Piece())]
		if up.Rate() == 0 {
			part = p[n:]
		}
		if err := c.wait(&c.write, up, len(part)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(part)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// wait waits for the limiter to grant n bytes, until the deadline.
func (c *Conn) wait(d *deadline, l *Limiter, n int) error {
	if l.Rate() == 0 {
		return l.Wait(context.Background(), c.class, n)
	}
	begun := time.Now()
	err := l.Wait(d.context(), c.class, n)
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
	c.read.set(time.Unix(1, 0))
	c.write.set(time.Unix(1, 0))
	c.Rest()
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// deadline is a deadline that can be moved while a call waits for it. Zero: none. It has a context
// only while a call waits.
type deadline struct {
	mu     sync.Mutex // guards the rest
	at     time.Time
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of waiting calls; replaced when the deadline moves
	timer  *time.Timer
}

// set moves the deadline, also for waiting calls.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.ctx != nil {
		d.arm()
	}
}

// context returns a context that ends at the deadline.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || d.ctx.Err() != nil {
		d.ctx, d.cancel = context.WithCancel(context.Background())
	}
	d.arm()
	return d.ctx
}

// arm schedules the end of the context.
func (d *deadline) arm() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.at.IsZero() {
		return
	}
	left := time.Until(d.at)
	if left <= 0 {
		d.cancel()
		return
	}
	d.timer = time.AfterFunc(left, d.cancel)
}
