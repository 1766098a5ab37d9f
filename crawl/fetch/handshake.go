package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a TLS handshake. A typical server sends four thousand bytes. Go accepts certificates of
// 256 KiB, whose parsed form can be fifty times as large: a name fits in three bytes.
const (
	// maxHandshake bounds the bytes that a server may send in it; OpenSSL has the same limit for
	// certificates.
	maxHandshake = 100 << 10
	// freeHandshake is the size up to which a handshake needs no slot. Of larger ones, largeHandshakes
	// are under way at once.
	freeHandshake   = 16 << 10
	largeHandshakes = 4
	// mostIdle bounds the memory of certificates that an idle connection or a cached session may hold,
	// with a ticket: there are hundreds of both. Larger ones count as memory of the exchange, and are
	// released with it.
	mostIdle = 64 << 10
)

var errLongHandshake = fmt.Errorf("handshake exceeds %d bytes", maxHandshake)

// greeting is the data that a server sent in the handshake of one connection. It is also the
// session cache of the connection, which omits large sessions.
type greeting struct {
	tls.ClientSessionCache
	weight int64       // of the certificates, once they are parsed
	heavy  atomic.Bool // the connection is too large to be kept idle; HTTP/2 reads in a goroutine of its own
}

// look is called in the handshake, before a session can be cached.
func (g *greeting) look(state tls.ConnectionState) error {
	g.weight = 4 * int64(len(state.OCSPResponse))
	for _, cert := range state.PeerCertificates {
		g.weight += weigh(cert)
	}
	g.heavy.Store(g.weight > mostIdle)
	return nil
}

// Put implements tls.ClientSessionCache.
func (g *greeting) Put(key string, session *tls.ClientSessionState) {
	ticket, _, err := session.ResumptionState()
	if err != nil || g.weight+int64(len(ticket)) > mostIdle {
		g.heavy.Store(true)
		session = nil
	}
	g.ClientSessionCache.Put(key, session)
}

// weigh returns the approximate memory of a certificate: its bytes, of which crypto/tls has three
// copies, and the parsed form of those parts that can be very many.
func weigh(c *x509.Certificate) int64 {
	const fixed, text, other = 3 << 10, 32, 160
	texts := len(c.DNSNames) + len(c.EmailAddresses) + len(c.OCSPServer) + len(c.IssuingCertificateURL) + len(c.CRLDistributionPoints) +
		len(c.PermittedDNSDomains) + len(c.ExcludedDNSDomains) + len(c.PermittedEmailAddresses) + len(c.ExcludedEmailAddresses) +
		len(c.PermittedURIDomains) + len(c.ExcludedURIDomains)
	others := len(c.Subject.Names) + len(c.Issuer.Names) + len(c.Extensions) + len(c.UnhandledCriticalExtensions) + len(c.ExtKeyUsage) +
		len(c.UnknownExtKeyUsage) + len(c.IPAddresses) + len(c.URIs) + len(c.PermittedIPRanges) + len(c.ExcludedIPRanges) +
		len(c.PolicyIdentifiers) + len(c.Policies) + len(c.PolicyMappings)
	return fixed + 4*int64(len(c.Raw)) + text*int64(texts) + other*int64(others)
}

// greet makes the TLS handshake for a protocol.
func (f *Fetcher) greet(ctx context.Context, c *conn, t *target, end time.Time, proto string) (*tls.Conn, error) {
	ctx, cancel := context.WithDeadline(ctx, earlier(time.Now().Add(f.config.lab.TLSTimeout), end))
	defer cancel()
	config := f.tls.Clone()
	config.ServerName, config.NextProtos = strings.Clone(strings.TrimSuffix(t.host, ".")), []string{proto} // sessions are cached by the name, a substring of a URL
	g := &greeting{ClientSessionCache: config.ClientSessionCache}
	config.ClientSessionCache, config.VerifyConnection = g, g.look
	c.meter.greets(func() error { return f.admit(ctx, c) })
	tc := tls.Client(c.meter, config)
	err := tc.HandshakeContext(ctx)
	c.meter.greets(nil)
	if err != nil {
		if c.meter.noisy.Load() {
			err = errLongHandshake
		}
		return nil, err
	}
	c.Conn, c.greeting = tc, g
	return tc, nil
}

// admit waits for a slot of large handshakes. The time counts for the handshake.
func (f *Fetcher) admit(ctx context.Context, c *conn) error {
	select {
	case f.large <- struct{}{}:
		c.unslot = sync.OnceFunc(func() { <-f.large })
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// carry counts large certificates of a connection as memory of this exchange. Without memory for
// them the connection occupies a slot until it is closed.
func (x *exchange) carry(c *conn) error {
	if c.greeting == nil || x.req.Room == nil {
		return nil
	}
	if c.greeting.heavy.Load() {
		x.base = c.greeting.weight
		if err := x.reserve(x.base); err != nil {
			return err
		}
	}
	c.leave()
	return nil
}

// closeTime is the timeout for close_notify to a server that no longer reads.
const closeTime = 250 * time.Millisecond

// forgetful is a TLS connection that is released when it is closed. net/http retains a closed
// connection for five seconds, and with it the certificates of the handshake, if it has access to
// them.
type forgetful struct {
	at            atomic.Pointer[tls.Conn]
	local, remote net.Addr
}

var _ net.Conn = (*forgetful)(nil)

func newForgetful(tc *tls.Conn) *forgetful {
	c := &forgetful{local: tc.LocalAddr(), remote: tc.RemoteAddr()}
	c.at.Store(tc)
	return c
}

// Read implements net.Conn.
func (c *forgetful) Read(p []byte) (int, error) {
	if tc := c.at.Load(); tc != nil {
		return tc.Read(p)
	}
	return 0, net.ErrClosed
}

// Write implements net.Conn.
func (c *forgetful) Write(p []byte) (int, error) {
	if tc := c.at.Load(); tc != nil {
		return tc.Write(p)
	}
	return 0, net.ErrClosed
}

// Close implements net.Conn. It takes closeTime at most.
func (c *forgetful) Close() error {
	tc := c.at.Swap(nil)
	if tc == nil {
		return net.ErrClosed
	}
	t := time.AfterFunc(closeTime, func() { _ = tc.NetConn().Close() })
	defer t.Stop()
	return tc.Close()
}

// LocalAddr implements net.Conn.
func (c *forgetful) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *forgetful) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *forgetful) SetDeadline(t time.Time) error { return c.set((*tls.Conn).SetDeadline, t) }

// SetReadDeadline implements net.Conn.
func (c *forgetful) SetReadDeadline(t time.Time) error { return c.set((*tls.Conn).SetReadDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *forgetful) SetWriteDeadline(t time.Time) error {
	return c.set((*tls.Conn).SetWriteDeadline, t)
}

func (c *forgetful) set(deadline func(*tls.Conn, time.Time) error, t time.Time) error {
	if tc := c.at.Load(); tc != nil {
		return deadline(tc, t)
	}
	return net.ErrClosed
}

// FreeBody is the size up to which a body needs no memory of Request.Room.
const FreeBody = 256 << 10

// Memory provides memory for bodies larger than FreeBody. It outlives the exchange, as the Response
// may: its creator releases what it granted.
type Memory interface {
	// Grow requests size bytes of memory in all for the body, or fewer than before; false if that is
	// not available.
	Grow(size int64) bool
	// Wait is Grow, and waits until memory is available or ctx ends.
	Wait(ctx context.Context, size int64) error
}

// sink receives the bytes of one body.
type sink struct {
	x     *exchange
	buf   []byte
	most  int64 // upper limit of its size
	known bool  // most is the length of the body, which is reserved at once
}

// newSink returns a sink that uses buf. Length is the expected length of the body, -1 if unknown;
// limit is its size limit.
func (x *exchange) newSink(buf []byte, length, limit int64) *sink {
	k := &sink{x: x, buf: buf[:0], most: limit + 1, known: length >= 0}
	if k.known {
		k.most = min(length, limit) + 1 // one more byte detects the end without growing
	}
	k.buf = slices.Grow(k.buf, int(min(max(length, readBuffer), FreeBody, limit)+1))
	return k
}

// size returns the number of bytes so far.
func (k *sink) size() int64 { return int64(len(k.buf)) }

// fill reads src until its end or one byte over limit. Packed counts the bytes before decoding, nil
// if they are not encoded. Cause is the error of src, if it failed; err is a local one, or a size
// limit.
func (k *sink) fill(src io.Reader, packed *source, limit int64) (cause, err error) {
	for {
		if len(k.buf) == cap(k.buf) {
			if err := k.more(); err != nil {
				return nil, err
			}
		}
		free := k.buf[len(k.buf):cap(k.buf)]
		n, err := src.Read(free[:min(int64(len(free)), limit+1-k.size())])
		k.buf = k.buf[:len(k.buf)+n]
		if packed != nil {
			packed.keep = packed.keep && n == 0
			if k.size() > ratioFree && k.size() > maxRatio*packed.n {
				return nil, fmt.Errorf("%d bytes decoded to %d: %w", packed.n, k.size(), ErrTooLarge)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case k.size() > limit:
			return nil, nil
		}
	}
}

// more extends the buffer: to the length of the body if it is known, else by half of its size. So a
// body of known length waits once, before its memory is in use.
func (k *sink) more() error {
	want := int64(cap(k.buf)) * 3 / 2
	switch {
	case cap(k.buf) <= FreeBody:
		want = min(want, FreeBody+1) // one more byte detects the end of FreeBody
	case k.known:
		want = k.most
	}
	want = max(min(want, k.most), k.size()+1)
	if all := k.x.base + want; all > FreeBody+1 && k.x.req.Room != nil {
		if err := k.x.reserve(all); err != nil {
			return err
		}
	}
	buf := make([]byte, len(k.buf), want)
	copy(buf, k.buf)
	k.buf = buf
	return nil
}

// end ends the body at limit, and reports whether it was longer.
func (k *sink) end(limit int64) (over bool) {
	if over = k.size() > limit; over {
		k.buf = k.buf[:limit]
	}
	return over
}

// reserve waits until a body may have size bytes of memory. The timeouts are extended, since the
// site does not cause the wait.
func (x *exchange) reserve(size int64) error {
	if x.req.Room.Grow(size) {
		return nil
	}
	if x.unslot != nil { // do not block exchanges whose end frees memory
		x.unslot()
	}
	begin := time.Now()
	err := x.req.Room.Wait(x.ctx, size)
	x.waited.Add(int64(time.Since(begin)))
	if err != nil {
		return fmt.Errorf("wait for memory: %w", err)
	}
	return nil
}
