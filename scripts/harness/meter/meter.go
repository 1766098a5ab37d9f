//go:build linux

// Package meter counts the bytes that servers of a trial and a peer send each other, as the peer's
// kernel sees them.
package meter

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tick is how finely bytes are told apart in time.
const Tick = 5 * time.Millisecond

// Meter counts the bytes of servers' connections: down when the peer's kernel has acknowledged
// them, since what the servers' own only keep is not on the line; up when a server reads them.
type Meter struct {
	begun time.Time

	mu    sync.Mutex // guards the rest
	down  []int64    // by tick
	up    []int64
	conns map[*conn]struct{}
}

// New returns a meter, which counts from now on.
func New() *Meter { return &Meter{begun: time.Now(), conns: make(map[*conn]struct{})} }

// Run looks at all connections, tick by tick, until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	for looked := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		m.mu.Lock()
		n := int64(0)
		for c := range m.conns {
			n += c.arrived()
		}
		now := time.Now()
		m.add(&m.down, looked, now, n)
		m.mu.Unlock()
		looked = now
	}
}

// add counts bytes that came between two moments, evenly: on a machine that is busy a look may come
// late, and what it finds did not all come at its moment.
func (m *Meter) add(to *[]int64, from, until time.Time, n int64) {
	first, last := int(from.Sub(m.begun)/Tick), int(until.Sub(m.begun)/Tick)
	for len(*to) <= last {
		*to = append(*to, 0)
	}
	spans := int64(last - first + 1)
	for i := range spans {
		(*to)[first+int(i)] += n*(i+1)/spans - n*i/spans
	}
}

// Between is what came in a span.
func (m *Meter) Between(from, to time.Time) (down, up int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sum(m.span(m.down, from, to)), sum(m.span(m.up, from, to))
}

func (m *Meter) span(list []int64, from, to time.Time) []int64 {
	last := min(int(to.Sub(m.begun)/Tick), len(list))
	return list[max(min(int(from.Sub(m.begun)/Tick), last), 0):max(last, 0)]
}

func sum(list []int64) (n int64) {
	for _, b := range list {
		n += b
	}
	return n
}

// Windows looks at all spans of a second within a longer one: the fullest, and the share of those
// above a bound.
func (m *Meter) Windows(from, to time.Time, bound int64) (most int64, above float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const width = int(time.Second / Tick)
	list := m.span(m.down, from, to)
	var in int64
	count, over := 0, 0
	for i, n := range list {
		if in += n; i < width-1 {
			continue
		}
		count++
		if most = max(most, in); in > bound {
			over++
		}
		in -= list[i-width+1]
	}
	return most, float64(over) / float64(max(count, 1))
}

// LastByte is when the last byte of a span went either way.
func (m *Meter) LastByte(from, to time.Time) time.Time {
	last := from
	for at := from; at.Before(to); at = at.Add(Tick) {
		if down, up := m.Between(at, at.Add(Tick)); down+up > 0 {
			last = at.Add(Tick)
		}
	}
	return last
}

// Listener has the connections of a server counted.
type Listener struct {
	net.Listener
	Meter *Meter
}

// sendBuffer is what the kernel may take of the server before the peer does, in bytes: as little as
// it lets one set.
const sendBuffer = 4 << 10

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn) // it listens at TCP
	_ = tcp.SetWriteBuffer(sendBuffer)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: tcp, raw: raw, meter: l.Meter}
	l.Meter.mu.Lock()
	defer l.Meter.mu.Unlock()
	l.Meter.conns[k] = struct{}{}
	return k, nil
}

type conn struct {
	net.Conn
	raw     syscall.RawConn
	meter   *Meter
	counted int64 // guarded by the meter
}

// arrived is how many bytes the peer's kernel has acknowledged since it was asked last. (What was
// written and is not kept any more would count the bytes of a long write all at its end.)
func (c *conn) arrived() int64 {
	var info *unix.TCPInfo
	if err := c.raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil || info == nil {
		return 0
	}
	n := int64(info.Bytes_acked) - c.counted // no connection here carries that much
	c.counted += n
	return n
}

// Close ends the counting with what has arrived until then.
func (c *conn) Close() error {
	c.meter.mu.Lock()
	now := time.Now()
	c.meter.add(&c.meter.down, now, now, c.arrived())
	delete(c.meter.conns, c)
	c.meter.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	now := time.Now()
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	c.meter.add(&c.meter.up, now, now, int64(n))
	return n, err
}
