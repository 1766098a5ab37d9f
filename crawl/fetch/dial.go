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
	protos := []string{"h2", "http/1.1"}
	if c.NoHTTP2 {
		protos = protos[1:]
	}
	return &tls.Config{
		NextProtos:         protos,
		RootCAs:            c.RootCAs,
		InsecureSkipVerify: c.InsecureTLS, // the operator's choice
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		MinVersion:         tls.VersionTLS12,
	}
}

// dial makes a connection that is ready for an exchange: connected, and for https with TLS and its
// protocol agreed.
func (f *Fetcher) dial(ctx context.Context, t *target, known []netip.Addr, end time.Time) (*conn, error) {
	url := t.key + t.path
	addrs, err := f.addrs(ctx, t, known)
	if err != nil {
		return nil, fail(ctx, url, PhaseResolve, err)
	}
	if addrs, err = f.admitted(addrs); err != nil {
		return nil, fail(ctx, url, PhaseConnect, err)
	}
	c, err := f.connect(ctx, t, addrs, end)
	if err != nil {
		return nil, fail(ctx, url, PhaseConnect, err)
	}
	if t.https {
		if err := f.secure(ctx, c, t, end); err != nil {
			c.close()
			return nil, fail(ctx, url, PhaseTLS, err)
		}
	}
	return c, nil
}

// addrs returns the addresses of the target's host.
func (f *Fetcher) addrs(ctx context.Context, t *target, known []netip.Addr) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(t.host); err == nil {
		return []netip.Addr{addr}, nil
	}
	if len(known) > 0 {
		return known, nil
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

// secure makes the TLS handshake and starts HTTP/2 if that was agreed on.
func (f *Fetcher) secure(ctx context.Context, c *conn, t *target, end time.Time) error {
	tc, err := f.greet(ctx, c, t, end, f.tls.NextProtos...)
	if err != nil {
		return err
	}
	if tc.ConnectionState().NegotiatedProtocol != "h2" {
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
