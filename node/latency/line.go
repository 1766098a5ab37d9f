package latency

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// underWay limits the bytes in flight in one direction, like a TCP window: 4 MiB over 300 ms are
	// 14 MB/s.
	underWay = 4 << 20
	// readSize is the size of a read.
	readSize = 32 << 10
	// drainTime is the timeout for delivering bytes in flight after Close, beyond the delay.
	drainTime = 5 * time.Second
)

// line is a connection with a delay in each direction. It is as safe for concurrent use as a
// net.Conn.
type line struct {
	net.Conn // the connection without a delay

	out, in                     *pipe
	readDeadline, writeDeadline *deadline
	closing                     sync.Once
	closed                      chan struct{}
}

// newLine adds a one-way delay to both directions of a connection.
func newLine(c net.Conn, oneWay time.Duration) *line {
	l := &line{
		Conn: c, out: newPipe(oneWay), in: newPipe(oneWay), readDeadline: newDeadline(), writeDeadline: newDeadline(), closed: make(chan struct{}),
	}
	go l.send()    // ends when the line is closed or a write fails
	go l.receive() // ends with the connection
	return l
}

// Write sends p. It waits while underWay bytes are in flight.
func (l *line) Write(p []byte) (int, error) {
	total := 0
	for {
		select {
		case <-l.writeDeadline.reached():
			return total, os.ErrDeadlineExceeded
		default:
		}
		n, changed, err := l.out.put(p[total:])
		total += n
		if err != nil || total == len(p) {
			return total, err
		}
		if err := await(changed, 0, l.writeDeadline, l.closed); err != nil {
			return total, err
		}
	}
}

// Read waits until data has arrived.
func (l *line) Read(p []byte) (int, error) {
	for {
		select {
		case <-l.closed:
			return 0, net.ErrClosed
		case <-l.readDeadline.reached():
			return 0, os.ErrDeadlineExceeded
		default:
		}
		n, due, changed, err := l.in.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := await(changed, due, l.readDeadline, l.closed); err != nil {
			return 0, err
		}
	}
}

// send writes data after its delay.
func (l *line) send() {
	defer l.Conn.Close()
	buf := make([]byte, readSize)
	for {
		n, due, changed, err := l.out.take(buf)
		switch {
		case err != nil:
			return
		case n > 0:
			if _, err := l.Conn.Write(buf[:n]); err != nil {
				l.out.end(err)
				l.out.discard()
				return
			}
		default:
			_ = await(changed, due, nil, nil) // without a deadline it cannot fail
		}
	}
}

// receive reads data and the end of the stream, and delays them for the reader.
func (l *line) receive() {
	buf := make([]byte, readSize)
	for {
		n, err := l.Conn.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			k, changed, perr := l.in.put(rest)
			rest = rest[k:]
			if perr != nil || len(rest) > 0 && await(changed, 0, nil, l.closed) != nil {
				return
			}
		}
		if err != nil {
			l.in.end(err)
			return
		}
	}
}

// Close closes the line; data in flight is still delivered.
func (l *line) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.out.end(net.ErrClosed)
		_ = l.Conn.SetWriteDeadline(time.Now().Add(l.out.delay + drainTime))
		_ = l.Conn.SetReadDeadline(time.Unix(1, 0)) // stop receive
	})
	return nil
}

// SetDeadline implements net.Conn.
func (l *line) SetDeadline(t time.Time) error {
	l.readDeadline.set(t)
	l.writeDeadline.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (l *line) SetReadDeadline(t time.Time) error {
	l.readDeadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (l *line) SetWriteDeadline(t time.Time) error {
	l.writeDeadline.set(t)
	return nil
}

// pipe is one direction: the data in flight with its arrival times.
type pipe struct {
	delay time.Duration

	mu      sync.Mutex // guards what follows
	queue   []parcel
	bytes   int
	err     error     // after the queued data
	errAt   time.Time // arrival of the end
	changed chan struct{}
}

// parcel is the data of one write.
type parcel struct {
	data []byte
	due  time.Time
}

func newPipe(delay time.Duration) *pipe { return &pipe{delay: delay, changed: make(chan struct{})} }

// signal wakes all waiters. The caller holds mu.
func (p *pipe) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// put queues as much of data as fits. The channel is closed at the next change of the pipe.
func (p *pipe) put(data []byte) (int, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, nil, p.failure()
	}
	n := min(len(data), underWay-p.bytes)
	if n > 0 {
		p.queue = append(p.queue, parcel{append([]byte(nil), data[:n]...), time.Now().Add(p.delay)})
		p.bytes += n
		p.signal()
	}
	return n, p.changed, nil
}

// failure returns the error for writers. The caller holds mu.
func (p *pipe) failure() error {
	if errors.Is(p.err, io.EOF) {
		return net.ErrClosed
	}
	return p.err
}

// take returns arrived data, or else the time to the next arrival: 0 if nothing is in flight. The
// channel is as in put.
func (p *pipe) take(into []byte) (n int, due time.Duration, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.queue) > 0 && n < len(into) {
		first := &p.queue[0]
		if due = first.due.Sub(now); due > 0 {
			break
		}
		k := copy(into[n:], first.data)
		n += k
		p.bytes -= k
		if first.data = first.data[k:]; len(first.data) == 0 {
			p.queue[0] = parcel{}
			p.queue = p.queue[1:]
		}
	}
	switch {
	case n > 0:
		p.signal() // there is space again
		return n, 0, nil, nil
	case len(p.queue) > 0 || p.err == nil:
		return 0, due, p.changed, nil
	}
	if due = p.errAt.Sub(now); due > 0 {
		return 0, due, p.changed, nil
	}
	return 0, 0, nil, p.err
}

// end rejects more data; data in flight arrives, then the end.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err, p.errAt = err, time.Now().Add(p.delay)
		p.signal()
	}
}

// discard drops data in flight.
func (p *pipe) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.bytes = nil, 0
	p.signal()
}

// await returns nil when changed is closed or after due, if that is not 0; otherwise the error.
func await(changed <-chan struct{}, due time.Duration, d *deadline, closed <-chan struct{}) error {
	var timer <-chan time.Time
	if due > 0 {
		t := time.NewTimer(due)
		defer t.Stop()
		timer = t.C
	}
	var over <-chan struct{}
	if d != nil {
		over = d.reached()
	}
	select {
	case <-changed:
		return nil
	case <-timer:
		return nil
	case <-over:
		return os.ErrDeadlineExceeded
	case <-closed:
		return net.ErrClosed
	}
}

// deadline is a time that can be changed during a wait for it.
type deadline struct {
	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	expired chan struct{}
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set changes the deadline; the zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer closes it
	}
	d.timer = nil
	over := false
	select {
	case <-d.expired:
		over = true
	default:
	}
	if t.IsZero() || time.Until(t) > 0 {
		if over {
			d.expired = make(chan struct{})
		}
		if !t.IsZero() {
			expired := d.expired
			d.timer = time.AfterFunc(time.Until(t), func() { close(expired) })
		}
		return
	}
	if !over {
		close(d.expired)
	}
}

// reached returns a channel that is closed at the deadline.
func (d *deadline) reached() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}
