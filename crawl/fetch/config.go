package fetch

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/bandwidth"
)

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
