package node

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/hosts"
	"github.com/apoidea/apoidea/node/records"
	"github.com/apoidea/apoidea/node/rpc"
)

const (
	// maxTurned bounds the peers whose refused requests are counted; who was refused least lately
	// goes first.
	maxTurned = 512
	// turnedFor is how long a refusal is told of.
	turnedFor = time.Hour

	// memberFor and strangerFor are how long it is believed that a peer serves a part of the ring, or
	// works for it, or does not; maxStandings bounds of how many peers.
	memberFor, strangerFor = 10 * time.Minute, 2 * time.Second
	// workerFor is how long a worker, whom a host's owner has vouched for, is believed to be no
	// member: few workers become one.
	workerFor    = time.Minute
	maxStandings = 1024
	// maxConfirming bounds the lookups that confirm callers at once, confirmTime each of them; half
	// of them are for callers of one network, and for those who wait for a turn.
	maxConfirming = 8
	confirmTime   = 2 * time.Second
	// strangersMemory is what the large requests of those who are no members may take unpacked, all
	// together, in bytes; one that takes more has all of it.
	strangersMemory = 4 << 20
	// refusalRate is how many requests of those who are no neighbours are turned away in a second
	// at once; behind them each takes refusalPause, so that who asks for what is not theirs as fast
	// as may be does not keep a processor busy.
	refusalRate  = 200
	refusalPause = 250 * time.Millisecond
	// maxArcs bounds the lookups for the keys that one request names, each of which tells of an arc.
	maxArcs = 16
	// maxVouching bounds the hosts whose owners are asked about one worker.
	maxVouching = 4
)

// gate is what this peer knows of those who call it, and what it refused them.
type gate struct {
	leaf       func(id peer.ID) (is, proven bool) // see dht.DHT.Leaf
	router     *rpc.Router
	self       peer.ID
	origin     func(id peer.ID) string // the network that a caller comes from; empty: none that tells it from others
	confirming chan struct{}
	unpacked   *semaphore.Weighted // of strangersMemory
	ofWorkers  *semaphore.Weighted // as much again
	refusing   *rate.Limiter

	mu        sync.Mutex                 // guards the rest
	crowds    map[string]int             // callers that are being confirmed, or wait for it, by network
	asking    map[question]chan struct{} // closed when the ring has said
	turned    map[peer.ID]*refusals
	standings map[question]standing
}

// question is what is asked of a peer: whether it serves a part of the ring, or works for it, or
// was a neighbour until lately.
type question struct {
	id    peer.ID
	works bool
	was   bool
}

// standing is what the ring said of a peer.
type standing struct {
	yes   bool
	until time.Time
}

var _ rpc.Gate = (*gate)(nil)

// refusals are those of one peer.
type refusals struct {
	n, later int64
	last     time.Time
	request  string
	why      string
}

func newGate(room *ringRoom, router *rpc.Router) *gate {
	return &gate{
		leaf: room.dht.Leaf, router: router, self: room.net.Self(), origin: room.net.Origin, crowds: make(map[string]int), confirming: make(chan struct{}, maxConfirming),
		refusing: rate.NewLimiter(refusalRate, refusalRate), asking: make(map[question]chan struct{}),
		unpacked: semaphore.NewWeighted(strangersMemory), ofWorkers: semaphore.NewWeighted(strangersMemory),
		turned: make(map[peer.ID]*refusals), standings: make(map[question]standing),
	}
}

// Neighbour implements rpc.Gate. Who has only called stands in the leaf set, and is no neighbour
// yet.
func (g *gate) Neighbour(id peer.ID) bool {
	if is, proven := g.leaf(id); is {
		return proven
	}
	s := g.standing(question{id: id, was: true})
	return s.yes && s.until.After(time.Now())
}

// left notes that a peer of the leaf set is gone, which was a neighbour if it was proven.
func (g *gate) left(id peer.ID, proven bool) {
	if !proven {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remember(question{id: id, was: true}, standing{yes: true, until: time.Now().Add(records.DepartTime)})
}

// Member implements rpc.Gate: a member is the owner of its own place.
func (g *gate) Member(ctx context.Context, id peer.ID) bool {
	if id == g.self || g.Neighbour(id) || g.atItsPlace(id) {
		return true
	}
	no := strangerFor
	if g.vouchedFor(id) {
		no = workerFor
	}
	return g.confirmed(ctx, question{id: id}, no, func(ctx context.Context) bool { return g.found(ctx, id, ring.PeerKey([]byte(id))) })
}

// Works implements rpc.Gate.
func (g *gate) Works(ctx context.Context, id peer.ID, of func() []string) bool {
	if g.vouchedFor(id) || g.Member(ctx, id) {
		return true
	}
	return g.confirmed(ctx, question{id: id, works: true}, strangerFor, func(ctx context.Context) bool {
		list := of()
		for _, host := range list[:min(len(list), maxVouching)] {
			reply, err := hosts.VouchMethod.CallOwner(ctx, g.router, ring.HostKey(host), &wire.Vouch{Worker: []byte(id), Host: host})
			if err == nil && reply.GetWorked() {
				return true
			}
		}
		return false
	})
}

// vouchedFor says whether an owner of a host has vouched for a worker of late.
func (g *gate) vouchedFor(id peer.ID) bool {
	s := g.standing(question{id: id, works: true})
	return s.yes && s.until.After(time.Now())
}

// confirmed is what the ring says of a peer, or said a moment ago; that it says no is believed for
// so long.
func (g *gate) confirmed(ctx context.Context, q question, no time.Duration, ask func(ctx context.Context) bool) bool {
	for {
		s, asked := g.asks(q)
		if s.until.After(time.Now()) {
			return s.yes
		}
		if asked == nil {
			break
		}
		select {
		case <-asked: // by another request of it
		case <-ctx.Done():
			return false
		}
	}
	defer g.asked(q)
	done := g.turn(ctx, q.id)
	if done == nil {
		return false
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	s := standing{yes: ask(ctx), until: time.Now().Add(no)}
	if s.yes {
		s.until = time.Now().Add(memberFor)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remember(q, s)
	return s.yes
}

// asks returns what the ring said last, and where that holds no more, what is closed when another
// request has asked; nil if it is for this one to ask.
func (g *gate) asks(q question) (s standing, asked <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s = g.standings[q]
	if s.until.After(time.Now()) {
		return s, nil
	}
	if c := g.asking[q]; c != nil {
		return s, c
	}
	g.asking[q] = make(chan struct{})
	return s, nil
}

// asked lets those go on who wait for an answer.
func (g *gate) asked(q question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.asking[q])
	delete(g.asking, q)
}

// remember keeps what the ring said; those go first who are nobody, of whom anybody makes as many
// as they like. Called with the lock held.
func (g *gate) remember(q question, s standing) {
	if len(g.standings) >= maxStandings {
		maps.DeleteFunc(g.standings, func(_ question, s standing) bool { return !s.yes || s.until.Before(time.Now()) })
	}
	if len(g.standings) >= maxStandings {
		clear(g.standings) // they are asked again
	}
	g.standings[q] = s
}

// standing is what the ring said last.
func (g *gate) standing(q question) standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.standings[q]
}

// turn waits for its turn to ask the ring about a caller; done ends it. It is nil if ctx ends
// before, or where as many of the caller's network wait as may.
func (g *gate) turn(ctx context.Context, id peer.ID) (done func()) {
	origin := g.origin(id)
	if !g.joins(origin) {
		return nil
	}
	select {
	case g.confirming <- struct{}{}:
		return func() {
			<-g.confirming
			g.leaves(origin)
		}
	case <-ctx.Done():
		g.leaves(origin)
		return nil
	}
}

// joins counts one more caller of a network, unless there are as many as may be.
func (g *gate) joins(origin string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if origin != "" && g.crowds[origin] >= maxConfirming/2 {
		return false
	}
	g.crowds[origin]++
	return true
}

// leaves ends what joins began.
func (g *gate) leaves(origin string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crowds[origin]--; g.crowds[origin] <= 0 {
		delete(g.crowds, origin)
	}
}

// found says whether a lookup finds a peer to own a key.
func (g *gate) found(ctx context.Context, id peer.ID, key ring.Key) bool {
	l, err := g.router.Ring.Lookup(ctx, key)
	return err == nil && l.Owner.ID == id
}

// Owns implements rpc.Gate. A lookup tells of a whole arc: of keys beside each other the first is
// enough.
func (g *gate) Owns(ctx context.Context, id peer.ID, keys []ring.Key) []bool {
	own := make([]bool, len(keys))
	lookups := 0
	for i, key := range keys {
		if own[i] = id == g.self || g.believed(id, key); own[i] || lookups >= maxArcs {
			continue
		}
		lookups++
		done := g.turn(ctx, id)
		if done == nil {
			return own
		}
		within, cancel := context.WithTimeout(ctx, confirmTime)
		own[i] = g.found(within, id, key)
		cancel()
		done()
	}
	return own
}

// near is Neighbour for workers, which may be known at their place further away. That one is
// attached to this peer says nothing: whoever asks is.
func (g *gate) near(worker string) bool {
	id := peer.ID(worker)
	return id == g.self || g.Neighbour(id) || g.atItsPlace(id)
}

// atItsPlace says whether a peer is believed to own its own place, without asking anybody.
func (g *gate) atItsPlace(id peer.ID) bool {
	return g.believed(id, ring.PeerKey([]byte(id)))
}

// believed says whether a peer is believed to own a key, without asking anybody.
func (g *gate) believed(id peer.ID, key ring.Key) bool {
	if is, proven := g.leaf(id); is && !proven {
		return false
	}
	p, ok := g.router.Ring.Guess(key)
	return ok && p.ID == id
}

// unasked notes outcomes that were left aside.
func (g *gate) unasked(id peer.ID, outcomes int) {
	g.count(id, "Session", rpc.Refuse("%d outcomes of hosts that it never had", outcomes))
}

// Unpacks implements rpc.Gate: strangers wait for each other, and nobody for them; so do workers
// whom a host's owner has vouched for.
func (g *gate) Unpacks(ctx context.Context, id peer.ID, bytes int64) (done func(), err error) {
	bytes = min(bytes, strangersMemory)
	room := g.unpacked
	if g.vouchedFor(id) {
		room = g.ofWorkers
	}
	switch {
	case g.Neighbour(id):
		return func() {}, nil
	case room.TryAcquire(bytes):
	case g.Member(ctx, id):
		return func() {}, nil
	default:
		if err := room.Acquire(ctx, bytes); err != nil {
			return nil, err
		}
	}
	return func() { room.Release(bytes) }, nil
}

// Turned implements rpc.Gate.
func (g *gate) Turned(id peer.ID, request string, why error) {
	g.count(id, request, why)
	if !g.Neighbour(id) && !g.refusing.Allow() {
		time.Sleep(refusalPause) // not the caller's to cut short
	}
}

// count counts a request that was turned away.
func (g *gate) count(id peer.ID, request string, why error) {
	text := fmt.Sprintf("%.200q", why.Error()) // it may have words of the caller in it
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.turned[id]
	if r == nil {
		g.forget()
		r = new(refusals)
		g.turned[id] = r
	}
	if r.n++; !rpc.Refused(why) {
		r.later++
	}
	r.last, r.request, r.why = time.Now(), request, text[1:len(text)-1]
}

// forget makes room for one more.
func (g *gate) forget() {
	if len(g.turned) < maxTurned {
		return
	}
	var oldest peer.ID
	for id, r := range g.turned {
		if oldest == "" || r.last.Before(g.turned[oldest].last) {
			oldest = id
		}
	}
	delete(g.turned, oldest)
}

// refused is what was refused lately, by peer.
func (g *gate) refused() map[peer.ID]control.Refusals {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make(map[peer.ID]control.Refusals, len(g.turned))
	for id, r := range g.turned {
		if ago := time.Since(r.last); ago < turnedFor {
			list[id] = control.Refusals{Requests: r.n, Later: r.later, Request: r.request, Why: r.why, AgoMS: ago.Milliseconds()}
		}
	}
	return list
}
