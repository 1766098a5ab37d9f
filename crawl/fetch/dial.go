package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
)

// maxAddrs bounds how many addresses of a host are tried in turn.
const maxAddrs = 4

// tlsSessions bounds the TLS sessions remembered, over all hosts.
const tlsSessions = 512

func tlsConfig(c *Config) *tls.Config {
	return &tls.Config{
		RootCAs:            c.RootCAs,
		InsecureSkipVerify: c.InsecureTLS, // the operator's choice
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		MinVersion:         tls.VersionTLS12,
		// What anybody may read needs no secret that outlives a quantum computer: without ML-KEM a
		// handshake takes a third less, and its first message one packet.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384},
	}
}

// dial makes a connection that is ready for an exchange: connected, and for https with TLS and its
// protocol agreed.
func (f *Fetcher) dial(ctx context.Context, t *target, end time.Time) (*conn, error) {
	addrs, err := f.addrs(ctx, t)
	if err != nil {
		return nil, fail(ctx, t.key+t.path, PhaseResolve, err)
	}
	if addrs, err = f.admitted(addrs); err != nil {
		return nil, fail(ctx, t.key+t.path, PhaseConnect, err)
	}
	c, err := f.reach(ctx, t, addrs, end, http11)
	if err != nil && t.https && strings.HasSuffix(err.Error(), noSuchProtocol) {
		c, err = f.reach(ctx, t, addrs, end, http2)
	}
	return c, err
}

// Protocols by their names in the handshake of TLS (RFC 7301, section 6).
const (
	http11 = "http/1.1"
	http2  = "h2"
)

// noSuchProtocol is how crypto/tls words the alert of a server that does not speak the protocol
// (no_application_protocol: RFC 7301, section 3.2); its type is not exported.
const noSuchProtocol = "tls: no application protocol"

// reach makes a connection, for https one that speaks proto.
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
		err = fmt.Errorf("no address for %s", t.host)
	}
	return addrs, err
}

// admitted keeps the addresses that may and can be dialled. What is judged here is dialled, an
// address and no name: so a name cannot be one thing when it is judged and another when it is
// dialled.
func (f *Fetcher) admitted(addrs []netip.Addr) ([]netip.Addr, error) {
	out := make([]netip.Addr, 0, maxAddrs)
	var blocked, refused netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		switch {
		case !f.config.permits(a):
			blocked = a
		case f.config.Refused != nil && f.config.Refused(a):
			refused = a
		case f.config.LocalAddr.IsValid() && f.config.LocalAddr.Unmap().Is4() != a.Is4():
		case len(out) < maxAddrs:
			out = append(out, a)
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case refused.IsValid():
		return nil, fmt.Errorf("%s: %w", refused, ErrRefusedAddress)
	case blocked.IsValid():
		return nil, fmt.Errorf("%s: %w", blocked, ErrBlockedAddress)
	default:
		return nil, errors.New("no address of the family that is fetched from")
	}
}

// connect tries the addresses in turn, each with an equal share of the time that is left.
func (f *Fetcher) connect(ctx context.Context, t *target, addrs []netip.Addr, end time.Time) (*conn, error) {
	limit := earlier(time.Now().Add(f.config.ConnectTimeout), end)
	var first error
	for i, addr := range addrs {
		begun := time.Now()
		share := limit.Sub(begun) / time.Duration(len(addrs)-i)
		nc, err := f.dialOne(ctx, t.address(addr), share)
		if err == nil {
			m := &meter{Conn: nc}
			return &conn{Conn: m, meter: m, key: strings.Clone(t.key), addr: netip.AddrPortFrom(addr, t.port), took: time.Since(begun)}, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (f *Fetcher) dialOne(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
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

// secure makes the TLS handshake for a protocol, and starts HTTP/2 if that was agreed on.
func (f *Fetcher) secure(ctx context.Context, c *conn, t *target, end time.Time, proto string) error {
	tc, err := f.greet(ctx, c, t, end, proto)
	if err != nil {
		return err
	}
	if tc.ConnectionState().NegotiatedProtocol != http2 {
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
