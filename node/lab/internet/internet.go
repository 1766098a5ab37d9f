package internet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/latency"
)

// Internet is the network of crawlers and sites. Create one with [Load] or [Synthetic].
type Internet struct {
	hosts
	networks []registry.Network
}

// hosts is the interface of both kinds of internets.
type hosts interface {
	// Size returns the number of hosts, 0 if unlimited.
	Size() int
	// RTT returns the round-trip time between two hosts, symmetric and never 0. It is negative where a
	// matrix has no value. Hosts at or beyond Size are next to that of the same row.
	RTT(i, j int) time.Duration
	// Addr returns the address of a host, the zero Addr if unknown.
	Addr(i int) netip.Addr
	// Country returns the ISO 3166 code of a host's country in registries or databases, empty if
	// unknown.
	Country(i int) string
	// Position returns the position of a host in a geolocation database, in degrees north and east. It
	// errs as such databases do: networks of one holder in many places are often listed at its
	// headquarters. Matrices have no positions.
	Position(i int) (lat, lon float64, ok bool)
	// crawls and serves report whether a host can be drawn as a crawler or a site.
	crawls(i int) bool
	serves(i int) bool
}

// Options select an internet. The files may be compressed with gzip, whatever their names.
type Options struct {
	// Seed is the seed of all random draws.
	Seed uint64
	// RTT is a square matrix of RTTs in milliseconds: CSV without header or labels, NaN for
	// unmeasured, at most 4,096 rows. The mean of both directions is used. Empty: a synthetic
	// internet.
	RTT string
	// Prefixes are the addresses of the matrix's nodes: CSV with a header of the columns node (row of
	// the matrix, from 0), prefix and, optionally, country. One prefix of each node and one address in
	// it are drawn from the seed, IPv4 if a node has any.
	Prefixes string
	// Hierarchy is registry data: CSV with a header of the columns prefix and, optionally, org and
	// country; or a registry's delegated-extended statistics file, detected by its version line, in
	// which the opaque id is the organization.
	Hierarchy string
	// Fill replaces missing values of a matrix by the median of all, so that no RTT is negative.
	Fill bool
}

// Load creates an internet. Errors name the file, the line, the column and the value. Prefixes and
// Hierarchy describe a matrix's nodes, so they require RTT.
func Load(o Options) (*Internet, error) {
	if o.RTT == "" {
		if o.Prefixes != "" || o.Hierarchy != "" {
			return nil, errors.New("prefixes and hierarchy require an rtt matrix")
		}
		return Synthetic(o.Seed), nil
	}
	rtts, err := latency.LoadMatrix(o.RTT, o.Fill)
	if err != nil {
		return nil, err
	}
	m := &matrix{Matrix: rtts}
	n := &Internet{hosts: m}
	if o.Hierarchy != "" {
		if n.networks, err = registry.Load(o.Hierarchy); err != nil {
			return nil, err
		}
	}
	if o.Prefixes != "" {
		if err := m.loadPrefixes(o.Prefixes, o.Seed); err != nil {
			return nil, fmt.Errorf("prefixes %s: %w", o.Prefixes, err)
		}
		m.register(n.networks)
	}
	return n, nil
}

// Hierarchy returns the registry data, ordered by address, a network before those inside it; nil if
// there is none. The internet owns the slice.
func (n *Internet) Hierarchy() []registry.Network { return n.networks }

// poolPerHost and minPool set the number of hosts of an unlimited internet that a draw chooses
// from: large enough that sites differ between draws, small enough for small host numbers.
const (
	poolPerHost = 32
	minPool     = 1 << 16
)

// Draw chooses crawlers and sites, all different hosts. In a synthetic internet crawlers are at
// homes and universities, and sites at hosting companies, in clouds or with organizations of their
// own; the nodes of a matrix may be either. It fails if there are not enough hosts.
func (n *Internet) Draw(rnd *rand.Rand, peers, sites int) (p, s []int, err error) {
	if peers < 0 || sites < 0 {
		return nil, nil, fmt.Errorf("invalid draw of %d crawlers and %d sites", peers, sites)
	}
	if size := n.Size(); size > 0 {
		if peers+sites > size {
			return nil, nil, fmt.Errorf("%d crawlers and %d sites exceed the %d hosts", peers, sites, size)
		}
		all := rnd.Perm(size)
		return all[:peers:peers], all[peers : peers+sites : peers+sites], nil
	}
	pool := max(minPool, poolPerHost*(peers+sites))
	draw := func(count int, fits func(int) bool) []int {
		taken := make(map[int]bool, count)
		out := make([]int, 0, count)
		for len(out) < count {
			if i := rnd.IntN(pool); !taken[i] && fits(i) {
				taken[i] = true
				out = append(out, i)
			}
		}
		return out
	}
	return draw(peers, n.crawls), draw(sites, n.serves), nil
}
