package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/link"
)

// Fetcher makes exchanges and pools the connections between them.
type Fetcher struct {
	config Config
	fields string // constant request fields
	dialer net.Dialer
	tls    *tls.Config
	h2     *http.Transport
	pool   *pool
	// onlyHTTP2 are keys of targets that negotiate no protocol and do not answer HTTP/1.1.
	onlyHTTP2 *lru.Cache[string, struct{}]
	large     chan struct{} // slots of large handshakes
}

// maxOnlyHTTP2 bounds Fetcher.onlyHTTP2.
const maxOnlyHTTP2 = 1024

// New returns a Fetcher without connections.
func New(config Config) (*Fetcher, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	onlyHTTP2, err := lru.New[string, struct{}](maxOnlyHTTP2)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{
		config: config,
		fields: fixedFields(&config),
		dialer: net.Dialer{KeepAlive: -1}, // a broken idle connection is detected at its next use
		tls:    tlsConfig(&config),
		h2:     newHTTP2(),
		pool:   &pool{maxIdle: config.MaxIdleConns, hosts: make(map[string]*hostConns)},
		large:  make(chan struct{}, largeHandshakes),

		onlyHTTP2: onlyHTTP2,
	}
	if config.Line != nil {
		f.dialer.Control = config.Line.Control
	}
	if config.LocalAddr.IsValid() {
		f.dialer.LocalAddr = &net.TCPAddr{IP: config.LocalAddr.AsSlice(), Zone: config.LocalAddr.Zone()}
	}
	return f, nil
}

// Close closes the idle connections. Exchanges under way continue; their connections are closed
// afterwards.
func (f *Fetcher) Close() { f.pool.close() }

// Get makes one exchange and returns the response, whatever its status; the caller must release it.
// Requests to one scheme, host and port are serialized. The end of ctx ends the
// exchange at once, at any point.
//
// A request on a connection that the server had closed meanwhile is sent once more on a new one,
// unless the server may have received it and Request.Once is set.
func (f *Fetcher) Get(ctx context.Context, req *Request) (*Response, error) {
	t, err := parseTarget(req.URL)
	if err == nil {
		err = checkHeader(req.Header)
	}
	if err != nil {
		return nil, &Error{Outcome: link.OutcomeOutOfScope, Phase: PhaseRequest, URL: req.URL, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fetch %s: %w", req.URL, context.Cause(ctx))
	}
	c, err := f.pool.take(ctx, t.key)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: wait for a connection: %w", req.URL, err)
	}
	x := exchange{f: f, ctx: ctx, target: &t, req: req, end: time.Now().Add(f.config.lab.TotalTimeout)}
	resp, c, err := x.run(c) //nolint:contextcheck // x holds ctx
	f.pool.give(t.key, c)
	return resp, err
}

// exchange is one call of Get that has a connection slot.
type exchange struct {
	f      *Fetcher
	ctx    context.Context //nolint:containedctx // lives as long as the call of Get
	target *target
	req    *Request
	end    time.Time // of totalTimeout

	waited atomic.Int64 // nanoseconds of waiting for memory
	base   int64        // memory of the exchange beside the buffer of its body
	unslot func()       // releases the slot of a wide decoder, nil without one
}

// run makes the exchange over c or, if c is nil or was closed meanwhile, over a new connection. The
// connection returned may be reused.
func (x *exchange) run(c *conn) (*Response, *conn, error) {
	// Unsolicited bytes would be taken for the answer to the next request. HTTP/2 connections detect
	// them themselves, as they read all the time.
	if c != nil && c.h2 == nil && bandwidth.Stirred(c.meter.Conn) {
		c.close()
		c = nil
	}
	if c != nil {
		resp, err := x.over(c)
		if !errors.Is(err, errStale) {
			return resp, c.orClosed(), err
		}
		c.close()
		if x.req.Once && errors.Is(err, errUnanswered) {
			return nil, nil, fmt.Errorf("fetch %s: %w", x.req.URL, ErrStale)
		}
	}
	c, err := x.f.dial(x.ctx, x.target, x.end)
	if err != nil {
		return nil, nil, err
	}
	if err := x.carry(c); err != nil {
		c.close()
		return nil, nil, x.fail(PhaseTLS, err)
	}
	resp, err := x.over(c)
	if errors.Is(err, errOnlyHTTP2) {
		c.close()
		x.f.onlyHTTP2.Add(strings.Clone(x.target.key), struct{}{})
		if x.req.Once {
			return nil, nil, fmt.Errorf("fetch %s: %w", x.req.URL, ErrStale)
		}
		return x.run(nil)
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Phase == PhaseHead && c.h2 != nil && c.unagreed {
		x.f.onlyHTTP2.Remove(x.target.key)
	}
	return resp, c.orClosed(), err
}

// over makes the exchange over one connection, which is marked broken if it may not be used again.
func (x *exchange) over(c *conn) (*Response, error) {
	s := newScratch()
	resp := &Response{URL: x.req.URL, Addr: c.addr, Connect: c.took, scratch: s}
	private := x.f.config.HostFields[x.target.key]
	s.request = x.f.appendHead(s.request[:0], x.target, x.req, private)
	resp.RequestHead = s.request
	if private != nil && !x.f.config.ArchiveHostFields {
		resp.RequestHead = x.f.appendHead(nil, x.target, x.req, nil)
	}
	var err error
	if c.h2 != nil {
		err = x.http2(c, resp)
	} else {
		err = x.http1(c, resp)
		s.rest()
	}
	c.used = true
	if err != nil {
		resp.Release()
		return nil, err
	}
	return resp, nil
}

// permit checks the caller's permit, right before writing.
func (x *exchange) permit(c *conn) error {
	if x.ctx.Err() != nil {
		return fmt.Errorf("fetch %s: %w", x.req.URL, context.Cause(x.ctx))
	}
	if x.f.config.Refused != nil && x.f.config.Refused(c.addr.Addr()) { // it may have been idle for long
		c.broken = true
		return x.fail(PhaseConnect, fmt.Errorf("%s: %w", c.addr.Addr(), ErrRefusedAddress))
	}
	if x.req.Permit == nil {
		return nil
	}
	if err := x.req.Permit(c.addr.Addr()); err != nil {
		return fmt.Errorf("fetch %s: %w: %w", x.req.URL, ErrNotPermitted, err)
	}
	return nil
}

func (x *exchange) fail(phase Phase, err error) error { return fail(x.ctx, x.req.URL, phase, err) }

// failBody is fail for a response whose head was received.
func (x *exchange) failBody(resp *Response, err error) error {
	err = x.fail(PhaseBody, err)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Answered = &Response{
			URL: resp.URL, Status: resp.Status, Proto: resp.Proto, Header: resp.Header, Addr: resp.Addr, Connect: resp.Connect, Start: resp.Start, TTFB: resp.TTFB,
		}
	}
	return err
}

// headWithin returns the timeout of the response head.
func (x *exchange) headWithin() time.Duration {
	if most := x.f.config.lab.HeaderTimeout; x.req.HeadWithin <= 0 || x.req.HeadWithin > most {
		return most
	}
	return x.req.HeadWithin
}

// limit returns the size limit of this body.
func (x *exchange) limit() int64 {
	if x.req.MaxBytes > 0 {
		return x.req.MaxBytes
	}
	return x.f.config.MaxBody
}

// Resolver finds the addresses of a name. The Fetcher does not modify the slice.
type Resolver interface {
	// Lookup returns the addresses in the order in which they are to be tried.
	Lookup(ctx context.Context, host string) ([]netip.Addr, error)
}

// Config is the configuration of a Fetcher. Comments name the default of a field where zero selects
// one.
type Config struct {
	// UserAgent is the value of User-Agent. Required.
	UserAgent string
	// From is the operator's mail address, sent in the From field. Empty: not sent.
	From string
	// HostFields are additional fields for some hosts. They are omitted from archived request heads,
	// unless ArchiveHostFields is set.
	HostFields        HostFields
	ArchiveHostFields bool // see HostFields
	// Resolver finds addresses. Required.
	Resolver Resolver
	// AllowPrivate disables the address guard: loopback, private and similar addresses are dialed.
	AllowPrivate bool
	// AllowPrefixes are exempt from the address guard, as are IPv6 addresses that embed an IPv4
	// address in them.
	AllowPrefixes []netip.Prefix
	// Refused, if not nil, reports whether an address has opted out of all requests. It must not
	// block.
	Refused func(addr netip.Addr) bool
	// LocalAddr is the source address of connections. Zero: chosen by the system. Addresses of the
	// other family are not dialed.
	LocalAddr netip.Addr
	// Dial connects to an address that the guard has admitted. Nil: the system's TCP. For tests, and
	// for in-memory networks.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Line carries all bytes of connections, beneath TLS, and applies the peer's bandwidth limit.
	// Timeouts are extended by the time that it delays an exchange. Nil: there is never a limit.
	Line *bandwidth.Line

	// MaxBody bounds a body, both on the wire and decoded. Zero: 16 MiB.
	MaxBody int64
	// MaxIdleConns bounds the idle connections to all hosts; the one idle longest is closed first.
	// Zero: DefaultIdleConns.
	MaxIdleConns int

	lab lab
}

// lab is what only tests change.
type lab struct {
	TLSTimeout, HeaderTimeout, TotalTimeout time.Duration  // zero: the constants
	MinRate                                 int            // zero: minRate; negative: none
	InsecureTLS                             bool           // accepts any certificate
	RootCAs                                 *x509.CertPool // certificates trusted; nil: the system's
}

// DefaultIdleConns is the default of Config.MaxIdleConns.
const DefaultIdleConns = 1024

const (
	// connectTimeout bounds the TCP connect, over all addresses of a host.
	connectTimeout = 10 * time.Second
	// tlsTimeout bounds the TLS handshake.
	tlsTimeout = 10 * time.Second
	// headerTimeout bounds writing the request and waiting for the whole response head.
	headerTimeout = 20 * time.Second
	// totalTimeout bounds the exchange from the start of its turn to the last byte, without local
	// processing between reads.
	totalTimeout = 60 * time.Second
	// minRate is the minimum rate of a body in bytes a second, measured on the wire from the end of
	// the head, after minRateGrace, so that a slow site does not occupy a worker.
	minRate      = 1 << 10
	minRateGrace = 10 * time.Second
	// maxBody is the default of Config.MaxBody.
	maxBody = 16 << 20
	// maxHeader bounds a response head.
	maxHeader = 64 << 10
	// idleTimeout is how long an idle connection is kept open. Servers close theirs after 5 to 75 s; a
	// connection closed by its server occupies a descriptor until then.
	idleTimeout = 45 * time.Second
)

func (c Config) withDefaults() Config {
	c.MaxBody = cmp.Or(c.MaxBody, maxBody)
	c.MaxIdleConns = cmp.Or(c.MaxIdleConns, DefaultIdleConns)
	c.lab.TLSTimeout = cmp.Or(c.lab.TLSTimeout, tlsTimeout)
	c.lab.HeaderTimeout = cmp.Or(c.lab.HeaderTimeout, headerTimeout)
	c.lab.TotalTimeout = cmp.Or(c.lab.TotalTimeout, totalTimeout)
	c.lab.MinRate = cmp.Or(c.lab.MinRate, minRate)
	return c
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.UserAgent == "" || !httpguts.ValidHeaderFieldValue(c.UserAgent):
		return fmt.Errorf("fetch config: UserAgent: %q is not a valid field value", c.UserAgent)
	case !httpguts.ValidHeaderFieldValue(c.From):
		return fmt.Errorf("fetch config: From: %q is not a valid field value", c.From)
	case c.Resolver == nil:
		return errors.New("fetch config: Resolver: must not be nil")
	case c.MaxBody < 0 || c.MaxIdleConns < 0:
		return errors.New("fetch config: limits must not be negative")
	}
	return nil
}
