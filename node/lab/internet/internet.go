package internet

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
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

// draws is a random generator seeded by a name: equal names give equal numbers, independent of
// other draws. It needs no memory and no constructor.
type draws uint64

// named returns the generator of a name of a few integers.
func named(seed uint64, name ...uint64) draws {
	h := mix(seed)
	for _, n := range name {
		h = mix(h ^ n)
	}
	return draws(h)
}

// next returns 64 random bits.
func (d *draws) next() uint64 {
	*d++
	return mix(uint64(*d))
}

// below returns a random number of [0, n).
func (d *draws) below(n int) int { return int(d.next() >> 1 % uint64(n)) } // n is positive and small

// share returns a random number of [0, 1).
func (d *draws) share() float64 { return float64(d.next()>>11) / (1 << 53) }

// chance returns true with probability p.
func (d *draws) chance(p float64) bool { return d.share() < p }

// normal returns a number of the standard normal distribution (Box-Muller).
func (d *draws) normal() float64 {
	u := 1 - d.share()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*d.share())
}

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Stats describe the RTTs between some hosts.
type Stats struct {
	Hosts   int     `json:"hosts"`   // their number
	Missing float64 `json:"missing"` // fraction of pairs without a value
	// P10, Median and P90 of all pairs with a value, in milliseconds.
	P10    float64 `json:"p10_ms"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
}

// statHosts is the number of hosts in Stats.
const statHosts = 490

// Stats describes the internet by up to 490 of its hosts: all nodes of a matrix or, if there are
// more, some drawn with a fixed seed; in a synthetic internet half crawlers and half sites.
func (n *Internet) Stats() Stats {
	hosts := n.statHosts()
	st := Stats{Hosts: len(hosts)}
	var known []time.Duration
	for a, i := range hosts {
		for _, j := range hosts[:a] {
			if d := n.RTT(i, j); d >= 0 {
				known = append(known, d)
			}
		}
	}
	if len(known) == 0 {
		return st
	}
	slices.Sort(known)
	at := func(share float64) float64 {
		return float64(known[int(share*float64(len(known)-1))].Microseconds()) / 1000
	}
	st.P10, st.Median, st.P90 = at(0.1), at(0.5), at(0.9)
	pairs := len(hosts) * (len(hosts) - 1) / 2
	st.Missing = 1 - float64(len(known))/float64(pairs)
	return st
}

// statHosts returns the hosts in Stats.
func (n *Internet) statHosts() []int {
	rnd := rand.New(rand.NewPCG(statHosts, 0x7374617473))
	if size := n.Size(); size > 0 {
		return rnd.Perm(size)[:min(size, statHosts)]
	}
	p, s, _ := n.Draw(rnd, statHosts/2, statHosts/2) // the internet is unlimited
	return append(p, s...)
}
