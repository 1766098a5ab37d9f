package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

const (
	// placementPages is the median number of pages of a site, pagesSigma the spread of its
	// logarithm, with bounds; the mean is about 170. The thesis considers 150 to 300 URLs per host
	// worth placing, since estimation takes 64 downloads and more (papers 3.4, 3.7).
	placementPages = 150
	pagesSigma     = 0.5
	fewestPages    = 8
	mostPages      = 600
	// siteServing is the median server time of sites, and the spread of its logarithm.
	siteServing, siteServingSigma = 50 * time.Millisecond, 0.7
	// leafSide is the live leaf set: 8 predecessors and 8 successors.
	leafSide = 8
)

// placementSetup is the size of a world.
type placementSetup struct {
	peers, sites int
	crowded      bool    // several sites at each node of a matrix, to reach the requested number
	pages        float64 // median
	span         time.Duration
	today        bool // caches, sessions, lines and drift
}

// placementWorld is the common work of all strategies: peers on a ring, and sites with pages.
type placementWorld struct {
	setup     *placementSetup
	net       *internet.Internet
	tree      *ipmicra.Tree
	seed      uint64
	peers     []placementPeer
	between   [][]time.Duration
	sites     []placementSite
	trains    int // of the sites, in their order
	addressed bool
	located   string         // by what geo finds positions
	index     map[string]int // of peers
	named     map[string]int // of sites
	positions map[netip.Addr]placement.Position
	inRing    []int // peers by their place on the ring
	today     *today
}

type placementPeer struct {
	id     string
	key    ring.Key
	host   int
	addr   netip.Addr
	leaves []int   // with itself, by number
	place  int     // on the ring, among all
	rate   float64 // of its line in bytes a second; 0: no bound
}

type placementSite struct {
	name    string
	host    int
	place   int  // sites of one place are at the same node of a matrix, or behind one network of caches
	cached  bool // behind such a network
	addr    netip.Addr
	owner   int
	present []int           // peers that are there when it is found, in the order of the ring
	rtt     []time.Duration // by peer; negative where unknown
	serving time.Duration
	pages   int
	found   time.Duration
	seed    uint64
}

// newPlacementWorld draws one.
func newPlacementWorld(net *internet.Internet, tree *ipmicra.Tree, at *worlds.Addresses, rnd *rand.Rand, setup *placementSetup) (*placementWorld, error) {
	w := &placementWorld{
		setup: setup, net: net, tree: tree, seed: rnd.Uint64(), index: make(map[string]int), named: make(map[string]int), located: "nothing",
		positions: make(map[netip.Addr]placement.Position),
	}
	peers, sites, err := worlds.Hosts(net, rnd, setup.peers, setup.sites, setup.crowded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trial.ErrOptions, err)
	}
	for i, host := range peers {
		addr, err := at.Of(host)
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("peer %02d of %x", i, w.seed)
		w.index[id] = i
		w.peers = append(w.peers, placementPeer{id: id, host: host, addr: addr})
		w.locate(host, addr)
	}
	w.join()
	w.measurePeers()
	if setup.today {
		if err := w.modernise(rnd); err != nil {
			return nil, err
		}
	}
	for i, host := range sites {
		addr, err := at.Of(host)
		if err != nil {
			return nil, err
		}
		w.locate(host, addr)
		w.addSite(rnd, i, host, addr)
	}
	if len(w.sites) == 0 {
		return nil, fmt.Errorf("%w: no node of the matrix has round trips to two of %d crawlers", trial.ErrOptions, len(peers))
	}
	w.trains = int(placementTrains * float64(len(w.sites)))
	return w, nil
}

// join gives the peers their positions, each the best of some keys as live, and their leaf sets.
func (w *placementWorld) join() {
	var taken []ring.Key // ascending
	for i := range w.peers {
		p := &w.peers[i]
		p.key, taken = worlds.Join(taken, func(k int) ring.Key { return ring.KeyOf(fmt.Appendf(nil, "%s, key %d", p.id, k)) })
	}
	w.inRing = make([]int, len(w.peers))
	for i := range w.peers {
		w.peers[i].place, _ = slices.BinarySearchFunc(taken, w.peers[i].key, ring.Key.Compare)
		w.inRing[w.peers[i].place] = i
		set := ring.NewLeafSet(w.peers[i].key, leafSide)
		for k := range w.peers {
			set.Insert(w.peers[k].key)
		}
		for k := range w.peers {
			if k == i || slices.Contains(set.Members(), w.peers[k].key) {
				w.peers[i].leaves = append(w.peers[i].leaves, k)
			}
		}
	}
}

// hops returns the number of leaf sets between two peers: 0 for the same peer, 1 within a leaf set.
func (w *placementWorld) hops(i, k int) int {
	apart := max(w.peers[i].place-w.peers[k].place, w.peers[k].place-w.peers[i].place)
	return (min(apart, len(w.peers)-apart) + leafSide - 1) / leafSide
}

// owner of a host, among some peers.
func (w *placementWorld) owner(host string, of []int) int {
	key := ring.HostKey(host)
	return slices.MinFunc(of, func(i, k int) int { return w.peers[i].key.Sub(key).Compare(w.peers[k].key.Sub(key)) })
}

func (w *placementWorld) measurePeers() {
	for i := range w.peers {
		row := make([]time.Duration, len(w.peers))
		for k := range w.peers {
			if k != i {
				row[k] = max(w.net.RTT(w.peers[i].host, w.peers[k].host), 0)
			}
		}
		w.between = append(w.between, row)
	}
}

// locate records what databases have of an address.
func (w *placementWorld) locate(host int, addr netip.Addr) {
	if !addr.IsValid() {
		return
	}
	w.addressed = true
	at := worlds.Locate(w.net, host)
	w.positions[addr] = at
	if at.Precision != placement.NoPosition {
		w.located = at.Precision.String()
	}
}

// Locate implements placement.Locator.
func (w *placementWorld) Locate(addr netip.Addr) placement.Position { return w.positions[addr] }

// addSite draws a site, and drops one that fewer than two peers can reach.
func (w *placementWorld) addSite(rnd *rand.Rand, i, host int, addr netip.Addr) {
	s := placementSite{name: fmt.Sprintf("site%d.example", i), host: host, place: host, addr: addr, seed: rnd.Uint64()}
	if size := w.net.Size(); size > 0 {
		s.place = host % size
	}
	s.found = time.Duration(float64(w.setup.span) * float64(i) / float64(w.setup.sites))
	s.present = w.present(s.found)
	s.owner = w.owner(s.name, s.present)
	for k := range w.peers {
		s.rtt = append(s.rtt, w.net.RTT(w.peers[k].host, host))
	}
	if w.today != nil {
		w.today.change(w, rnd, &s)
	}
	reached := 0
	for _, k := range s.present {
		if s.rtt[k] >= 0 {
			reached++
		}
	}
	s.serving = time.Duration(float64(siteServing) * math.Exp(siteServingSigma*rnd.NormFloat64()))
	s.pages = int(min(max(w.setup.pages*math.Exp(pagesSigma*rnd.NormFloat64()), fewestPages), mostPages))
	if reached > 1 {
		w.named[s.name] = len(w.sites)
		w.sites = append(w.sites, s)
	}
}

// places returns the places of the sites, in the order of the sites.
func (w *placementWorld) places() (all []int) {
	seen := make(map[int]bool)
	for i := range w.sites {
		if place := w.sites[i].place; !seen[place] {
			seen[place] = true
			all = append(all, place)
		}
	}
	return all
}

// pages of all sites.
func (w *placementWorld) pages() int {
	n := 0
	for i := range w.sites {
		n += w.sites[i].pages
	}
	return n
}

// candidates of a site: its owner first, then the others that a row allows, without those that
// cannot reach it.
func (w *placementWorld) candidates(s *placementSite, all bool) []int {
	of := []int{s.owner}
	at, n := slices.Index(s.present, s.owner), len(s.present)
	for i, k := range s.present {
		apart := max(at-i, i-at)
		if k != s.owner && (all || min(apart, n-apart) <= leafSide) {
			of = append(of, k)
		}
	}
	slices.Sort(of[1:])
	return slices.DeleteFunc(of, func(k int) bool { return s.rtt[k] < 0 })
}

// nearest of some peers to a site, and its round trip.
func (s *placementSite) nearest(of []int) (int, time.Duration) {
	best := of[0]
	for _, k := range of {
		if s.rtt[k] < s.rtt[best] {
			best = k
		}
	}
	return best, s.rtt[best]
}
