package internet

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

// kind is the kind of a leaf.
type kind uint8

const (
	home       kind = iota // a provider's customers in one city
	university             // its own network; crawlers and sites
	company                // its own network; sites
	hosting                // a data center of a hosting company
	cloud                  // a data center of one of the few largest holders of sites
)

// leaf is a network with hosts in one place, or a few.
type leaf struct {
	kind   kind
	prefix netip.Prefix
	org    int
	// cities has the cities of its hosts, mostly one; a split network has each of its /24 in one of
	// them.
	cities []int
	// listed is its city in databases.
	listed int
	// spots is the number of /24 with hosts.
	spots int
	// lastMile is the milliseconds between the hosts and the exchange of the city.
	lastMile float64
	// sites and crawlers are the weights of drawing a host here.
	sites, crawlers float64
}

// world is generated from a seed before the first host: the holders of networks, and their places.
//
// Registries have /8 blocks. Providers hold a /13 of them, in which they number homes (a /18 per
// city) and from which they allocate /19 to /23 to companies and universities. Hosting companies
// and clouds hold blocks of their own, a subnet for each data center, clouds in several registries.
// As in reality, registry data is correct but only a hint at places:
//
//   - an organization may have networks in several cities, under one name;
//   - some networks are split over several cities, which the registry does not show;
//   - some networks are missing: the smallest known range is that of the provider, which is in all
//     cities of the country;
//   - databases list many networks of a holder at its headquarters.
type world struct {
	orgs     int
	networks []registry.Network
	leaves   []leaf
	registry [registries][]*block
}

// block is a range from which smaller ones are allocated in order.
type block struct {
	next, end uint64
}

func newBlock(p netip.Prefix) *block {
	b := p.Addr().As4()
	start := uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
	return &block{start, start + 1<<(32-p.Bits())}
}

// take allocates a range; false if there is none left.
func (b *block) take(bits int) (netip.Prefix, bool) {
	size := uint64(1) << (32 - bits)
	start := (b.next + size - 1) / size * size
	if start+size > b.end {
		return netip.Prefix{}, false
	}
	b.next = start + size
	return netip.PrefixFrom(address(start), bits), true
}

func address(v uint64) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

const (
	clouds     = 14
	hosters    = 180
	campuses   = 500
	companies  = 2500
	perISP     = 1.5  // population weight per additional provider in a country
	unwritten  = 0.12 // fraction of subnets missing in the registry
	splitShare = 0.12 // fraction of data center networks split over places
	homesWrong = 0.15 // fraction of homes listed at their provider's headquarters
	seatListed = 0.3  // fraction of data centers listed at their holder's headquarters
	manyPlaces = 0.2  // fraction of companies with a second network elsewhere
)

// newWorld generates the networks of a seed.
func newWorld(seed uint64) *world {
	w := new(world)
	d := named(seed, 0x776f726c64)
	for r, octets := range firstOctets {
		for _, o := range octets {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{o}), 8)
			w.registry[r] = append(w.registry[r], newBlock(p))
			w.networks = append(w.networks, registry.Network{Prefix: p})
		}
	}
	providers := w.providers(&d)
	for k := range companies + campuses {
		w.company(&d, providers, k < campuses)
	}
	for k := range hosters {
		w.hoster(&d, providers, k)
	}
	for k := range clouds {
		w.cloud(&d, k)
	}
	w.networks = registry.Order(w.networks)
	return w
}

// fromRegistry allocates a range from one of a registry's blocks.
func (w *world) fromRegistry(d *draws, r rir, bits int) netip.Prefix {
	blocks := w.registry[r]
	first := d.below(len(blocks))
	for k := range blocks {
		if p, ok := blocks[(first+k)%len(blocks)].take(bits); ok {
			return p
		}
	}
	panic("registry is out of addresses") // the sizes above leave half of them free
}

// write adds a network to the registry.
func (w *world) write(p netip.Prefix, org, country string) {
	w.networks = append(w.networks, registry.Network{Prefix: p, Org: org, Country: country})
}

// newOrg creates an organization.
func (w *world) newOrg(what string) (id int, name string) {
	w.orgs++
	return w.orgs, fmt.Sprintf("%s %d", what, w.orgs)
}

// draw chooses a city by weight.
func (w *world) draw(d *draws, weight func(*city) float64) int {
	total := 0.0
	for i := range cities {
		total += weight(&cities[i])
	}
	left := d.share() * total
	for i := range cities {
		if left -= weight(&cities[i]); left < 0 {
			return i
		}
	}
	return len(cities) - 1
}

func people(c *city) float64      { return c.people }
func dataCentres(c *city) float64 { return c.hosting }

// provider is an internet provider of a country.
type provider struct {
	org   int
	name  string
	seat  int
	block *block
}

// providers generates those of each country, by its population.
func (w *world) providers(d *draws) map[string][]*provider {
	all := make(map[string][]*provider)
	var countries []string
	in := make(map[string][]int)
	for i := range cities {
		c := cities[i].country
		if in[c] == nil {
			countries = append(countries, c)
		}
		in[c] = append(in[c], i)
	}
	for _, country := range countries {
		weight := 0.0
		for _, c := range in[country] {
			weight += cities[c].people
		}
		for k := range 2 + int(weight/perISP) {
			org, name := w.newOrg("Provider")
			p := &provider{org: org, name: name, seat: in[country][d.below(len(in[country]))]}
			prefix := w.fromRegistry(d, cities[p.seat].registry, 13)
			p.block = newBlock(prefix)
			w.write(prefix, name, country)
			all[country] = append(all[country], p)
			for _, c := range in[country] {
				w.homes(d, p, c, cities[c].people/float64(k+1))
			}
		}
	}
	return all
}

// homes allocates a provider's customers in a city.
func (w *world) homes(d *draws, p *provider, at int, weight float64) {
	prefix, ok := p.block.take(18)
	if !ok {
		return
	}
	if !d.chance(unwritten) {
		w.write(prefix, p.name, cities[at].country)
	}
	listed := at
	if d.chance(homesWrong) {
		listed = p.seat
	}
	w.leaves = append(w.leaves, leaf{
		kind: home, prefix: prefix, org: p.org, cities: []int{at}, listed: listed, spots: 64, crawlers: homeCrawlers * weight,
	})
}

// company is an organization with its own servers, in a range of its provider; universities have
// crawlers as well.
func (w *world) company(d *draws, providers map[string][]*provider, campus bool) {
	k, what, bits := company, "Company", 21+d.below(3)
	if campus {
		k, what, bits = university, "University", 19+d.below(3)
	}
	org, name := w.newOrg(what)
	at := w.draw(d, people)
	places := 1
	if d.chance(manyPlaces) {
		places += 1 + d.below(2)
	}
	seat := at
	for range places {
		all := providers[cities[at].country]
		p := all[d.below(len(all))]
		if prefix, ok := p.block.take(bits); ok {
			if !d.chance(unwritten) {
				w.write(prefix, name, cities[seat].country)
			}
			l := leaf{
				kind: k, prefix: prefix, org: org, cities: []int{at}, listed: at, spots: 1 + d.below(2), lastMile: min(math.Exp(0.3+0.8*d.normal()), 40),
				sites: 1,
			}
			if campus {
				l.crawlers = campusCrawlers
			}
			if d.chance(0.1) {
				l.listed = p.seat
			}
			w.leaves = append(w.leaves, l)
		}
		at = w.draw(d, people)
	}
}

// hoster is a hosting company: one to four data centers, mostly in its country; small ones in a
// range of a provider.
func (w *world) hoster(d *draws, providers map[string][]*provider, rank int) {
	org, name := w.newOrg("Hosting")
	seat := w.draw(d, dataCentres)
	at := seat
	weight := hosterSites / math.Pow(float64(rank+4), 0.8)
	centres := 1 + d.below(2)
	if rank < hosters/4 {
		centres += d.below(3)
	}
	var own *block
	if rank < hosters/2 {
		p := w.fromRegistry(d, cities[seat].registry, 16)
		w.write(p, name, cities[seat].country)
		own = newBlock(p)
	}
	for k := range centres {
		from := own
		if own == nil {
			all := providers[cities[at].country]
			from = all[d.below(len(all))].block
		}
		if prefix, ok := from.take(20); ok {
			w.centre(d, hosting, prefix, org, name, seat, at, weight/float64(centres), 1+d.below(4))
		}
		if k%2 == 1 || d.chance(0.4) {
			at = w.draw(d, dataCentres)
		} else {
			at = w.near(d, seat)
		}
	}
}

// near draws a city of the same country.
func (w *world) near(d *draws, seat int) int {
	return w.draw(d, func(c *city) float64 {
		if c.country != cities[seat].country {
			return 0
		}
		return c.hosting
	})
}

// cloud has data centers all over the world, most of them in a block of its first registry, the
// others in local blocks.
func (w *world) cloud(d *draws, rank int) {
	org, name := w.newOrg("Cloud")
	seat := w.draw(d, dataCentres)
	weight := cloudSites / float64(rank+1)
	blocks := make(map[rir]*block)
	centres := max(4, 26-2*rank+d.below(5))
	shares := make([]float64, centres)
	total := 0.0
	for k := range shares {
		shares[k] = 1 / float64(k+2)
		total += shares[k]
	}
	var taken []int
	for k := range centres {
		at := w.draw(d, dataCentres)
		for tries := 0; slices.Contains(taken, at) && tries < 4; tries++ {
			at = w.draw(d, dataCentres)
		}
		taken = append(taken, at)
		r := cities[seat].registry
		if d.chance(0.4) {
			r = cities[at].registry
		}
		if blocks[r] == nil {
			p := w.fromRegistry(d, r, 12)
			w.write(p, name, cities[seat].country)
			blocks[r] = newBlock(p)
		}
		if prefix, ok := blocks[r].take(18); ok {
			w.centre(d, cloud, prefix, org, name, seat, at, weight*shares[k]/total, 2+d.below(10))
		}
	}
}

// centre is a data center: a network at one place, or split over some.
func (w *world) centre(d *draws, k kind, prefix netip.Prefix, org int, name string, seat, at int, weight float64, spots int) {
	l := leaf{
		kind: k, prefix: prefix, org: org, cities: []int{at}, listed: at, spots: spots, lastMile: 0.15 + 0.5*d.share(), sites: weight,
	}
	if d.chance(seatListed) {
		l.listed = seat
	}
	if d.chance(splitShare) {
		for range 1 + d.below(2) {
			l.cities = append(l.cities, w.draw(d, dataCentres))
		}
		l.spots = max(l.spots, 2*len(l.cities))
	}
	if !d.chance(unwritten) {
		w.write(prefix, name, cities[l.listed].country)
	}
	w.leaves = append(w.leaves, l)
}
