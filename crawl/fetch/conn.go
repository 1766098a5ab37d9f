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
	used     bool          // by an earlier exchange
	unagreed bool          // no protocol negotiated by ALPN
	broken   bool          // not to be used again
	greeting *greeting     // nil without TLS
	unslot   func()        // releases its slot of large handshakes, nil without one

	idleSince time.Time     // guarded by the pool
	place     *list.Element // in the pool's list
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// abort makes all reads and writes on the connection return at once.
func (c *conn) abort() { _ = c.SetDeadline(longAgo) }

// orClosed returns the connection if it can be used again; otherwise it closes it and returns nil.
func (c *conn) orClosed() *conn {
	if c.broken || c.greeting != nil && c.greeting.heavy.Load() {
		c.close()
		return nil
	}
	return c
}

// close closes the connection. An error is ignored, since nothing depends on it.
func (c *conn) close() {
	c.leave()
	if c.h2 != nil {
		_ = c.h2.Close()
		return
	}
	_ = c.Conn.Close()
}

// leave releases its slot of large handshakes.
func (c *conn) leave() {
	if c.unslot != nil {
		c.unslot()
	}
}

// Limits on what an HTTP/2 server may send that is not part of a body: frames of priorities,
// settings, pings, windows, unknown types. The frame reader answers or skips them as long as they
// arrive, even if no response is awaited.
const (
	// headNoise is the limit of such bytes for an exchange, beside twice the limit of the head; bytes
	// of the body that arrive before it is read count too.
	headNoise = 2 * FreeBody
	// idleNoise is the limit of such bytes on an idle connection: GOAWAY, a change of settings.
	idleNoise = 16 << 10
	// bodyNoise is the limit of bytes on the wire for each byte of a body: servers that write small
	// pieces send frames of a few bytes.
	bodyNoise = 8
)

// meter counts the bytes received on the wire, beneath TLS, and ends a connection that exceeds its
// limit.
type meter struct {
	net.Conn
	n     atomic.Int64 // HTTP/2 reads in a goroutine of its own
	most  atomic.Int64 // limit of n; zero: no limit
	noisy atomic.Bool  // the limit was exceeded
	admit func() error // called once before more than freeHandshake is read; nil afterwards, and outside of the handshake
}

// greets sets the limit of a handshake that begins now; a nil admit marks its end.
func (m *meter) greets(admit func() error) {
	if m.admit = admit; admit == nil {
		m.most.Store(0)
		return
	}
	m.allow(maxHandshake)
}

// Read counts the bytes read.
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

// allow sets the limit of further bytes.
func (m *meter) allow(n int64) { m.most.Store(m.n.Load() + n) }

// held returns the total time for which the bandwidth limit has delayed the connection.
func (m *meter) held() time.Duration {
	if c, ok := m.Conn.(*bandwidth.Conn); ok {
		return c.Held()
	}
	return 0
}

// rest sets the limit of an idle connection.
func (m *meter) rest() {
	if m.most.Load() > 0 {
		m.allow(idleNoise)
	}
}

// outgrown reports whether the connection was made under a higher bandwidth limit.
func (m *meter) outgrown() bool {
	c, ok := m.Conn.(*bandwidth.Conn)
	return ok && c.Outgrown()
}

// Progress is the progress of an exchange, for concurrent readers.
type Progress struct {
	// Bytes were received on the wire so far; with HTTP/2, bytes of the body.
	Bytes atomic.Int64
	// Total is the expected number of bytes; zero while unknown.
	Total atomic.Int64
	// Held is the time for which the bandwidth limit delayed the exchange, in nanoseconds.
	Held atomic.Int64
}

// track updates the Progress of a request, if it has one.
type track struct {
	progress *Progress
	meter    *meter
	before   time.Duration // delay by earlier exchanges
	waited   *atomic.Int64 // for memory, in nanoseconds
}

func (x *exchange) track(c *conn) track {
	return track{progress: x.req.Progress, meter: c.meter, before: c.meter.held(), waited: &x.waited}
}

// held returns how long this exchange waited for bandwidth or memory.
func (t *track) held() time.Duration {
	return t.meter.held() - t.before + time.Duration(t.waited.Load())
}

// came adds received bytes.
func (t *track) came(n int) {
	if t.progress != nil && n > 0 {
		t.progress.Bytes.Add(int64(n))
		t.progress.Held.Store(int64(t.held()))
	}
}

// left sets the number of remaining bytes, if known.
func (t *track) left(n int64) {
	if t.progress != nil && n >= 0 {
		t.progress.Total.Store(t.progress.Bytes.Load() + n)
	}
}

// maxHeld bounds the extension of timeouts for an exchange that waited for bandwidth, memory or
// local processing.
const maxHeld = 10 * time.Minute

// pace computes the deadlines for reading a response.
type pace struct {
	end     time.Time // of the exchange
	headEnd time.Time // timeout of the head
	body    time.Time // when the body began; zero before
	grace   time.Duration
	rate    int // minimum rate in bytes a second; not positive: none
	got     int64
	track   track
	own     time.Duration // local processing between reads, without waiting for memory
	left    time.Time     // when the last read ended
	waited  int64         // track.waited at that moment
}

// next returns the deadline of a read that begins, and the error if it passes. It does not count
// delays by the bandwidth limit, or local processing since the last read (decoding, copying,
// writing to disk), which the site does not cause.
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

// came records the end of a read of n bytes.
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
