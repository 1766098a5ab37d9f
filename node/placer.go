package node

import (
	"context"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/geoip"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// rangesKept and rangeAge bound what is remembered of address ranges.
	rangesKept = 4096
	rangeAge   = 10 * time.Minute
	// loadsKept bounds the peers of whom it is remembered what they have in hand, between two looks at who is a candidate.
	loadsKept = 1024
	// placementRounds bounds how often a strategy may ask for more measurements: each candidate of the largest leaf set by itself.
	placementRounds = 64
	// placeTime bounds the search for the worker of one host, requests that measure aside; the owner gives it up later.
	placeTime = 12 * time.Second
	// locateTime bounds finding a site's address before it is placed; without one it is placed all the same.
	locateTime = 500 * time.Millisecond
)

// placer chooses workers for the hosts of this peer. What it does not know yet of the way to a site it has the candidates measure.
type placer struct {
	node   *Node
	prober *prober

	// delegations is the strategy ipmicra, which asks the ring itself; nil for the others.
	delegations *delegations

	mu       sync.Mutex // guards what follows; never held over the network
	strategy placement.Strategy
	cache    *placement.Cache
	resting  map[string]time.Time // candidates that said they are paused, and when; of the leaf set as well
	loads    map[string]load      // what candidates told of themselves last; of the leaf set, so bounded
	addrs    map[string]addrSeen  // where candidates are; of the leaf set as well
}

// addrSeen is the address of a candidate as of a moment: to read it out of multiaddrs costs more than all else of a placement that measures nothing.
type addrSeen struct {
	addr netip.Addr
	at   time.Time
}

// addrAge is for how long a candidate's address is not looked at again.
const addrAge = time.Second

// load is what a peer told of its worker.
type load struct{ backlog, capacity uint32 }

func newPlacer(n *Node, s sites) (*placer, error) {
	pl := &placer{node: n, prober: newProber(s), cache: placement.NewCache(rangesKept, rangeAge), loads: make(map[string]load), resting: make(map[string]time.Time), addrs: make(map[string]addrSeen)}
	var err error
	if n.cfg.Placement == placeIPMicra {
		pl.delegations, err = newDelegationsOf(n)
	} else {
		pl.strategy, err = newStrategy(&n.cfg, n.room.net.Self())
	}
	if err != nil {
		return nil, err
	}
	return pl, nil
}

// placeAdaptive is our own strategy, beside those of crawl/placement itself.
const placeAdaptive = "adaptive"

// Placements lists the strategies that a peer can be run with.
func Placements() []string {
	names := append(placement.Names(), placeAdaptive, placeCoordinates, placeIPMicra)
	slices.Sort(names)
	return names
}

// newStrategy makes the strategy that a configuration names, with what it needs.
func newStrategy(c *Config, self peer.ID) (placement.Strategy, error) {
	if c.Placement == placeAdaptive {
		seed := fnv.New64a()
		seed.Write([]byte(self)) // so that peers do not explore the same sites
		known, err := newAtlas(c)
		if err != nil {
			return nil, err
		}
		return adaptive.New(adaptive.Config{Seed: seed.Sum64(), Atlas: known})
	}
	if c.Placement == placeCoordinates {
		return newLocated(c, self)
	}
	s, err := placement.New(c.Placement)
	if err != nil {
		return nil, err
	}
	if geo, ok := s.(*placement.Geo); ok && c.GeoIP != "" {
		if geo.Locator, err = geoip.Open(c.GeoIP); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// place looks for the worker of a host among this peer, its leaf set and those attached to it.
func (pl *placer) place(ctx context.Context, p owner.Place) owner.Placement {
	v := &placement.View{
		Now: time.Now(), Host: p.Host, Candidates: pl.somebody(ctx, ring.HostKey(p.Host), p.Exclude), Tiny: p.Tiny, Known: p.Known,
		Anew: p.Remeasure, Measured: make(map[string]placement.Measurement),
	}
	ctx, cancel := context.WithTimeout(ctx, max(placeTime, p.RequestsUntil.Sub(pl.node.clock.Now())))
	defer cancel()
	v.Site = pl.locate(ctx, &p)
	pl.recall(&p, v)
	asking := asking{placer: pl, place: &p, next: p.NotBefore}
	next := pl.next
	if pl.delegations != nil {
		search := pl.delegations.search(&p)
		defer search.end()
		next = search.next
	}
	for range placementRounds {
		c := next(ctx, v)
		if len(c.Probe) == 0 {
			pl.placed(v, &c)
			return owner.Placement{Worker: c.Worker, URLs: c.URLs, Pace: c.Pace, Measured: measurements(v), Why: c.Why, NotBefore: asking.owed}
		}
		asking.measure(ctx, c.Probe, v)
	}
	return owner.Placement{Measured: measurements(v), Why: "the strategy found no end: the owner keeps the host", NotBefore: asking.owed}
}

func (pl *placer) next(_ context.Context, v *placement.View) placement.Choice {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.strategy.Next(v)
}

// placed remembers the worker of a site's range.
func (pl *placer) placed(v *placement.View, c *placement.Choice) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if v.Site.IsValid() && c.URLs != 1 { // one URL is for an estimator, and no placement
		pl.cache.Placed(v.Site, c.Worker)
	}
}

// locate is the address of a site: the one that a worker met, or else the one that a fetch would try first; zero if there is none. A host with few URLs is
// not worth the question.
func (pl *placer) locate(ctx context.Context, p *owner.Place) netip.Addr {
	if len(p.Addrs) > 0 {
		if addr, ok := netip.AddrFromSlice(p.Addrs[0]); ok {
			return addr.Unmap()
		}
	}
	if p.Tiny {
		return netip.Addr{}
	}
	ctx, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	addrs, err := pl.prober.sites.Locate(ctx, p.Host, schemeOf(p))
	if err != nil || len(addrs) == 0 {
		return netip.Addr{}
	}
	return addrs[0].Addr().Unmap()
}

func schemeOf(p *owner.Place) string {
	if p.Secure {
		return "https"
	}
	return "http"
}

// recall fills in what is known already: of the host from its record, which may come from another owner, and of the site's range. What does not hold
// any more is not.
func (pl *placer) recall(p *owner.Place, v *placement.View) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if v.Site.IsValid() && v.Known == "" {
		v.Known = pl.cache.Worker(v.Site)
	}
	if p.Remeasure {
		return
	}
	if v.Site.IsValid() {
		maps.Copy(v.Measured, pl.cache.Measured(v.Now, v.Site))
	}
	if age := pl.node.clock.Now().Sub(p.MeasuredAt); p.MeasuredAt.IsZero() || age > rangeAge {
		return
	}
	for _, m := range p.Measured {
		if _, newer := v.Measured[m.Peer]; !newer && m.Error == "" && m.RTTUs > 0 {
			v.Measured[m.Peer] = placement.Measurement{RTT: time.Duration(m.RTTUs) * time.Microsecond}
		}
	}
}

const (
	// nobodyFor is how long a host waits for a candidate while this peer and all others are paused, before it is looked at again; nobodyEvery how soon it is
	// seen that one has gone on.
	nobodyFor   = 2 * time.Second
	nobodyEvery = 250 * time.Millisecond
)

// somebody is candidates, after a while if nobody would take the host at present.
func (pl *placer) somebody(ctx context.Context, key ring.Key, exclude []string) []placement.Candidate {
	list := pl.candidates(key, exclude)
	for begun := time.Now(); len(list) == 1 && pl.node.limits.Paused() && time.Since(begun) < nobodyFor; list = pl.candidates(key, exclude) {
		if loop.Sleep(ctx, nobodyEvery) != nil {
			break
		}
	}
	return list
}

// candidates are this peer, its leaf set, nearest on the ring first, and some of the workers attached to it, without those that would not take the host or
// do not answer at present.
func (pl *placer) candidates(key ring.Key, exclude []string) []placement.Candidate {
	n := pl.node
	self := string(n.room.net.Self())
	list := []placement.Candidate{{
		Peer: self, Self: true,
		Backlog: uint32(n.crawl.worker.Backlog()), Capacity: uint32(n.crawl.worker.Capacity()), //nolint:gosec // small counts
	}}
	if n.limits.Paused() {
		list[0].Backlog = list[0].Capacity // others go first
	}
	preds, succs := n.room.dht.Leaves()
	seen := map[string]bool{self: true}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	add := func(id string) {
		if !seen[id] {
			seen[id] = true
			l := pl.loads[id]
			list = append(list, placement.Candidate{Peer: id, Backlog: l.backlog, Capacity: l.capacity})
		}
	}
	for i := range max(len(preds), len(succs)) {
		if i < len(succs) {
			add(string(succs[i].ID))
		}
		if i < len(preds) {
			add(string(preds[i].ID))
		}
	}
	for _, p := range n.room.dht.Candidates(key) {
		add(string(p.ID))
	}
	maps.DeleteFunc(pl.loads, func(id string, _ load) bool { return !seen[id] })
	maps.DeleteFunc(pl.resting, func(id string, _ time.Time) bool { return !seen[id] })
	maps.DeleteFunc(pl.addrs, func(id string, _ addrSeen) bool { return !seen[id] })
	list = slices.DeleteFunc(list, func(c placement.Candidate) bool {
		return !c.Self && (slices.Contains(exclude, c.Peer) || n.room.dht.Suspect(peer.ID(c.Peer)) || pl.isResting(c.Peer))
	})
	for i := range list {
		list[i].Addr = pl.addrOf(list[i].Peer)
	}
	return list
}

// addrOf is the address of a candidate. The mutex is held.
func (pl *placer) addrOf(id string) netip.Addr {
	now := time.Now()
	if had, ok := pl.addrs[id]; ok && now.Sub(had.at) < addrAge {
		return had.addr
	}
	net := pl.node.room.net
	var list []string
	if self := net.Self(); id == string(self) {
		list = net.Addrs()
	} else {
		list = net.AddrsOf(peer.ID(id))
	}
	pl.addrs[id] = addrSeen{p2p.FirstIP(list), now}
	return pl.addrs[id].addr
}

// told notes what a peer said of its worker, and what it measured.
func (pl *placer) told(id string, r *wire.ProbeReply) placement.Measurement {
	m := placement.Measurement{RTT: time.Duration(r.GetRttUs()) * time.Microsecond, Err: r.GetError()}
	if m.RTT == 0 && m.Err == "" {
		m.Err = "no round trip in the answer"
	}
	if m.Err == restingText {
		pl.rests(id)
		return m
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.note(id, r.GetBacklog(), r.GetCapacity())
	if addr, ok := netip.AddrFromSlice(r.GetAddr()); ok && m.Err == "" {
		pl.cache.Note(time.Now(), addr.Unmap(), id, m)
	}
	return m
}

// restingText is how a paused peer answers probes and offers. It is asked again after restingFor, so that a ring of paused peers is quiet however many
// hosts wait.
const (
	restingText = "the peer is paused"
	restingFor  = 10 * time.Second
)

// rests notes that a candidate is paused.
func (pl *placer) rests(id string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.resting) < loadsKept {
		pl.resting[id] = time.Now()
	}
}

// isResting says whether a candidate is left alone. When its time is over one host may try it, and the others follow if it has gone on. The mutex is held.
func (pl *placer) isResting(id string) bool {
	since, resting := pl.resting[id]
	if !resting {
		return false
	}
	if now := time.Now(); now.Sub(since) >= restingFor {
		pl.resting[id] = now
		return false
	}
	return true
}

// heard notes what a worker that holds leases of this peer said of itself: strategies that probe nobody hear of it in no other way.
func (pl *placer) heard(id string, backlog, capacity uint32) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.note(id, backlog, capacity)
}

// note is called with the lock held.
func (pl *placer) note(id string, backlog, capacity uint32) {
	if capacity > 0 {
		delete(pl.resting, id)
	}
	if _, known := pl.loads[id]; capacity > 0 && (known || len(pl.loads) < loadsKept) {
		pl.loads[id] = load{backlog, capacity}
	}
}

// observe lets a strategy that learns from downloads see a report. It is called in a step of the owner and does not block.
func (pl *placer) observe(host string, addrs [][]byte, worker string, list []*wire.Fetched) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	observer, ok := pl.strategy.(interface{ Observe(f *placement.Fetch) })
	if pl.delegations != nil {
		observer, ok = pl.delegations, true
	}
	if !ok {
		return
	}
	var site netip.Addr
	if len(addrs) > 0 {
		site, _ = netip.AddrFromSlice(addrs[0])
	}
	for _, f := range list {
		if f.GetFetchedMs() > 0 && f.GetDurationMs() > 0 {
			observer.Observe(&placement.Fetch{
				At: time.UnixMilli(f.GetFetchedMs()), Host: host, Site: site.Unmap(), Worker: worker,
				Took: time.Duration(f.GetDurationMs()) * time.Millisecond, Bytes: int64(min(f.GetSize(), 1<<62)), //nolint:gosec // bounded
				Failed: noAnswer(link.Outcome(f.GetOutcome())),
			})
		}
	}
}

// noAnswer says whether a site did not answer a request to its end.
func noAnswer(o link.Outcome) bool { return o.HostWide() || o == link.OutcomeTimeout }

// measurements turns what a strategy saw into what the host's record keeps.
func measurements(v *placement.View) []owner.Measurement {
	out := make([]owner.Measurement, 0, len(v.Measured))
	for _, c := range v.Candidates {
		if m, ok := v.Measured[c.Peer]; ok {
			out = append(out, owner.Measurement{Peer: c.Peer, RTTUs: m.RTT.Microseconds(), Error: m.Err})
		}
	}
	return out
}
