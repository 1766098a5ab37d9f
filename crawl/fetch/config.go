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

// Resolver finds the addresses of a name. The Fetcher does not change the slice.
type Resolver interface {
	// Lookup returns the addresses in the order in which they are to be tried.
	Lookup(ctx context.Context, host string) ([]netip.Addr, error)
}

// Config is what a Fetcher obeys. The zero value of a field without a default in its comment means
// what it says.
type Config struct {
	// UserAgent names the crawler to the site. Required.
	UserAgent string
	// From is the operator's mail address, sent as From. Empty: not sent.
	From string
	// HostFields are sent to some hosts beside the others. The archive's head of a request is
	// without them, unless ArchiveHostFields asks for them.
	HostFields        HostFields
	ArchiveHostFields bool // see HostFields
	// Resolver finds addresses. Required.
	Resolver Resolver
	// AllowPrivate turns the guard off: loopback, private and the like are dialled too.
	AllowPrivate bool
	// AllowPrefixes are let through the guard, and with them the IPv6 addresses that stand for IPv4
	// ones in them.
	AllowPrefixes []netip.Prefix
	// Refused, if not nil, says which addresses are never asked for anything, as those who run them
	// wish. It must not block.
	Refused func(addr netip.Addr) bool
	// LocalAddr is the source address of connections. The zero Addr leaves it to the system.
	// Addresses of the other family are not dialled.
	LocalAddr netip.Addr
	// Dial makes a connection to an address that the guard has let pass. Nil: the system's TCP. For
	// tests, and for networks made of memory.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Line is what all bytes of connections pass, beneath TLS; it holds the peer's cap. The time
	// that it takes away is given to the exchange again. Nil: there is no cap and never will be.
	Line *bandwidth.Line

	// ConnectTimeout bounds the TCP connect, over all addresses of a host. Zero: 10 s.
	ConnectTimeout time.Duration
	// TLSTimeout bounds the TLS handshake. Zero: 10 s.
	TLSTimeout time.Duration
	// HeaderTimeout bounds writing the request and waiting for the whole response head. Zero: 20 s.
	HeaderTimeout time.Duration
	// TotalTimeout bounds the exchange from having its turn to the last byte, without what this
	// side takes between reads. Zero: 60 s.
	TotalTimeout time.Duration
	// MinRate is the least speed of a body in bytes a second, measured on the wire from the head
	// on, after a grace of MinRateGrace: a site that trickles holds a worker no longer. Zero: 1
	// KiB/s after 10 s. Negative: no bound.
	MinRate      int
	MinRateGrace time.Duration // time from the head on without that bound

	// MaxBody bounds a body, both on the wire and decoded. Zero: 16 MiB.
	MaxBody int64
	// MaxHeader bounds a response head. Zero: 64 KiB.
	MaxHeader int
	// MaxConnsPerHost bounds the connections to one scheme, host and port; who comes when all are
	// taken waits. Zero: 1.
	MaxConnsPerHost int
	// MaxIdleConns bounds the idle connections to all hosts; the one idle longest goes first.
	// Zero: 512.
	MaxIdleConns int
	// IdleTimeout is how long an idle connection is kept. Zero: 45 s. Servers close theirs after 5
	// to 75 s; what they closed holds a descriptor until then.
	IdleTimeout time.Duration

	// InsecureTLS accepts any certificate. RootCAs are those trusted; nil: the system's.
	InsecureTLS bool
	RootCAs     *x509.CertPool // certificates trusted; nil: the system's
}

// DefaultConfig returns the values that zero fields stand for; UserAgent and Resolver have none.
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

// Validate names the first field that cannot be obeyed.
func (c Config) Validate() error {
	switch {
	case c.UserAgent == "" || !httpguts.ValidHeaderFieldValue(c.UserAgent):
		return fmt.Errorf("fetch config: UserAgent: %q is no field value", c.UserAgent)
	case !httpguts.ValidHeaderFieldValue(c.From):
		return fmt.Errorf("fetch config: From: %q is no field value", c.From)
	case c.Resolver == nil:
		return errors.New("fetch config: Resolver: missing")
	case c.ConnectTimeout < 0 || c.TLSTimeout < 0 || c.HeaderTimeout < 0 || c.TotalTimeout < 0 || c.MinRateGrace < 0 || c.IdleTimeout < 0:
		return errors.New("fetch config: a timeout is negative")
	case c.MaxBody < 0 || c.MaxHeader < 0 || c.MaxConnsPerHost < 0 || c.MaxIdleConns < 0:
		return errors.New("fetch config: a bound is negative")
	}
	return nil
}
