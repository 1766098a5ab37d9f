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

	// ConnectTimeout bounds the TCP connect, over all addresses of a host. Zero: 10 s.
	ConnectTimeout time.Duration
	// TLSTimeout bounds the TLS handshake. Zero: 10 s.
	TLSTimeout time.Duration
	// HeaderTimeout bounds writing the request and waiting for the whole response head. Zero: 20 s.
	HeaderTimeout time.Duration
	// TotalTimeout bounds the exchange from the start of its turn to the last byte, without local
	// processing between reads. Zero: 60 s.
	TotalTimeout time.Duration
	// MinRate is the minimum rate of a body in bytes a second, measured on the wire from the end of
	// the head, after MinRateGrace, so that a slow site does not occupy a worker. Zero: 1 KiB/s after
	// 10 s. Negative: no minimum.
	MinRate      int
	MinRateGrace time.Duration // time after the head without a minimum

	// MaxBody bounds a body, both on the wire and decoded. Zero: 16 MiB.
	MaxBody int64
	// MaxHeader bounds a response head. Zero: 64 KiB.
	MaxHeader int
	// MaxConnsPerHost bounds the connections to one scheme, host and port; further requests wait.
	// Zero: 1.
	MaxConnsPerHost int
	// MaxIdleConns bounds the idle connections to all hosts; the one idle longest is closed first.
	// Zero: 512.
	MaxIdleConns int
	// IdleTimeout is how long an idle connection is kept open. Zero: 45 s. Servers close theirs after
	// 5 to 75 s; a connection closed by its server occupies a descriptor until then.
	IdleTimeout time.Duration

	// InsecureTLS accepts any certificate. RootCAs are the trusted ones; nil: the system's.
	InsecureTLS bool
	RootCAs     *x509.CertPool // certificates trusted; nil: the system's
}

// DefaultConfig returns the defaults; UserAgent and Resolver have none.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout:  10 * time.Second,
		TLSTimeout:      10 * time.Second,
		HeaderTimeout:   20 * time.Second,
		TotalTimeout:    60 * time.Second,
		MinRate:         1 << 10,
		MinRateGrace:    10 * time.Second,
		MaxBody:         16 << 20,
		MaxHeader:       64 << 10,
		MaxConnsPerHost: 1,
		MaxIdleConns:    1024,
		IdleTimeout:     45 * time.Second,
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, d.ConnectTimeout)
	c.TLSTimeout = cmp.Or(c.TLSTimeout, d.TLSTimeout)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, d.HeaderTimeout)
	c.TotalTimeout = cmp.Or(c.TotalTimeout, d.TotalTimeout)
	c.MinRate = cmp.Or(c.MinRate, d.MinRate)
	c.MinRateGrace = cmp.Or(c.MinRateGrace, d.MinRateGrace)
	c.MaxBody = cmp.Or(c.MaxBody, d.MaxBody)
	c.MaxHeader = cmp.Or(c.MaxHeader, d.MaxHeader)
	c.MaxConnsPerHost = cmp.Or(c.MaxConnsPerHost, d.MaxConnsPerHost)
	c.MaxIdleConns = cmp.Or(c.MaxIdleConns, d.MaxIdleConns)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, d.IdleTimeout)
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
	case c.ConnectTimeout < 0 || c.TLSTimeout < 0 || c.HeaderTimeout < 0 || c.TotalTimeout < 0 || c.MinRateGrace < 0 || c.IdleTimeout < 0:
		return errors.New("fetch config: timeouts must not be negative")
	case c.MaxBody < 0 || c.MaxHeader < 0 || c.MaxConnsPerHost < 0 || c.MaxIdleConns < 0:
		return errors.New("fetch config: limits must not be negative")
	}
	return nil
}
