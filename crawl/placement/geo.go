package placement

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"time"
)

// Precision is the source of a position.
type Precision uint8

const (
	// NoPosition: unknown.
	NoPosition Precision = iota
	// CountryPosition: the middle of a country, which may be thousands of kilometers off.
	CountryPosition
	// CityPosition: a city.
	CityPosition
)

// String returns country, city or none.
func (p Precision) String() string {
	switch p {
	case CountryPosition:
		return "country"
	case CityPosition:
		return "city"
	default:
		return "none"
	}
}

// Position is the presumed location of an address, in degrees north and east; undefined if
// Precision is NoPosition.
type Position struct {
	Lat, Lon  float64   // degrees
	Precision Precision // source of the position
}

// earthRadius is the mean radius in kilometers.
const earthRadius = 6371.0

// Distance returns the great-circle distance between two positions in kilometers.
func (p Position) Distance(q Position) float64 {
	const degree = math.Pi / 180
	lat, lon := math.Sin((p.Lat-q.Lat)*degree/2), math.Sin((p.Lon-q.Lon)*degree/2)
	h := lat*lat + math.Cos(p.Lat*degree)*math.Cos(q.Lat*degree)*lon*lon
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1)))
}

// Locator looks up positions of addresses. It does not block, and returns NoPosition for an unknown
// or invalid address.
type Locator interface {
	Locate(addr netip.Addr) Position // returns the position of an address
}

// Geo selects the candidate with the smallest great-circle distance to the site (papers 3.4, the
// thesis' baseline). It measures nothing.
//
// With positions of countries, many candidates are equally far: the owner keeps the host if it is
// among them, else one of them is selected by the host's hash, so that they share a country's
// sites. A site without a position stays with its owner, and a candidate without one is skipped.
type Geo struct {
	// Locator looks up positions; without one every host stays with its owner.
	Locator Locator
}

// Next implements Strategy.
func (g *Geo) Next(v *View) Choice {
	able := v.Able()
	stays := func(why string) Choice { return Choice{Worker: Keeper(able), Why: why + ": the owner keeps the host"} }
	if g.Locator == nil {
		return stays("no database of positions")
	}
	if len(able) < 2 {
		return stays("no other candidate")
	}
	if !v.Site.IsValid() {
		return stays("the address of the site is not known")
	}
	site := g.Locator.Locate(v.Site)
	if site.Precision == NoPosition {
		return stays(fmt.Sprintf("no position known for %v", v.Site))
	}
	nearest, distance, precision := g.nearest(able, site)
	if len(nearest) == 0 {
		return stays("no candidate's position is known")
	}
	worker := drawn(v.Host, nearest)
	for _, c := range nearest {
		if c.Self {
			worker = c.Peer
		}
	}
	return Choice{Worker: worker, Why: fmt.Sprintf("%.0f km to the site, the smallest distance (by %v and %v), shared by %d", distance, precision, site.Precision, len(nearest))}
}

// nearest returns the candidates at the smallest distance, that distance, and the precision of the
// first of them.
func (g *Geo) nearest(able []Candidate, site Position) (nearest []Candidate, distance float64, precision Precision) {
	distance = math.Inf(1)
	for _, c := range able {
		at := g.Locator.Locate(c.Addr)
		if at.Precision == NoPosition {
			continue
		}
		switch d := at.Distance(site); {
		case d < distance:
			nearest, distance, precision = []Candidate{c}, d, at.Precision
		case d == distance:
			nearest = append(nearest, c)
		}
	}
	return nearest, distance, precision
}

// Owner leaves every host with its owner: no delegation, the baseline without messages. Only an
// overloaded owner gives a host to the next candidate.
type Owner struct{}

// Next implements Strategy.
func (Owner) Next(v *View) Choice {
	return Choice{Worker: Keeper(v.Able()), Why: "hosts stay with their owners"}
}

// Random assigns each host to a candidate by rendezvous hashing, so that all peers choose the same:
// the baseline that ignores distance. The highest weight wins, so a candidate that joins or leaves
// moves only its own hosts.
type Random struct{}

// Next implements Strategy.
func (Random) Next(v *View) Choice {
	return Choice{Worker: drawn(v.Host, v.Able()), Why: "drawn by hash among the candidates"}
}

// drawn returns the candidate of the highest weight for a host, "" if there is none.
func drawn(host string, among []Candidate) string {
	best, weight := "", uint64(0)
	for _, c := range among {
		if w := Weight(host, c.Peer); best == "" || w >= weight {
			best, weight = c.Peer, w
		}
	}
	return best
}

// Weight returns the weight of a host and a peer, the same at all peers.
func Weight(host, peer string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host))
	h.Write([]byte{0})
	h.Write([]byte(peer))
	return mix(h.Sum64())
}

// mix distributes differences in the last bytes over the whole word, which FNV alone does poorly.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// Worst selects the candidate with the largest round trip to the site: the worst case (IPMicra's
// comparison, papers 2.6). For experiments only, so [New] does not accept it.
type Worst struct{}

// Next implements Strategy.
func (Worst) Next(v *View) Choice {
	able := v.Able()
	if probe := v.unmeasured(able); len(probe) > 0 && len(able) > 1 {
		return Choice{Probe: probe}
	}
	worker, largest := "", time.Duration(-1)
	for _, c := range able {
		if m, ok := v.Measured[c.Peer]; ok && m.Err == "" && m.RTT > largest {
			worker, largest = c.Peer, m.RTT
		}
	}
	if worker == "" {
		return Choice{Worker: Keeper(able), Why: "no candidate reached the site: the owner keeps the host"}
	}
	return Choice{Worker: worker, Why: fmt.Sprintf("%v to the site, the largest", largest)}
}
