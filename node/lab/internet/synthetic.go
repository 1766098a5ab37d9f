package internet

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"sort"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/node/latency"
)

// Weights of drawn hosts. A company's or university's network has 1 site, the largest cloud
// cloudSites, the next ones a half, a third and so on; hosterSites is the start for hosting
// companies. So about half of the sites are in clouds, a quarter with hosting companies, and a
// quarter alone. With homeCrawlers per unit of a city's population and campusCrawlers per
// university's network two thirds of the crawlers are at homes.
const (
	cloudSites     = 1500
	hosterSites    = 250
	homeCrawlers   = 1.0
	campusCrawlers = 0.3
)

// synthetic is an internet generated from a seed: a world, the paths between its cities, and hosts
// drawn by number.
//
// The RTT of two hosts is the sum of their last miles and the path between their cities: light in
// fiber along the great circle (1 ms of RTT per 100 km), a detour for each pair of cities, and one
// for each pair of networks at their places, since routing depends on contracts. So hosts of one
// data center have similar RTTs, and neighbors with other providers do not.
type synthetic struct {
	seed  uint64
	world *world
	paths [][]float64 // ms between cities
	// sites and crawlers are cumulative sums of the leaves' weights.
	sites, crawlers []float64
	// met caches used hosts, so that they are not drawn again. Hosts with larger numbers are not
	// cached: memory is bounded.
	met [minPool]atomic.Pointer[place]
}

// Synthetic generates an unlimited internet from a seed. It takes some milliseconds.
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
	// leastDetour is the minimum ratio of the path between two cities to the great circle. Each city
	// adds cityDetour in the median, and the pair adds wayDetour in the median.
	leastDetour = 1.4
	cityDetour  = 0.14
	wayDetour   = 0.05
	// pairDetour is the maximum extra length of a path between two networks relative to that of their
	// cities; mostly it is small.
	pairDetour = 0.15
	// badPeering is the fraction of pairs of networks with traffic through an exchange in another
	// city, badPeeringMS its mean cost.
	badPeering   = 0.03
	badPeeringMS = 20
	// homeMile and homeSpread define the lognormal last mile of homes: median 5 ms, 10% over 15 ms.
	homeMile   = 1.6
	homeSpread = 0.9
	maxMile    = 60
)

// place is the network location of a host.
type place struct {
	leaf     int
	addr     uint64 // of IPv4
	city     int
	pop      uint64 // identifies the holder's network at this place
	lastMile float64
}

// host returns a host by number.
func (s *synthetic) host(i int) *place {
	if i >= len(s.met) {
		return s.draw(i)
	}
	p := s.met[i].Load()
	if p == nil {
		p = s.draw(i)
		s.met[i].Store(p) // concurrent draws give the same host
	}
	return p
}

// draw draws a host: its kind, network and address.
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
	// Low spots have more hosts.
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

// serves implements hosts: pseudorandomly half of the hosts.
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
	return max(time.Duration(ms*float64(time.Millisecond)), latency.MinRTT)
}

// way returns the milliseconds between the exchanges of two hosts' cities.
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

const (
	// segment is the payload of a TCP segment over Ethernet, initialWindow the number sent before the
	// first acknowledgement (RFC 6928).
	segment       = 1460
	initialWindow = 10
	// maxWindow is the window in bytes at which slow start ends: a common receive window.
	maxWindow = 1 << 20
	// serverMedian is the median time of a server to generate a page; serverSigma is the spread of its
	// logarithm: 10% take over 140 ms, 1% over 320 ms.
	serverMedian = 50 * time.Millisecond
	serverSigma  = 0.8
	// PageMean is the mean size of an HTML page in bytes, pageSigma the spread of the logarithm:
	// the median is about 18 kB.
	PageMean  = 38_000
	pageSigma = 1.2
	minPage   = 300
	maxPage   = 4 << 20
)

// Transfer is a download over a connection of its own, without encryption and without loss. Its
// time is the sum of
//
//   - a round trip to connect,
//   - a round trip for the request and the first bytes of the answer, with the time that the server
//     needs in between,
//   - a round trip for each further round of slow start: the window begins at ten segments of 1,460
//     bytes and doubles up to 1 MiB; a round takes longer where the slower end cannot send its
//     window within the round trip.
//
// So up to 14,600 bytes take two round trips, up to 43,800 three, up to 102,200 four.
type Transfer struct {
	RTT   time.Duration // to the server
	Bytes int           // size of the answer
	// Server is the median server time; 0 means 50 ms. The actual one is lognormal with sigma 0.8.
	Server time.Duration
	// Rate is the bytes per second of the slower line, 0 for unlimited.
	Rate float64
	// Slow multiplies the total time, for a peer with a busy CPU; 0 means 1.
	Slow float64
}

// Time draws the duration of the transfer. A negative RTT (unmeasured) gives a negative time.
func (t Transfer) Time(rnd *rand.Rand) time.Duration {
	if t.RTT < 0 {
		return -1
	}
	server := t.Server
	if server == 0 {
		server = serverMedian
	}
	took := t.Wire().Seconds() + server.Seconds()*math.Exp(serverSigma*rnd.NormFloat64())
	if t.Slow > 0 {
		took *= t.Slow
	}
	return time.Duration(took * float64(time.Second))
}

// Wire returns the deterministic part of the time: the round trips and the line.
func (t Transfer) Wire() time.Duration {
	rtt := t.RTT.Seconds()
	line := func(bytes int) float64 {
		if t.Rate <= 0 {
			return 0
		}
		return float64(bytes) / t.Rate
	}
	took := 2 * rtt
	left, window := t.Bytes, initialWindow*segment
	for left > window {
		took += max(rtt, line(window))
		left -= window
		window = min(2*window, maxWindow)
	}
	return time.Duration((took + line(left)) * float64(time.Second))
}

// PageSize draws the size of an HTML page in bytes: lognormal, mean 38 kB, median 18 kB, 300 bytes
// to 4 MiB.
func PageSize(rnd *rand.Rand) int {
	median := PageMean * math.Exp(-pageSigma*pageSigma/2)
	return int(min(max(median*math.Exp(pageSigma*rnd.NormFloat64()), minPage), maxPage))
}
