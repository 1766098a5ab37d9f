package placement

import (
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// placementRow is a strategy under test.
type placementRow struct {
	name string
	// all peers are candidates, and one memory learns.
	all bool
	// blind: sites have no addresses.
	blind bool
	// oracle uses the true round trips.
	oracle bool
	// live: it has no effect where one memory learns.
	live bool
	// learns from probes, so it is judged by sites unlike the training ones.
	learns bool
	// paper has figures for it.
	paper bool
	// estimates: pages that estimators fetch precede the choice of a worker.
	estimates bool
	// keyed: a site needs some address as key, even one without information.
	keyed bool
	fleet func(w *placementWorld, all bool) (*fleet, error)
}

// candidates returns 0 for those as live, 1 for all peers.
func (r *placementRow) candidates() int {
	if r.all {
		return 1
	}
	return 0
}

// fleet holds the strategies of the owners: a shared one, or one each.
type fleet struct {
	of []placement.Strategy // by owner
	// samples go from each owner around the ring, and peers beyond the leaf set may be candidates.
	samples []*adaptive.Strategy
	// fresh returns the initial strategy of an owner.
	fresh func(i int) *adaptive.Strategy
	// gossip of each peer.
	gossip []*coordinates.Gossip
	// records is set where placements read and write records at ring owners.
	records *ipmicra.Strategy
	// coordinator is set where each placement queries one shared place.
	coordinator bool
}

const (
	// ipmicraThreshold is the paper's recommendation (2.2).
	ipmicraThreshold = 50 * time.Millisecond
)

// placementRows are all rows: as live, then as in the papers.
func placementRows(w *placementWorld) []placementRow {
	shared := func(fresh func(w *placementWorld) placement.Strategy) func(*placementWorld, bool) (*fleet, error) {
		return func(w *placementWorld, _ bool) (*fleet, error) { return one(w, fresh(w)), nil }
	}
	kinds := []placementRow{
		{name: "rtt", fleet: shared(func(*placementWorld) placement.Strategy { return placement.RTT{} })},
		{name: "ipmicra", fleet: ipmicraFleet, learns: true, paper: true},
		{name: "coordinates", fleet: coordinatesFleet, keyed: true, estimates: true},
		{name: "geo", fleet: shared(func(w *placementWorld) placement.Strategy { return &placement.Geo{Locator: w} })},
		{name: "random", fleet: shared(func(*placementWorld) placement.Strategy { return placement.Random{} })},
		{name: "worst", fleet: shared(func(*placementWorld) placement.Strategy { return placement.Worst{} })},
		{name: "owner", fleet: shared(func(*placementWorld) placement.Strategy { return placement.Owner{} })},
		{name: "adaptive", fleet: adaptiveFleet, learns: true},
	}
	if w.addressed {
		kinds = append(kinds, placementRow{name: "adaptive-blind", fleet: adaptiveFleet, learns: true, blind: true})
	}
	kinds = append(kinds, placementRow{name: "adaptive-alone", fleet: adaptiveAloneFleet, live: true})
	kinds = append(kinds, placementRow{name: worlds.Oracle, oracle: true, fleet: shared(func(w *placementWorld) placement.Strategy { return oracle{w} })})
	rows := make([]placementRow, 0, 2*len(kinds))
	rows = append(rows, kinds...)
	for _, k := range kinds {
		if k.live {
			continue
		}
		k.name, k.all = k.name+"-all", true
		rows = append(rows, k)
	}
	return rows
}

// one strategy for all owners.
func one(w *placementWorld, s placement.Strategy) *fleet {
	f := &fleet{of: make([]placement.Strategy, len(w.peers))}
	for i := range f.of {
		f.of[i] = s
	}
	return f
}

// ipmicraFleet shares one memory: live it is the records at ring owners, which all read and write.
func ipmicraFleet(w *placementWorld, all bool) (*fleet, error) {
	s := ipmicra.New(w.tree, ipmicraThreshold)
	f := one(w, s)
	f.records, f.coordinator = s, all
	return f, nil
}

func adaptiveFleet(w *placementWorld, all bool) (*fleet, error) {
	fresh := func(i int) *adaptive.Strategy { return adaptive.New(w.seed + uint64(i)) } // not negative
	if all {
		s := fresh(0)
		for k := range w.peers {
			own := w.peerSample(k, true)
			s.Learn(clock.Epoch, &own)
		}
		f := one(w, s)
		f.coordinator = true
		return f, nil
	}
	f := new(fleet)
	f.fresh = func(i int) *adaptive.Strategy {
		s := fresh(i)
		for k := range w.peers {
			if w.hops(i, k) <= sampleHops {
				own := w.peerSample(k, false)
				s.Learn(clock.Epoch, &own)
			}
		}
		return s
	}
	for i := range w.peers {
		s := f.fresh(i)
		f.of, f.samples = append(f.of, s), append(f.samples, s)
	}
	return f, nil
}

// peerSample is what a peer announces of itself before the first site is found: its distances to
// all others, or to its leaf set and some beyond.
func (w *placementWorld) peerSample(i int, all bool) adaptive.Sample {
	var rtts []adaptive.PeerRTT
	beyond := 0
	for k := range w.peers {
		leaf := slices.Contains(w.peers[i].leaves, k)
		if rtt := w.between[i][k]; rtt > 0 && (all || leaf || beyond < sampleBeyond) {
			rtts = append(rtts, adaptive.PeerRTT{Peer: w.peers[k].id, RTT: rtt})
			if !leaf {
				beyond++
			}
		}
	}
	return adaptive.PeerSample(w.peers[i].id, w.peers[i].addr, rtts)
}

// adaptiveAloneFleet is adaptive without samples of sites: each owner learns separately, and probes
// only its leaf set.
func adaptiveAloneFleet(w *placementWorld, all bool) (*fleet, error) {
	f, err := adaptiveFleet(w, all)
	if err != nil {
		return nil, err
	}
	f.samples = nil
	return f, nil
}

func coordinatesFleet(w *placementWorld, all bool) (*fleet, error) {
	f := new(fleet)
	var ids []string
	for i := range w.peers {
		ids = append(ids, w.peers[i].id)
	}
	for i := range w.peers {
		g := coordinates.NewGossip(coordinates.DefaultGossipConfig(), w.seed+uint64(i)) // not negative
		g.Meet(append(append([]string{}, ids[:i]...), ids[i+1:]...))
		f.gossip = append(f.gossip, g)
	}
	if all {
		s := coordinates.New(coordinates.DefaultConfig(), &everybodyAt{w, f.gossip}, w.seed)
		f.of, f.coordinator = one(w, s).of, true
		return f, nil
	}
	for i := range w.peers {
		seen := &worlds.Seen{By: w.peers[i].id, Gossip: f.gossip[i]}
		f.of = append(f.of, coordinates.New(coordinates.DefaultConfig(), seen, w.seed+uint64(i))) // not negative
	}
	return f, nil
}

// everybodyAt holds the coordinates of all peers in one shared place.
type everybodyAt struct {
	w      *placementWorld
	gossip []*coordinates.Gossip
}

// Of implements coordinates.Peers.
func (e *everybodyAt) Of(peer string) (coordinates.Coordinate, bool) {
	i, ok := e.w.index[peer]
	if !ok {
		return coordinates.Coordinate{}, false
	}
	return e.gossip[i].At(), true
}

// oracle knows the round trips.
type oracle struct{ w *placementWorld }

// Next implements placement.Strategy.
func (o oracle) Next(v *placement.View) placement.Choice {
	of := make([]int, 0, len(v.Candidates))
	for _, c := range v.Candidates {
		of = append(of, o.w.index[c.Peer])
	}
	best, _ := o.w.sites[o.w.named[v.Host]].nearest(of)
	return placement.Choice{Worker: o.w.peers[best].id, Why: "known to be the nearest"}
}

// blank is an address that only identifies its site: each has its own /48.
func blank(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0, byte(site >> 16), byte(site >> 8), byte(site), 0, 15: 1}) // cut off on purpose
}
