package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"

	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
)

const (
	// maxNesting is the depth of /dnsaddr in /dnsaddr: a seed, its regions, their peers.
	maxNesting = 4
	// maxSeedRecords is the maximum number of records in all answers.
	maxSeedRecords = 128
)

// resolver resolves DNS names in multiaddrs.
type resolver struct {
	dns *madns.Resolver
}

// newResolver uses server, or the system's resolver if that is empty.
func newResolver(server string) resolver {
	basic := net.DefaultResolver
	if server != "" {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(server, "53")
		}
		basic = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, server)
			},
		}
	}
	dns, err := madns.NewResolver(madns.WithDefaultResolver(basic))
	if err != nil {
		panic(err) // only options fail, and ours is valid
	}
	return resolver{dns: dns}
}

// parse parses a multiaddr and resolves the names in it.
func (r resolver) parse(ctx context.Context, text string) ([]ma.Multiaddr, error) {
	addr, err := ma.NewMultiaddr(text)
	if err != nil {
		return nil, fmt.Errorf("invalid multiaddr: %w", err)
	}
	return r.resolve(ctx, addr)
}

// seed resolves the _dnsaddr TXT records of a domain.
func (r resolver) seed(ctx context.Context, domain string) ([]ma.Multiaddr, error) {
	addr, err := ma.NewMultiaddr("/dnsaddr/" + domain)
	if err != nil {
		return nil, fmt.Errorf("invalid domain: %w", err)
	}
	return r.resolve(ctx, addr)
}

// resolve replaces names recursively, within the limits above. A part that cannot be resolved is an
// error only if no other could.
func (r resolver) resolve(ctx context.Context, addr ma.Multiaddr) ([]ma.Multiaddr, error) {
	var done []ma.Multiaddr
	var failed []error
	level, looked := []ma.Multiaddr{addr}, 0
	for range maxNesting + 1 {
		var next []ma.Multiaddr
		for _, a := range level {
			if !madns.Matches(a) {
				done = append(done, a)
				continue
			}
			if looked >= maxSeedRecords {
				failed = append(failed, fmt.Errorf("more than %d records", maxSeedRecords))
				break
			}
			found, err := r.dns.Resolve(ctx, a)
			if err != nil {
				failed = append(failed, oneLine(a, err))
				continue
			}
			found = found[:min(len(found), maxSeedRecords-looked)]
			if len(found) == 0 {
				failed = append(failed, fmt.Errorf("%s: no usable dnsaddr record", a))
			}
			looked += len(found)
			next = append(next, found...)
		}
		level = next
	}
	if len(level) > 0 {
		failed = append(failed, fmt.Errorf("dnsaddr nested deeper than %d", maxNesting))
	}
	if len(done) > 0 {
		return done, nil
	}
	return nil, errors.Join(failed...)
}

// oneLine shortens a resolver error by what the name already contains.
func oneLine(a ma.Multiaddr, err error) error {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case ok && !dns.IsNotFound:
		return fmt.Errorf("lookup %s: no DNS server answers: pass another with --dns-server", dns.Name)
	case ok:
		return fmt.Errorf("lookup %s: %s", dns.Name, dns.Err)
	}
	return fmt.Errorf("%s: %w", a, err)
}
