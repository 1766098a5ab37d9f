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

// Conn is a connection whose bytes pass the limiters of a line: reads that of what comes down,
// writes that of what goes up. A read waits until something is there, then for its turn, and then
// takes it. So an idle connection holds nothing that others could use, and what is not read stays
// with the sender, but for the kernel's buffer (see [Line.Control]).
//
// On a connection to a site that buffer is paid for: what it will take in of an answer before the
// question goes out, what comes in its place by each read. Deadlines bound the wait for a turn as
// well.
type Conn struct {
	net.Conn
	line        *Line
	class       Class
	read, write deadline
	held        atomic.Int64 // nanoseconds
	due         atomic.Int64 // bytes that were paid for and not seen yet, of connections to sites
	left        atomic.Int64 // bytes that were seen and not read
	sized       atomic.Int64 // the cap that the kernel's buffer was last sized for, of connections to sites
}

// Conn puts a connection on the line. Without a cap it costs a few atomic additions a call.
func (l *Line) Conn(c net.Conn, class Class) *Conn {
	k := &Conn{Conn: c, line: l, class: class}
	k.sized.Store(l.Down.Rate())
	return k
}

// resize makes the kernel's buffer as large as the cap allows, which has changed since the
// connection was made: a larger one would let more come unasked. Connections to peers are few and
// carry leases; theirs are left alone.
func (c *Conn) resize(rate int64) {
	if c.class != Sites || rate == 0 || c.sized.Swap(rate) == rate {
		return
	}
	if sc, ok := c.Conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = shrink(raw, rate) // closed meanwhile: the read says so
		}
	}
}

// Stirred says of a connection on which nothing is expected that something has come all the same,
// or that it has ended. What is not known counts as no. A connection that has stirred must not be
// used any more.
func Stirred(c net.Conn) bool {
	if k, ok := c.(*Conn); ok {
		c = k.Conn
	}
	return stirred(c)
}

// Outgrown says that the kernel's buffer is still that of a wider cap, or of none. A buffer that is
// made smaller takes effect only once what was offered to the sender has come, so a connection that
// is idle had better be replaced.
func (c *Conn) Outgrown() bool {
	rate, sized := c.line.Down.Rate(), c.sized.Load()
	return rate > 0 && (sized == 0 || sized > rate)
}

// Held is how long the connection waited for the turn of what comes down so far, all together.
func (c *Conn) Held() time.Duration { return time.Duration(c.held.Load()) }

// Read reads no more than a piece while there is a cap.
func (c *Conn) Read(p []byte) (int, error) {
	down := c.line.Down
	if down.Rate() == 0 || len(p) == 0 {
		n, err := c.Conn.Read(p)
		c.left.Store(0)
		down.Spent(c.class, n) // a cap may have come meanwhile
		return n, err
	}
	c.resize(down.Rate())
	p = p[:min(len(p), down.Piece())]
	there, ok, err := peek(c.Conn, p)
	if err != nil {
		return 0, err
	}
	if !ok { // this system cannot tell: take first, pay then
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
	if c.class == Sites { // as many will come instead, if the answer goes on
		c.due.Add(int64(there))
		c.left.Add(int64(-n))
	} else {
		down.Return(c.class, there-n)
	}
	return n, err
}

// expect pays for what the kernel will take in of an answer before any of it is looked at.
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

// reconcile compares what came since the last look with what was paid for.
func (c *Conn) reconcile(there int) {
	came := int64(there) - c.left.Swap(int64(there))
	if more := int(came - c.due.Swap(0)); more > 0 {
		c.line.Down.Spent(c.class, more)
	} else {
		c.line.Down.Return(c.class, -more)
	}
}

// Rest says that nothing more will come until the next Write.
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

// wait waits for n bytes' turn, no longer than the deadline.
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

// Close closes the connection and ends what waits on it.
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

// deadline is a moment that can be moved while somebody waits for it. The zero deadline never
// comes. It is a context's only where somebody waits for a turn.
type deadline struct {
	mu     sync.Mutex // guards the rest
	at     time.Time
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // made for who waits, and moved under it
	timer  *time.Timer
}

// set moves the deadline, also for those that wait.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.ctx != nil {
		d.arm()
	}
}

// context ends at the deadline.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || d.ctx.Err() != nil {
		d.ctx, d.cancel = context.WithCancel(context.Background())
	}
	d.arm()
	return d.ctx
}

// arm has the context end when it should.
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
