package internet

import (
	"math"
	"net/netip"
	"sort"
	"sync/atomic"
	"time"
)

// Weights of what hosts are drawn from. A company's or university's network holds 1 site, the
// largest cloud cloudSites, the next ones a half, a third and so on of it; hosterSites is where
// hosting companies begin. So about half of the sites are in clouds, a quarter with hosting
// companies, and a quarter alone. By homeCrawlers for each unit of a city's people and
// campusCrawlers a university's network two thirds of the crawlers are at homes.
const (
	cloudSites     = 1500
	hosterSites    = 250
	homeCrawlers   = 1.0
	campusCrawlers = 0.3
)

// synthetic is an internet made from a seed: a world, the ways between its cities, and hosts drawn
// by their number.
//
// The round trip of two hosts is their last miles and the way between their cities: light in fibre
// along the great circle (1 ms a round trip for 100 km), a detour for each pair of cities that all
// traffic takes, and one for each pair of networks at their places, since routing is a matter of
// contracts. So hosts of one data centre see the world alike, and neighbours with other providers
// do not.
type synthetic struct {
	seed  uint64
	world *world
	paths [][]float64 // ms between cities
	// sites and crawlers are sums of the weights of the leaves up to each.
	sites, crawlers []float64
	// met are hosts that were asked for, so that they are not drawn again. Hosts with larger
	// numbers are: memory is bounded.
	met [minPool]atomic.Pointer[place]
}

// Synthetic makes an internet from a seed, without end. It takes some milliseconds.
func Synthetic(seed uint64) *Internet {
	s := &synthetic{seed: seed, world: newWorld(seed), paths: make([][]float64, len(cities))}
	d := named(seed, 0x7061746873)
	around := make([]float64, len(cities))
	for a := range cities {
		s.paths[a] = make([]float64, len(cities))
		around[a] = cityDetour * math.Exp(0.5*d.normal())
		for b := range a {
			ms := distance(a, b) / 100 * (leastDetour + around[a] + around[b] + wayDetour*math.Exp(0.8*d.normal()))
			s.paths[a][b], s.paths[b][a] = ms, ms
		}
	}
	sites, crawlers := 0.0, 0.0
	for k := range s.world.leaves {
		l := &s.world.leaves[k]
		sites, crawlers = sites+l.sites, crawlers+l.crawlers
		s.sites, s.crawlers = append(s.sites, sites), append(s.crawlers, crawlers)
	}
	return &Internet{hosts: s, networks: s.world.networks}
}

const (
	// leastDetour is how much longer than light's the way between any two cities is. Each of the
	// cities adds what it lies aside, cityDetour in the median, and the pair adds wayDetour in the
	// median.
	leastDetour = 1.4
	cityDetour  = 0.14
	wayDetour   = 0.05
	// pairDetour is the most that the ways of two networks may be longer than those of their
	// cities, most often it is little.
	pairDetour = 0.15
	// badPeering is the share of pairs of networks whose traffic goes by an exchange in another
	// city, badPeeringMS the mean of what it costs.
	badPeering   = 0.03
	badPeeringMS = 20
	// homeMile and homeSpread are the lognormal last mile of homes: 5 ms in the median, one in ten
	// over 15 ms.
	homeMile   = 1.6
	homeSpread = 0.9
	maxMile    = 60
)

// place is a host as far as its ways are concerned.
type place struct {
	leaf     int
	addr     uint64 // of IPv4
	city     int
	pop      uint64 // names the holder of the network at this place
	lastMile float64
}

// host is a host by its number.
func (s *synthetic) host(i int) *place {
	if i >= len(s.met) {
		return s.draw(i)
	}
	p := s.met[i].Load()
	if p == nil {
		p = s.draw(i)
		s.met[i].Store(p) // whoever else draws it meanwhile draws the same
	}
	return p
}

// draw draws a host: its kind, its network, its address.
func (s *synthetic) draw(i int) *place {
	d := named(s.seed, 0x686f7374, uint64(i)) // not negative
	sums := s.crawlers
	if s.serves(i) {
		sums = s.sites
	}
	k := sort.SearchFloat64s(sums, d.share()*sums[len(sums)-1])
	for k < len(sums)-1 && (k == 0 && sums[0] == 0 || k > 0 && sums[k] == sums[k-1]) {
		k++ // of a leaf without weight
	}
	l := &s.world.leaves[k]
	first := newBlock(l.prefix).next
	// Low spots are the fuller ones.
	spot := uint64(float64(l.spots) * math.Pow(d.share(), 2))
	p := &place{leaf: k, addr: first + spot<<8 + 1 + d.next()%254, lastMile: l.lastMile + 0.1*d.share()}
	at := named(s.seed, 0x73706f74, first, spot)
	p.city = l.cities[at.below(len(l.cities))]
	p.pop = mix(uint64(l.org)<<16 | uint64(p.city)) // not negative
	if l.kind == home {
		p.lastMile = min(math.Exp(homeMile+homeSpread*d.normal()), maxMile)
	}
	return p
}

// Size implements hosts.
func (s *synthetic) Size() int { return 0 }

// serves implements hosts: every other host, without an order.
func (s *synthetic) serves(i int) bool { return mix(s.seed^mix(uint64(i)))&1 == 1 } // not negative

// crawls implements hosts.
func (s *synthetic) crawls(i int) bool { return !s.serves(i) }

// RTT implements hosts.
func (s *synthetic) RTT(i, j int) time.Duration {
	if i == j {
		return 50 * time.Microsecond
	}
	a, b := s.host(i), s.host(j)
	ms := a.lastMile + b.lastMile + s.way(a, b)
	return max(time.Duration(ms*float64(time.Millisecond)), minRTT)
}

// way in milliseconds between the exchanges of two hosts' cities.
func (s *synthetic) way(a, b *place) float64 {
	if a.pop == b.pop {
		return 0.1
	}
	d := named(s.seed, min(a.pop, b.pop), max(a.pop, b.pop))
	u := d.share()
	ms := 0.3 + s.paths[a.city][b.city]*(1+pairDetour*u*u*u)
	if d.chance(badPeering) {
		ms -= badPeeringMS * math.Log(1-d.share())
	}
	return ms
}

// Addr implements hosts.
func (s *synthetic) Addr(i int) netip.Addr { return address(s.host(i).addr) }

// Country implements hosts.
func (s *synthetic) Country(i int) string {
	return cities[s.world.leaves[s.host(i).leaf].listed].country
}

// Position implements hosts.
func (s *synthetic) Position(i int) (lat, lon float64, ok bool) {
	c := &cities[s.world.leaves[s.host(i).leaf].listed]
	return c.north, c.east, true
}
