package internet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

// Internet is where crawlers and sites live. Make one with [Load] or [Synthetic].
type Internet struct {
	hosts
	networks []registry.Network
}

// hosts are what the two kinds of internets have in common.
type hosts interface {
	// Size is the number of hosts, 0 if there is no end of them.
	Size() int
	// RTT is the round trip between two hosts, the same both ways and never 0. It is negative where
	// a matrix has no value. Hosts at or beyond Size stand beside that of the same row.
	RTT(i, j int) time.Duration
	// Addr is the address of a host, the zero Addr if none is known.
	Addr(i int) netip.Addr
	// Country is the ISO 3166 code of the country in which registries or databases believe a host
	// to be, empty if they do not know.
	Country(i int) string
	// Position is where a database of the positions of addresses believes a host to be, in degrees
	// north and east. It errs as such databases do: networks of one holder at many places are often
	// listed at its seat. Matrices have no positions.
	Position(i int) (lat, lon float64, ok bool)
	// crawls and serves say what a host can be drawn for.
	crawls(i int) bool
	serves(i int) bool
}

// Options say which internet. The files may be compressed with gzip, whatever they are called.
type Options struct {
	// Seed makes everything that is drawn.
	Seed uint64
	// RTT is a square matrix of round trips in milliseconds: CSV without header or labels, NaN
	// where nothing was measured, at most 4,096 rows. The mean of both directions counts. Empty: a
	// synthetic internet.
	RTT string
	// Prefixes are the addresses of the matrix's nodes: CSV whose header names the columns node
	// (row of the matrix, from 0), prefix and, optionally, country. One prefix of each node and one
	// address in it are drawn from the seed, of IPv4 where a node has any.
	Prefixes string
	// Hierarchy is registry data: CSV whose header names the columns prefix and, optionally, org
	// and country; or a registry's delegated-extended statistics file, known by its version line,
	// in which the opaque id is the organisation.
	Hierarchy string
	// Fill gives holes of a matrix the median of all that was measured, so that no round trip is
	// negative.
	Fill bool
}

// Load makes an internet. Errors name the file, the line, the column and the value. Prefixes and
// Hierarchy speak of a matrix's nodes, so they need RTT.
func Load(o Options) (*Internet, error) {
	if o.RTT == "" {
		if o.Prefixes != "" || o.Hierarchy != "" {
			return nil, errors.New("prefixes and hierarchy say where the nodes of an rtt matrix are: they need one")
		}
		return Synthetic(o.Seed), nil
	}
	m, err := loadMatrix(o.RTT, o.Fill)
	if err != nil {
		return nil, fmt.Errorf("rtt matrix %s: %w", o.RTT, err)
	}
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

// Hierarchy is what registries know, ordered by address, a network before those inside it; nil if
// there is no such data. The slice is the internet's.
func (n *Internet) Hierarchy() []registry.Network { return n.networks }

// poolPerHost and minPool say among how many hosts of an endless internet a draw chooses: so many
// that sites are not the same in every draw, and so few that hosts can be told apart by a small
// number.
const (
	poolPerHost = 32
	minPool     = 1 << 16
)

// Draw chooses crawlers and sites, all different hosts. In a synthetic internet crawlers are at
// homes and universities, and sites at hosting companies, in clouds or with organisations of their
// own; the nodes of a matrix may be either. An error if there are not enough hosts.
func (n *Internet) Draw(rnd *rand.Rand, peers, sites int) (p, s []int, err error) {
	if peers < 0 || sites < 0 {
		return nil, nil, fmt.Errorf("draw of %d crawlers and %d sites", peers, sites)
	}
	if size := n.Size(); size > 0 {
		if peers+sites > size {
			return nil, nil, fmt.Errorf("%d crawlers and %d sites are more than the %d hosts there are", peers, sites, size)
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
