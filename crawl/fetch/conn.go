package fetch

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
)

// conn is one connection to a host. It is used by one exchange at a time.
type conn struct {
	net.Conn // TCP, or TLS over it
	meter    *meter
	h2       *http.ClientConn // nil for HTTP/1.1
	key      string
	addr     netip.AddrPort
	took     time.Duration // to connect
	used     bool          // by an exchange before the present one
	unagreed bool          // TLS agreed on no protocol (ALPN)
	broken   bool          // not to be used again
	greeting *greeting     // nil without TLS
	unslot   func()        // gives up its place among large handshakes, nil without one

	idleSince time.Time     // guarded by the pool
	place     *list.Element // in the pool's list
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// abort makes whatever waits on the connection return at once.
func (c *conn) abort() { _ = c.SetDeadline(longAgo) }

// stirred says that a connection which lay idle has ended, or has bytes that nobody asked for: they
// would be taken for the answer to the next request. Of HTTP/2 it is known otherwise: there
// something reads all the time.
func (c *conn) stirred() bool { return c.h2 == nil && bandwidth.Stirred(c.meter.Conn) }

// orClosed returns the connection if it can be used again; otherwise it closes it and returns nil.
func (c *conn) orClosed() *conn {
	if c.broken || c.greeting != nil && c.greeting.heavy.Load() {
		c.close()
		return nil
	}
	return c
}

// close closes the connection. Nothing is done about an error: there is nobody that it would tell
// anything.
func (c *conn) close() {
	c.leave()
	if c.h2 != nil {
		_ = c.h2.Close()
		return
	}
	_ = c.Conn.Close()
}

// leave gives up its place among large handshakes.
func (c *conn) leave() {
	if c.unslot != nil {
		c.unslot()
	}
}

// Bounds on what an HTTP/2 server may send that is no part of a body: frames of priorities,
// settings, pings, windows, types that nobody knows. The reader of frames answers or skips them for
// as long as they come, whether anybody waits for a response or not.
const (
	// headNoise is how much of that an exchange may bring beside twice the bound of the head; what
	// comes of a body before it is read counts too.
	headNoise = 2 * FreeBody
	// idleNoise is how much of that a connection may bring while nothing was asked: a goodbye, a
	// change of settings.
	idleNoise = 16 << 10
	// bodyNoise is how many bytes may come over the wire for each of a body: servers that write
	// little at a time send frames of a few bytes.
	bodyNoise = 8
)

// meter counts the bytes that come over the wire, beneath TLS, and ends a connection that brings
// more than is allowed.
type meter struct {
	net.Conn
	n     atomic.Int64 // HTTP/2 reads in a goroutine of its own
	most  atomic.Int64 // that n may come to; zero: no bound
	noisy atomic.Bool  // it was beyond
	admit func() error // asked once before more than freeHandshake is read; nil if that was done, and beside the handshake
}

// greets bounds what comes in a handshake that begins now; without admit it has ended.
func (m *meter) greets(admit func() error) {
	if m.admit = admit; admit == nil {
		m.most.Store(0)
		return
	}
	m.allow(maxHandshake)
}

// Read counts what was read.
func (m *meter) Read(p []byte) (int, error) {
	if m.admit != nil {
		if free := freeHandshake - m.n.Load(); free > 0 {
			p = p[:min(int64(len(p)), free)]
		} else if err := m.admit(); err != nil {
			return 0, err
		} else {
			m.admit = nil
		}
	}
	n, err := m.Conn.Read(p)
	if most := m.most.Load(); m.n.Add(int64(n)) > most && most > 0 {
		m.noisy.Store(true)
		return 0, errNoise
	}
	return n, err
}

// allow bounds what may come from now on.
func (m *meter) allow(n int64) { m.most.Store(m.n.Load() + n) }

// held is how long the connection waited for its turn on the line so far.
func (m *meter) held() time.Duration {
	if c, ok := m.Conn.(*bandwidth.Conn); ok {
		return c.Held()
	}
	return 0
}

// rest says that nothing is expected on the connection.
func (m *meter) rest() {
	if m.most.Load() > 0 {
		m.allow(idleNoise)
	}
	if c, ok := m.Conn.(*bandwidth.Conn); ok {
		c.Rest()
	}
}

// outgrown says that the connection may bring more unasked than the line's cap allows by now.
func (m *meter) outgrown() bool {
	c, ok := m.Conn.(*bandwidth.Conn)
	return ok && c.Outgrown()
}

// Progress is how far an exchange has come, for others to look at meanwhile.
type Progress struct {
	// Bytes came over the wire so far; with HTTP/2, bytes of the body.
	Bytes atomic.Int64
	// Total is how many there will be; zero while that is not known.
	Total atomic.Int64
	// Held is how long the exchange waited for its turn on the line so far, in nanoseconds.
	Held atomic.Int64
}

// track tells what is looked at meanwhile, if anybody does.
type track struct {
	progress *Progress
	meter    *meter
	before   time.Duration // held in exchanges before
	waited   *atomic.Int64 // for memory, in nanoseconds
}

func (x *exchange) track(c *conn) track {
	return track{progress: x.req.Progress, meter: c.meter, before: c.meter.held(), waited: &x.waited}
}

// held is for how long this exchange was, by the line or for want of memory.
func (t *track) held() time.Duration {
	return t.meter.held() - t.before + time.Duration(t.waited.Load())
}

// came notes bytes.
func (t *track) came(n int) {
	if t.progress != nil && n > 0 {
		t.progress.Bytes.Add(int64(n))
		t.progress.Held.Store(int64(t.held()))
	}
}

// left notes how many bytes are still to come, if that is known.
func (t *track) left(n int64) {
	if t.progress != nil && n >= 0 {
		t.progress.Total.Store(t.progress.Bytes.Load() + n)
	}
}

// maxHeld bounds the time that is given back to an exchange which had to wait for its turn on the
// line, for memory or for this side.
const maxHeld = 10 * time.Minute

// pace says until when the next bytes of a response are waited for.
type pace struct {
	end     time.Time // of the exchange
	headEnd time.Time // of waiting for the head
	body    time.Time // when the body began; zero before
	grace   time.Duration
	rate    int // bytes a second; not positive: none
	got     int64
	track   track
	own     time.Duration // what this side took between reads, besides waiting for memory
	left    time.Time     // when the last read ended
	waited  int64         // track.waited at that moment
}

// next returns the deadline of a read that begins, and the error if it passes. Time does not count
// that the line took away, or that this side took since the last read to unpack, copy or write to
// disk: it is no fault of the site's.
func (p *pace) next() (time.Time, error) {
	if !p.left.IsZero() {
		p.own += time.Since(p.left) - time.Duration(p.track.waited.Load()-p.waited)
		p.left = time.Time{}
	}
	held := min(p.track.held()+p.own, maxHeld)
	end := p.end.Add(held)
	if p.body.IsZero() {
		return earlier(p.headEnd.Add(held), end), errTimeout
	}
	if p.rate <= 0 {
		return end, errTimeout
	}
	due := p.body.Add(p.grace + held + time.Duration(p.got)*time.Second/time.Duration(p.rate))
	if due.Before(end) {
		return due, errTooSlow
	}
	return end, errTimeout
}

// came notes the end of a read, which brought n bytes.
func (p *pace) came(n int) {
	p.got += int64(n)
	p.track.came(n)
	p.left, p.waited = time.Now(), p.track.waited.Load()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
