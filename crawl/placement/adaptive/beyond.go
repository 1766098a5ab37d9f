package adaptive

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"

	"github.com/apoidea/apoidea/crawl/placement"
)

const (
	// hopeless is the share of the belief below which a memory, or a peer, is ignored.
	hopeless = 0.002
	unlikely = 0.05
	// nearer is by how many milliseconds a peer outside of the candidates must be nearer than all of
	// them.
	nearer = 2.0
)

// Beyond returns peers that are not candidates for a site and are likely to be nearer to it than
// all candidates: at most so many of those that are able, the likeliest first. They come from
// samples of other owners.
func (s *Strategy) Beyond(v *placement.View, most int, able func(peer string) bool) []string {
	here := make(map[int]bool, len(v.Candidates))
	for _, c := range v.Candidates {
		here[s.memories.column(c.Peer).number] = true
	}
	far := slices.DeleteFunc(s.memories.peers(), func(c *column) bool { return here[c.number] || !able(c.peer) })
	if len(far) == 0 {
		return nil // as in a ring of one leaf set, where all other peers in memory are gone
	}
	q := s.question(v)
	s.belief.weigh(&q.hints, informative(q.seen), nil)
	if !(s.belief.total > 0) {
		return nil
	}
	votes := make([]float64, len(far))
	for i, m := range s.memories.all {
		weight := 0.0
		for _, w := range s.belief.weights[i] {
			weight += w / s.belief.total
		}
		if weight > hopeless {
			m.vote(far, here, votes, weight)
		}
	}
	order := make([]int, 0, len(far))
	for k := range far {
		if votes[k] >= unlikely {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b)) })
	var names []string
	for _, k := range order[:min(len(order), most)] {
		names = append(names, far[k].peer)
	}
	return names
}

// vote adds votes for those of the far peers that are nearest to a site like this one, if they are
// nearer than all candidates.
func (m *memory) vote(far []*column, here map[int]bool, votes []float64, weight float64) {
	least := math.Inf(1)
	for c := range here {
		if at := m.at(c); at.known() {
			least = min(least, float64(at.mean))
		}
	}
	least -= nearer
	best := least
	for _, c := range far {
		best = min(best, m.surely(c.number))
	}
	for k, c := range far {
		if ms := m.surely(c.number); ms < least && ms <= best+tie {
			votes[k] += weight
		}
	}
}

// surely returns an upper bound of a peer's round trip, as far as known.
func (m *memory) surely(column int) float64 {
	if column >= len(m.cells) || !m.cells[column].known() {
		return math.Inf(1)
	}
	return float64(m.cells[column].mean + m.cells[column].dev)
}

// hint is a property that two sites may share, the strongest first.
type hint int

const (
	sameAddress  hint = iota
	sameSubnet        // /24, /48
	sameSite          // /20, /40: typical announcement of one location
	sameBlock         // /16, /32
	sameRegistry      // /8, /20
	anywhere
	hintKinds
)

// prefixBits are the prefix lengths of hints, of IPv4 and of IPv6.
var prefixBits = [hintKinds]struct{ v4, v6 int }{
	sameAddress: {32, 128}, sameSubnet: {24, 48}, sameSite: {20, 40}, sameBlock: {16, 32}, sameRegistry: {8, 20},
}

// hints are the properties of a site: a number for each kind, equal where sites share it, 0 where
// the site has none.
type hints [hintKinds]uint64

// hintsOf returns the hints of an address; the zero address has only the most general one.
func hintsOf(addr netip.Addr) (h hints) {
	h[anywhere] = 1
	if !addr.IsValid() {
		return h
	}
	addr = addr.Unmap().WithZone("")
	for kind, bits := range prefixBits {
		n := bits.v6
		if addr.Is4() {
			n = bits.v4
		}
		if n > 0 {
			p, _ := addr.Prefix(n) // valid address and length
			h[kind] = number(hint(kind), p.String())
		}
	}
	return h
}

// number returns a hash that is never 0.
func number(kind hint, text string) uint64 {
	sum := fnv.New64a()
	sum.Write(binary.AppendUvarint(nil, uint64(kind))) // not negative
	sum.Write([]byte(text))
	return sum.Sum64() | 1
}
