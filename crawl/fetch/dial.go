package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
)

// maxAddrs bounds the addresses of a host that are tried: as many as can start, attemptDelay apart,
// within connectTimeout.
const maxAddrs = 32

// attemptDelay is the time between the starts of two connection attempts to a host (RFC 8305,
// section 5).
const attemptDelay = 250 * time.Millisecond

// tlsSessions bounds the cached TLS sessions of all hosts.
const tlsSessions = 512

func tlsConfig(c *Config) *tls.Config {
	return &tls.Config{
		RootCAs:            c.lab.RootCAs,
		InsecureSkipVerify: c.lab.InsecureTLS, // set by the operator
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		MinVersion:         tls.VersionTLS12,
		// Public pages need no post-quantum key exchange: without ML-KEM a handshake takes a third less,
		// and its first message one packet.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384},
	}
}

// dial returns a connection that is ready for an exchange: connected, and for https with TLS and
// its protocol negotiated.
func (f *Fetcher) dial(ctx context.Context, t *target, end time.Time) (*conn, error) {
	addrs, err := f.addrs(ctx, t)
	if err != nil {
		return nil, fail(ctx, t.key+t.path, PhaseResolve, err)
	}
	if addrs, err = f.admitted(addrs); err != nil {
		return nil, fail(ctx, t.key+t.path, PhaseConnect, err)
	}
	proto := http11
	if f.onlyHTTP2.Contains(t.key) {
		proto = http2
	}
	c, err := f.reach(ctx, t, addrs, end, proto)
	if err != nil && t.https && proto == http11 && strings.HasSuffix(err.Error(), noSuchProtocol) {
		c, err = f.reach(ctx, t, addrs, end, http2)
	}
	return c, err
}

// Protocol names of ALPN (RFC 7301, section 6).
const (
	http11 = "http/1.1"
	http2  = "h2"
)

// noSuchProtocol is the error text of crypto/tls for the alert no_application_protocol (RFC 7301,
// section 3.2); its type is not exported.
const noSuchProtocol = "tls: no application protocol"

// reach connects, for https with proto negotiated.
func (f *Fetcher) reach(ctx context.Context, t *target, addrs []netip.Addr, end time.Time, proto string) (*conn, error) {
	c, err := f.connect(ctx, t, addrs, end)
	if err != nil {
		return nil, fail(ctx, t.key+t.path, PhaseConnect, err)
	}
	if t.https {
		if err := f.secure(ctx, c, t, end, proto); err != nil {
			c.close()
			return nil, fail(ctx, t.key+t.path, PhaseTLS, err)
		}
	}
	return c, nil
}

// addrs returns the addresses of the target's host.
func (f *Fetcher) addrs(ctx context.Context, t *target) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(t.host); err == nil {
		return []netip.Addr{addr}, nil
	}
	addrs, err := f.config.Resolver.Lookup(ctx, t.host)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("no addresses of host %s", t.host)
	}
	return addrs, err
}

// admitted returns the addresses that may and can be dialed, alternating between the families (RFC
// 8305, section 4), beginning with the first one's. The addresses checked here are those dialed, so
// that a name cannot resolve to another address between check and dial.
func (f *Fetcher) admitted(addrs []netip.Addr) ([]netip.Addr, error) {
	var first, other []netip.Addr
	var blocked, refused netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		switch {
		case !f.config.permits(a):
			blocked = a
		case f.config.Refused != nil && f.config.Refused(a):
			refused = a
		case f.config.LocalAddr.IsValid() && f.config.LocalAddr.Unmap().Is4() != a.Is4():
		case len(first) == 0 || a.Is4() == first[0].Is4():
			first = append(first, a)
		default:
			other = append(other, a)
		}
	}
	switch {
	case len(first) > 0:
		out := make([]netip.Addr, 0, maxAddrs)
		for i := range maxAddrs {
			for _, family := range [...][]netip.Addr{first, other} {
				if i < len(family) && len(out) < maxAddrs {
					out = append(out, family[i])
				}
			}
		}
		return out, nil
	case refused.IsValid():
		return nil, fmt.Errorf("%s: %w", refused, ErrRefusedAddress)
	case blocked.IsValid():
		return nil, fmt.Errorf("%s: %w", blocked, ErrBlockedAddress)
	default:
		return nil, errors.New("no address in the family of the source address")
	}
}

// connect makes a TCP connection to the first of the addresses that accepts one.
func (f *Fetcher) connect(ctx context.Context, t *target, addrs []netip.Addr, end time.Time) (*conn, error) {
	a, err := f.race(ctx, t, addrs, end)
	if err != nil {
		return nil, err
	}
	m := &meter{Conn: a.conn}
	return &conn{Conn: m, meter: m, key: strings.Clone(t.key), addr: netip.AddrPortFrom(a.addr, t.port), took: a.took}, nil
}

// attempt is the result of connecting to one address.
type attempt struct {
	conn net.Conn
	addr netip.Addr
	took time.Duration // from the start of this attempt
	err  error
}

// race connects to the addresses in their order, to the next one whenever an attempt failed or
// attemptDelay has passed, until one succeeds (RFC 8305, section 5). If none does, it returns the
// error of the attempt that failed first.
func (f *Fetcher) race(ctx context.Context, t *target, addrs []netip.Addr, end time.Time) (attempt, error) {
	ctx, cancel := context.WithDeadline(ctx, earlier(time.Now().Add(connectTimeout), end))
	ended := make(chan attempt, len(addrs))
	var running sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
		for len(ended) > 0 {
			if late := <-ended; late.err == nil {
				_ = late.conn.Close()
			}
		}
	}()
	next := time.NewTimer(attemptDelay)
	defer next.Stop()
	var first error
	for failed, started := 0, 0; failed < len(addrs); {
		if started < len(addrs) {
			addr := addrs[started]
			running.Go(func() {
				a := attempt{addr: addr}
				begun := time.Now()
				a.conn, a.err = f.dialOne(ctx, net.JoinHostPort(addr.String(), strconv.Itoa(int(t.port))))
				a.took = time.Since(begun)
				ended <- a
			})
			started++
			next.Reset(attemptDelay)
		}
		select {
		case a := <-ended:
			if a.err == nil {
				return a, nil
			}
			first = cmp.Or(first, a.err)
			failed++
		case <-next.C:
		}
	}
	return attempt{}, first
}

func (f *Fetcher) dialOne(ctx context.Context, address string) (net.Conn, error) {
	dial := f.dialer.DialContext
	if f.config.Dial != nil {
		dial = f.config.Dial
	}
	nc, err := dial(ctx, "tcp", address)
	if err != nil || f.config.Line == nil {
		return nc, err
	}
	return f.config.Line.Conn(nc, bandwidth.Sites), nil
}

// secure makes the TLS handshake for a protocol, and starts HTTP/2 if that was negotiated.
func (f *Fetcher) secure(ctx context.Context, c *conn, t *target, end time.Time, proto string) error {
	tc, err := f.greet(ctx, c, t, end, proto)
	if err != nil {
		return err
	}
	agreed := tc.ConnectionState().NegotiatedProtocol
	c.unagreed = agreed == ""
	if agreed != http2 && (agreed != "" || proto != http2) {
		return nil
	}
	ctx = context.WithValue(ctx, secured{}, newForgetful(tc))
	h2, err := f.h2.NewClientConn(ctx, "http", c.addr.String())
	if err != nil {
		return err
	}
	c.h2 = h2
	return nil
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// notPublic4 are the IPv4 blocks of the IANA special-purpose registry that are not globally
// reachable, and addresses of cloud metadata services, which return secrets.
var notPublic4 = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by carriers (CGNAT); a cloud's metadata at 100.100.100.200
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local; metadata at 169.254.169.254
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4, deprecated
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast
	"168.63.129.16/32",
)

// notPublic6 are the blocks within 2000::/3 that are not globally reachable.
var notPublic6 = prefixes(
	"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
	"2001:db8::/32", // documentation
	"3fff::/20",     // documentation
)

var (
	globalUnicast6 = netip.MustParsePrefix("2000::/3")
	sixToFour      = netip.MustParsePrefix("2002::/16")
	nat64          = netip.MustParsePrefix("64:ff9b::/96")
)

// permits reports whether the guard admits an address.
func (c *Config) permits(addr netip.Addr) bool {
	switch {
	case addr.Zone() != "":
		return false // scoped to one machine
	case c.AllowPrivate || Public(addr):
		return true
	}
	return contains(c.AllowPrefixes, addr) || contains(c.AllowPrefixes, embedded(addr))
}

// embedded returns the IPv4 address that is embedded in an IPv6 address (mapped, NAT64, 6to4), else
// the address itself.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:]))
	default:
		return addr
	}
}

// Public reports whether an address may be dialed by a peer that crawls the public internet. An
// IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4) is classified by that.
func Public(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return !contains(notPublic4, addr)
	}
	if v4 := embedded(addr); v4.Is4() {
		return Public(v4)
	}
	return globalUnicast6.Contains(addr) && !contains(notPublic6, addr)
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}
