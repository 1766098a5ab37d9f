package adaptive

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// plane is a small world: peers and sites on a plane, sites in towns with a subnet each, and a last
// mile.
type plane struct {
	rnd   *rand.Rand
	peers [][2]float64
	towns [][2]float64
	known bool // addresses are
}

func newPlane(seed uint64, peers, towns int, known bool) *plane {
	p := &plane{rnd: rand.New(rand.NewPCG(seed, 1)), known: known}
	spot := func() [2]float64 { return [2]float64{200 * p.rnd.Float64(), 100 * p.rnd.Float64()} }
	for range peers {
		p.peers = append(p.peers, spot())
	}
	for range towns {
		p.towns = append(p.towns, spot())
	}
	return p
}

// site draws a site: its address and the round trip of each peer in milliseconds.
func (p *plane) site() (addr netip.Addr, ms []float64) {
	town := p.rnd.IntN(len(p.towns))
	if p.known {
		addr = netip.AddrFrom4([4]byte{10, byte(town / 200), byte(town % 200), byte(p.rnd.IntN(250))})
	}
	mile := 1 + 4*p.rnd.Float64()
	for _, at := range p.peers {
		ms = append(ms, mile+math.Hypot(at[0]-p.towns[town][0], at[1]-p.towns[town][1])*(1+0.01*p.rnd.Float64()))
	}
	return addr, ms
}

func name(i int) string { return fmt.Sprintf("peer%02d", i) }

func view(host string, addr netip.Addr, peers int) *placement.View {
	v := &placement.View{Now: at0, Host: host, Site: addr, Measured: make(map[string]placement.Measurement)}
	for k := range peers {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: name(k), Self: k == 0})
	}
	return v
}

// place drives a strategy to its choice; ms is the truth, negative where a site does not answer.
func place(t *testing.T, s *Strategy, v *placement.View, ms []float64) (c placement.Choice, probes int) {
	t.Helper()
	for range len(v.Candidates) + 1 {
		if c = s.Next(v); c.Worker != "" {
			return c, probes
		}
		for _, p := range c.Probe {
			if _, known := v.Measured[p]; known {
				t.Fatalf("%s is asked twice", p)
			}
			var k int
			fmt.Sscanf(p, "peer%d", &k)
			probes++
			v.Measured[p] = placement.Measurement{RTT: time.Duration(ms[k] * float64(time.Millisecond))}
			if ms[k] < 0 {
				v.Measured[p] = placement.Measurement{Err: "refused"}
			}
		}
		if len(c.Probe) == 0 {
			t.Fatal("neither a worker nor a probe")
		}
	}
	t.Fatal("no end")
	return c, probes
}

func index(c placement.Choice) (k int) {
	fmt.Sscanf(c.Worker, "peer%d", &k)
	return k
}

// TestNearestWithFewProbes is the claim of the package, in small: 12 peers, and far fewer probes
// than that.
func TestNearestWithFewProbes(t *testing.T) {
	for name, tt := range map[string]struct {
		known  bool
		towns  int
		probes float64
	}{
		"sites with addresses": {true, 60, 2.0},
		"sites without":        {false, 60, 2.6},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlane(3, 12, tt.towns, tt.known), New(1)
			best, probes, judged := 0.0, 0, 0
			for i := range 300 {
				addr, ms := p.site()
				c, n := place(t, s, view(fmt.Sprint("host", i), addr, 12), ms)
				if i < 150 {
					continue
				}
				judged++
				probes += n
				least := math.Inf(1)
				for _, v := range ms {
					least = min(least, v)
				}
				if ms[index(c)] <= least+1 {
					best++
				}
			}
			if share, each := best/float64(judged), float64(probes)/float64(judged); share < 0.9 || each > tt.probes {
				t.Errorf("%.3f at their nearest with %.2f probes, want 0.9 with %.1f", share, each, tt.probes)
			}
		})
	}
}
