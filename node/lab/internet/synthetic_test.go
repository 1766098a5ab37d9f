package internet

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/latency"
)

// rnd is a generator of a fixed seed.
func rnd() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestSyntheticRoundTripsAreLikeMeasuredOnes holds the figures between and around those of
// measurements: 490 PlanetLab nodes have p10 31 ms, median 134, p90 291, 17 % of the triangles
// violated, 5.5 % by more than 10 %, 79 % of the pairs with a shorter way over a third node; 21
// cloud regions have 40, 155 and 260 ms, 7 %, 0.9 % and 18 %, the last of few nodes.
func TestSyntheticRoundTripsAreLikeMeasuredOnes(t *testing.T) {
	for seed := range uint64(2) {
		n := Synthetic(seed)
		st, tri := n.Stats(), n.triangles()
		for _, c := range []struct {
			name            string
			is, least, most float64
		}{
			{"10th percentile", st.P10, 15, 45},
			{"median", st.Median, 120, 165},
			{"90th percentile", st.P90, 220, 310},
			{"violated triangles", tri.Violations, 0.10, 0.22},
			{"violated by more than 10 %", tri.Violations10, 0.01, 0.065},
			{"pairs with a shorter way", tri.Detours, 0.55, 0.85},
			{"missing", st.Missing, 0, 0},
		} {
			if c.is < c.least || c.is > c.most {
				t.Errorf("seed %d: %s is %v, want %v to %v", seed, c.name, c.is, c.least, c.most)
			}
		}
	}
}

func TestSyntheticHostsDependOnTheirNumberAlone(t *testing.T) {
	const hosts = 300
	a, b, other := Synthetic(7), Synthetic(7), Synthetic(8)
	var together sync.WaitGroup
	for range 2 { // with the race detector: an internet may be asked by several goroutines
		together.Go(func() {
			for i := range hosts {
				a.Addr(i)
			}
		})
	}
	together.Wait()
	same := 0
	for i := hosts - 1; i >= 0; i-- { // in the other order
		j := (i * 31) % hosts
		if a.Addr(i) != b.Addr(i) || a.Country(i) != b.Country(i) || a.RTT(i, j) != b.RTT(i, j) {
			t.Fatalf("host %d: %v and %v", i, a.Addr(i), b.Addr(i))
		}
		if rtt := a.RTT(i, j); rtt <= 0 || rtt != a.RTT(j, i) {
			t.Fatalf("round trip %d to %d: %v, back %v", i, j, rtt, a.RTT(j, i))
		}
		if a.Addr(i) == other.Addr(i) {
			same++
		}
	}
	if same > hosts/100 {
		t.Errorf("%d of %d hosts are the same with another seed", same, hosts)
	}
	if far := minPool + 5; a.Addr(far) != b.Addr(far) || !a.Addr(far).IsValid() {
		t.Errorf("host %d: %v and %v", far, a.Addr(far), b.Addr(far))
	}
}

func TestSyntheticNetworksNestAsRegistriesDo(t *testing.T) {
	n := Synthetic(3)
	networks := n.Hierarchy()
	depths := make(map[int]int)
	blocks := make(map[string]map[string]bool)
	var around []registry.Network
	for i, w := range networks {
		if i > 0 && registry.Compare(networks[i-1], w.Prefix) >= 0 {
			t.Fatalf("%v after %v", w.Prefix, networks[i-1].Prefix)
		}
		for len(around) > 0 && !around[len(around)-1].Prefix.Contains(w.Prefix.Addr()) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && !around[len(around)-1].Prefix.Overlaps(w.Prefix) {
			t.Fatalf("%v is half in %v", w.Prefix, around[len(around)-1].Prefix)
		}
		depths[len(around)]++
		around = append(around, w)
		if w.Org != "" {
			if blocks[w.Org] == nil {
				blocks[w.Org] = make(map[string]bool)
			}
			blocks[w.Org][w.Country] = true
		}
	}
	if len(networks) < 2000 || depths[0] == 0 || depths[1] < 100 || depths[2] < 1000 || len(depths) > 8 {
		t.Errorf("%d networks, by depth %v", len(networks), depths)
	}
	abroad := 0
	for _, countries := range blocks {
		if len(countries) > 1 {
			abroad++
		}
	}
	if abroad < 20 {
		t.Errorf("%d of %d organisations have networks in several countries", abroad, len(blocks))
	}
}

// site is what a strategy can know of a site, and the truth.
type site struct {
	network netip.Prefix // smallest in the registry
	org     string
	leaf    int
	city    int
}

func sitesOf(t *testing.T, n *Internet, count int) []site {
	t.Helper()
	_, hosts, err := n.Draw(rnd(), 0, count)
	if err != nil {
		t.Fatal(err)
	}
	s := n.hosts.(*synthetic)
	out := make([]site, 0, count)
	for _, i := range hosts {
		p := s.host(i)
		x := site{leaf: p.leaf, city: p.city}
		for bits := 24; bits >= 0 && !x.network.IsValid(); bits-- {
			at, _ := n.Addr(i).Prefix(bits)
			if k, ok := slices.BinarySearchFunc(n.Hierarchy(), at, registry.Compare); ok {
				x.network, x.org = at, n.Hierarchy()[k].Org
			}
		}
		if !x.network.IsValid() || x.org == "" {
			t.Fatalf("the registry knows nothing around %v", n.Addr(i))
		}
		out = append(out, x)
	}
	return out
}

// TestSyntheticSitesCrowd holds how much a site's address says: of the last 350 of 1,000 sites a
// fair part is in a network, or with an organisation, that was met; and most but not all of those
// are in the same city as the site met before.
func TestSyntheticSitesCrowd(t *testing.T) {
	n := Synthetic(4)
	sites := sitesOf(t, n, 1000)
	networks, orgs := make(map[netip.Prefix]int), make(map[string]int)
	var inNetwork, inOrg, networkRight, orgRight float64
	for k, s := range sites {
		if k >= 650 {
			if city, ok := networks[s.network]; ok {
				inNetwork++
				if city == s.city {
					networkRight++
				}
			}
			if city, ok := orgs[s.org]; ok {
				inOrg++
				if city == s.city {
					orgRight++
				}
			}
			continue
		}
		networks[s.network], orgs[s.org] = s.city, s.city
	}
	for _, c := range []struct {
		name            string
		is, least, most float64
	}{
		{"sites in a network met", inNetwork / 350, 0.4, 0.85},
		{"of these in the same city", networkRight / inNetwork, 0.6, 0.97},
		{"sites of an organisation met", inOrg / 350, 0.5, 0.95},
		{"of these in the same city", orgRight / inOrg, 0.1, 0.7},
	} {
		if !(c.is >= c.least && c.is <= c.most) {
			t.Errorf("%s: %v, want %v to %v", c.name, c.is, c.least, c.most)
		}
	}
}

// TestSyntheticDatabasesErr holds how often a site is listed in its own city: four times in five,
// as the GeoIP databases of the time.
func TestSyntheticDatabasesErr(t *testing.T) {
	n := Synthetic(5)
	_, hosts, err := n.Draw(rnd(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for _, i := range hosts {
		lat, lon, ok := n.Position(i)
		if c := cities[n.hosts.(*synthetic).host(i).city]; ok && lat == c.north && lon == c.east {
			right++
		}
		if len(n.Country(i)) != 2 {
			t.Fatalf("host %d: country %q", i, n.Country(i))
		}
	}
	if right < 700 || right > 900 {
		t.Errorf("%d of 1000 sites are listed where they are", right)
	}
}

// TestSyntheticNeighboursSeeTheWorldAlike: hosts of one data centre have the same ways, so the
// nearest crawler of one is that of the other.
func TestSyntheticNeighboursSeeTheWorldAlike(t *testing.T) {
	n := Synthetic(6)
	s := n.hosts.(*synthetic)
	peers, hosts, err := n.Draw(rnd(), 12, 1000)
	if err != nil {
		t.Fatal(err)
	}
	type centre struct{ leaf, city int }
	first := make(map[centre]int)
	pairs := 0
	for _, i := range hosts {
		p := s.host(i)
		j, ok := first[centre{p.leaf, p.city}]
		if !ok {
			first[centre{p.leaf, p.city}] = i
			continue
		}
		pairs++
		for _, peer := range peers {
			if d := (n.RTT(peer, i) - n.RTT(peer, j)).Abs(); d > time.Millisecond {
				t.Fatalf("%v and %v are %v apart for a crawler", n.Addr(i), n.Addr(j), d)
			}
		}
	}
	if pairs < 100 {
		t.Errorf("%d sites have a neighbour", pairs)
	}
}

func TestDraw(t *testing.T) {
	rtts, err := latency.ReadMatrix(strings.NewReader(strings.Repeat(strings.Repeat("1,", 29)+"1\n", 30)), false)
	if err != nil {
		t.Fatal(err)
	}
	measured := &Internet{hosts: &matrix{Matrix: rtts}}
	for name, c := range map[string]struct {
		n            *Internet
		peers, sites int
		fails        bool
	}{
		"synthetic":       {Synthetic(1), 64, 2000, false},
		"none":            {Synthetic(1), 0, 0, false},
		"matrix":          {measured, 12, 18, false},
		"too many":        {measured, 12, 19, true},
		"fewer than none": {measured, -1, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, err := c.n.Draw(rnd(), c.peers, c.sites)
			if c.fails != (err != nil) {
				t.Fatalf("error %v", err)
			}
			if c.fails {
				return
			}
			seen := make(map[int]bool)
			for _, i := range append(slices.Clone(p), s...) {
				if seen[i] {
					t.Fatalf("host %d twice", i)
				}
				seen[i] = true
			}
			if len(p) != c.peers || len(s) != c.sites {
				t.Errorf("%d crawlers and %d sites", len(p), len(s))
			}
		})
	}
	p, s, err := Synthetic(1).Draw(rnd(), 100, 100)
	if err != nil {
		t.Fatal(err)
	}
	world := Synthetic(1).hosts.(*synthetic)
	for k := range p {
		if c := world.world.leaves[world.host(p[k]).leaf].kind; c != home && c != university {
			t.Errorf("a crawler at kind %d", c)
		}
		if c := world.world.leaves[world.host(s[k]).leaf].kind; c == home {
			t.Error("a site at a home")
		}
	}
}

func BenchmarkSyntheticRTT(b *testing.B) {
	n := Synthetic(1)
	i := 0
	for b.Loop() {
		n.RTT(i, i+7)
		i = (i + 1) % 1024
	}
}
