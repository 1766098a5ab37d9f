package placer

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

const (
	// rangesKept and rangeAge bound the cache of address ranges.
	rangesKept = 4096
	rangeAge   = 10 * time.Minute
	// loadsKept bounds the peers with a remembered load, between two checks of the candidates.
	loadsKept = 1024
	// placementRounds bounds the measurement requests of a strategy: one for each candidate of the
	// largest leaf set.
	placementRounds = 64
	// placeTime bounds the search for the worker of one host, without measuring requests; the owner's
	// own timeout is longer.
	placeTime = 12 * time.Second
	// beyond is the number of peers beyond the leaf set that may be candidates for a host, and farKept
	// the number remembered.
	beyond  = 4
	farKept = 64
	// locateTime bounds the lookup of a site's address before placement; without an address it is
	// placed as well.
	locateTime = 500 * time.Millisecond
)

// Placer chooses workers for the hosts of this peer, and measures sites for other owners. Missing
// measurements are made by the candidates. It is safe for concurrent use.
type Placer struct {
	cfg    Config
	deps   Deps
	prober *prober

	// Ring state of some strategies; nil for the others. Delegations is a strategy by itself, which
	// queries the ring.
	delegations *delegations
	gossip      *gossip
	samples     *sampleGossip

	mu       sync.Mutex // guards what follows; never held during calls of network or ring
	strategy placement.Strategy
	cache    *placement.Cache
	resting  map[string]time.Time // backoff of paused candidates, of leaf set and far, so bounded
	far      []string             // candidates beyond the leaf set, the latest last; at most farKept
	loads    map[string]load      // last reported by candidates; of both as well
}

// load is the reported load of a peer's worker.
type load struct{ backlog, capacity uint32 }

// New returns a placer, which measures for other owners from now on. The ring state of its strategy
// needs Run.
func New(cfg Config, d Deps) (*Placer, error) {
	pl := &Placer{
		cfg: cfg, deps: d, prober: newProber(d.Sites, d.Worker.Visit), cache: placement.NewCache(rangesKept, rangeAge),
		loads: make(map[string]load), resting: make(map[string]time.Time),
	}
	if err := pl.setUp(); err != nil {
		return nil, err
	}
	return pl, nil
}

// Run runs background tasks of the strategy, such as gossip, until ctx ends.
func (pl *Placer) Run(ctx context.Context) error {
	switch {
	case pl.delegations != nil:
		return pl.delegations.run(ctx, pl.deps.Where)
	case pl.gossip != nil:
		return pl.gossip.run(ctx)
	case pl.samples != nil:
		return pl.samples.run(ctx)
	}
	return nil
}

// CoordinatesService returns the service [ServiceCoordinates].
func (pl *Placer) CoordinatesService() rpc.Service { return pl.gossip.service() }

// SamplesService returns the service [ServiceSamples].
func (pl *Placer) SamplesService() rpc.Service { return pl.samples.service() }

// Distance returns the expected round trip of gossip with a neighbor in ms, by network coordinates,
// and the larger of both errors; nil if one is unknown.
func (pl *Placer) Distance(id peer.ID) (ms, relative *float64) { return pl.gossip.distance(id) }

// Measured returns the last round trip measured from here to a host at an address, 0 if there is
// none in memory.
func (pl *Placer) Measured(host string, addr netip.Addr) time.Duration {
	return pl.prober.last(host, addr)
}

// Place chooses the worker of a host among this peer, its leaf set and attached workers.
func (pl *Placer) Place(ctx context.Context, p owner.Place) owner.Placement {
	if p.Check {
		return pl.checker(&p)
	}
	v := &placement.View{
		Now: time.Now(), Host: p.Host, Candidates: pl.somebody(ctx, ring.HostKey(p.Host), p.Exclude), URLs: p.Pending, Tiny: p.Tiny, Known: p.Known,
		Anew: p.Remeasure, Measured: make(map[string]placement.Measurement),
	}
	ctx, cancel := context.WithTimeout(ctx, max(placeTime, p.RequestsUntil.Sub(pl.deps.Now())))
	defer cancel()
	v.Site = pl.locate(ctx, &p)
	pl.recall(&p, v)
	near, members := len(v.Candidates), pl.members()
	asking := asking{Placer: pl, place: &p, next: p.NotBefore}
	next := pl.next
	if pl.delegations != nil {
		search := pl.delegations.search(&p)
		defer search.end()
		next = search.next
	}
	for range placementRounds {
		pl.reach(&p, v, members, beyond-(len(v.Candidates)-near))
		c := next(ctx, v)
		if len(c.Probe) == 0 {
			pl.placed(v, &c)
			return owner.Placement{Worker: c.Worker, URLs: c.URLs, Pace: c.Pace, Measured: measurements(v), Why: c.Why, Unsure: c.Unsure, NotBefore: asking.owed}
		}
		asking.measure(ctx, c.Probe, v)
	}
	return owner.Placement{Measured: measurements(v), Why: "no result of the strategy: the owner takes the host", NotBefore: asking.owed}
}

func (pl *Placer) next(_ context.Context, v *placement.View) placement.Choice {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.strategy.Next(v)
}

// placed caches the worker of a site's range.
func (pl *Placer) placed(v *placement.View, c *placement.Choice) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if v.Site.IsValid() && c.URLs != 1 { // a lease of one URL is a sample, not a placement
		pl.cache.Placed(v.Site, c.Worker)
	}
}

// locate returns the address of a site: the one that a worker reported, or the first that a fetch
// would try; zero if there is none. For a host with few URLs it is looked up only if the strategy
// uses addresses.
func (pl *Placer) locate(ctx context.Context, p *owner.Place) netip.Addr {
	if len(p.Addrs) > 0 {
		if addr, ok := netip.AddrFromSlice(p.Addrs[0]); ok {
			return addr.Unmap()
		}
	}
	if p.Tiny && pl.samples == nil {
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

// recall adds known measurements: of the host from its record, which may come from another owner,
// and of the site's range. Outdated ones are omitted.
func (pl *Placer) recall(p *owner.Place, v *placement.View) {
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
	if age := pl.deps.Now().Sub(p.MeasuredAt); p.MeasuredAt.IsZero() || age > rangeAge {
		return
	}
	for _, m := range p.Measured {
		if _, newer := v.Measured[m.Peer]; !newer && m.Error == "" && m.RTTUs > 0 {
			v.Measured[m.Peer] = placement.Measurement{RTT: time.Duration(m.RTTUs) * time.Microsecond}
		}
	}
}

const (
	// nobodyFor is the time for which a host waits for a candidate while this peer and all others are
	// paused, and nobodyEvery the interval of checks.
	nobodyFor   = 2 * time.Second
	nobodyEvery = 250 * time.Millisecond
)

// reach adds up to most members beyond the leaf set that are likely to be nearer to the site than
// all in it, by its place or by its measurements so far. A peer that did not take the host, or does
// not answer, is skipped for a while, like a paused one, since its failure is not detected here.
func (pl *Placer) reach(p *owner.Place, v *placement.View, members map[string]bool, most int) {
	if pl.samples == nil || most <= 0 {
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, id := range p.Exclude {
		if slices.Contains(pl.far, id) {
			pl.resting[id] = time.Now()
		}
	}
	likely := pl.samples.strategy.Beyond(v, most, func(id string) bool {
		since, resting := pl.resting[id]
		return members[id] && !slices.Contains(p.Exclude, id) && (!resting || time.Since(since) >= restingFor)
	})
	for _, id := range likely {
		pl.rests(id) // after its backoff, this host tries it
		pl.far = append(slices.DeleteFunc(pl.far, func(f string) bool { return f == id }), id)
		pl.far = pl.far[max(0, len(pl.far)-farKept):]
		l := pl.loads[id]
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: id, Backlog: l.backlog, Capacity: l.capacity})
	}
}

// members returns the known ring peers without suspects, nil if the strategy does not use them.
func (pl *Placer) members() map[string]bool {
	if pl.samples == nil {
		return nil
	}
	members := make(map[string]bool)
	for _, m := range pl.deps.Ring.Members() {
		if !pl.deps.Ring.Suspect(m.ID) {
			members[string(m.ID)] = true
		}
	}
	return members
}

// somebody returns candidates, and waits a while if none is available.
func (pl *Placer) somebody(ctx context.Context, key ring.Key, exclude []string) []placement.Candidate {
	list := pl.candidates(key, exclude)
	for begun := time.Now(); len(list) == 1 && pl.deps.Paused() && time.Since(begun) < nobodyFor; list = pl.candidates(key, exclude) {
		if loop.Sleep(ctx, nobodyEvery) != nil {
			break
		}
	}
	return list
}

// candidates returns this peer, its leaf set, nearest first, and some of the workers attached to
// it, without those that would not take the host or do not answer.
func (pl *Placer) candidates(key ring.Key, exclude []string) []placement.Candidate {
	list := []placement.Candidate{{Peer: string(pl.deps.Self), Self: true}}
	list[0].Backlog, list[0].Capacity = pl.inHand()
	if pl.deps.Paused() || slices.Contains(exclude, list[0].Peer) {
		list[0].Backlog = list[0].Capacity // others are preferred
	}
	for _, c := range pl.known(pl.around(key)) {
		if !slices.Contains(exclude, c.Peer) && !pl.deps.Ring.Suspect(peer.ID(c.Peer)) && !pl.isResting(c.Peer) {
			list = append(list, c)
		}
	}
	if _, ok := pl.strategy.(*placement.Geo); ok { // the others do not use addresses of candidates
		for i := range list {
			list[i].Addr = member.FirstIP(pl.deps.Addrs(peer.ID(list[i].Peer)))
		}
	}
	return list
}

// around returns the leaf set, nearest first, and some of the workers attached to it, without this
// peer.
func (pl *Placer) around(key ring.Key) (near []string) {
	preds, succs := pl.deps.Ring.Leaves()
	var nearest []dht.Peer
	for i := range max(len(preds), len(succs)) {
		if i < len(succs) {
			nearest = append(nearest, succs[i])
		}
		if i < len(preds) {
			nearest = append(nearest, preds[i])
		}
	}
	for _, id := range member.IDs(nearest, pl.deps.Ring.Candidates(key)) {
		if id != pl.deps.Self {
			near = append(near, string(id))
		}
	}
	return near
}

// known returns candidates with their loads; loads of other peers are dropped.
func (pl *Placer) known(near []string) (list []placement.Candidate) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	seen := map[string]bool{string(pl.deps.Self): true}
	for _, id := range pl.far {
		seen[id] = true
	}
	for _, id := range near {
		seen[id] = true
		l := pl.loads[id]
		list = append(list, placement.Candidate{Peer: id, Backlog: l.backlog, Capacity: l.capacity})
	}
	maps.DeleteFunc(pl.loads, func(id string, _ load) bool { return !seen[id] })
	maps.DeleteFunc(pl.resting, func(id string, _ time.Time) bool { return !seen[id] })
	return list
}

// inHand returns the load and the capacity of this peer's worker.
func (pl *Placer) inHand() (backlog, capacity uint32) {
	w := pl.deps.Worker
	return uint32(w.Backlog()), uint32(w.Capacity()) // small counts
}

// measured stores the load and the measurement that a peer reported.
func (pl *Placer) measured(id string, r *wire.ProbeReply) placement.Measurement {
	m := placement.Measurement{RTT: time.Duration(r.GetRttUs()) * time.Microsecond, Err: r.GetError()}
	if m.RTT == 0 && m.Err == "" {
		m.Err = "no round trip in the reply"
	}
	if pl.Declined(id, m.Err) {
		return m
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if r.GetCapacity() == 0 && slices.Contains(pl.far, id) {
		pl.resting[id] = time.Now() // it did not answer
	}
	pl.setLoad(id, r.GetBacklog(), r.GetCapacity())
	if addr, ok := netip.AddrFromSlice(r.GetAddr()); ok && m.Err == "" {
		pl.cache.Add(time.Now(), addr.Unmap(), id, m)
	}
	return m
}

// restingFor is the backoff of a paused peer, so that a ring of paused peers is quiet however many
// hosts wait.
const restingFor = 10 * time.Second

// Declined stores the reason why a candidate declined, and reports whether it is paused.
func (pl *Placer) Declined(id, why string) (paused bool) {
	if why != wire.PausedText {
		return false
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.resting) < loadsKept {
		pl.resting[id] = time.Now()
	}
	return true
}

// isResting reports whether a candidate is in backoff. After the backoff one host may try it, and
// the others follow if it has resumed.
func (pl *Placer) isResting(id string) bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.rests(id)
}

// rests is isResting with mu held.
func (pl *Placer) rests(id string) bool {
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

// SetLoad stores the load reported by a worker that holds leases of this peer: strategies without
// probes have no other source.
func (pl *Placer) SetLoad(id string, backlog, capacity uint32) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.setLoad(id, backlog, capacity)
}

// setLoad is called with the lock held.
func (pl *Placer) setLoad(id string, backlog, capacity uint32) {
	if capacity > 0 {
		delete(pl.resting, id)
	}
	if _, known := pl.loads[id]; capacity > 0 && (known || len(pl.loads) < loadsKept) {
		pl.loads[id] = load{backlog, capacity}
	}
}

// Observe passes a report to a strategy that learns from downloads. It is called in a step of the
// owner and does not block.
func (pl *Placer) Observe(host string, addrs [][]byte, worker string, w *wire.HostWork) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	observer, ok := pl.strategy.(placement.Observer)
	if !ok {
		return
	}
	var site netip.Addr
	if len(addrs) > 0 {
		site, _ = netip.AddrFromSlice(addrs[0])
	}
	if us := w.GetConnectUs(); us > 0 && pl.samples != nil {
		pl.samples.strategy.Connected(time.Now(), host, site.Unmap(), worker, time.Duration(us)*time.Microsecond)
	}
	for _, f := range w.GetFetched() {
		if f.GetFetchedMs() > 0 && f.GetDurationMs() > 0 {
			observer.Observe(&placement.Fetch{
				At: time.UnixMilli(f.GetFetchedMs()), Host: host, Site: site.Unmap(), Worker: worker,
				Took: time.Duration(f.GetDurationMs()) * time.Millisecond, Bytes: int64(min(f.GetSize(), 1<<62)), // bounded
				Failed: noAnswer(link.Outcome(f.GetOutcome())),
			})
		}
	}
}

// noAnswer reports whether a site did not answer a request completely.
func noAnswer(o link.Outcome) bool { return o.HostWide() || o == link.OutcomeTimeout }

// measurements converts a strategy's measurements to those of the host record.
func measurements(v *placement.View) []owner.Measurement {
	out := make([]owner.Measurement, 0, len(v.Measured))
	for _, c := range v.Candidates {
		if m, ok := v.Measured[c.Peer]; ok {
			out = append(out, owner.Measurement{Peer: c.Peer, RTTUs: m.RTT.Microseconds(), Error: m.Err})
		}
	}
	return out
}
