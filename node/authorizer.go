package node

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/rpc"
)

const (
	// maxTurned is the number of peers whose rejected requests are counted; the least recent is
	// dropped first.
	maxTurned = 512
	// turnedFor is how long a rejection is reported.
	turnedFor = time.Hour

	// memberFor and strangerFor are the cache lifetimes of the answers that a peer is a member or
	// worker, or is not; maxStandings is the number of cached peers.
	memberFor, strangerFor = 10 * time.Minute, 2 * time.Second
	// workerFor is the cache lifetime of "not a member" for a worker confirmed by a host's owner: few
	// workers become members.
	workerFor    = time.Minute
	maxStandings = 1024
	// maxConfirming is the number of concurrent lookups that confirm callers, confirmTime the timeout
	// of each; at most half are for one network, including waiting callers.
	maxConfirming = 8
	confirmTime   = 2 * time.Second
	// strangersMemory is the decoded size of all large requests of non-members, in bytes; one that
	// needs more takes all of it.
	strangersMemory = 4 << 20
	// refusalRate is the number of rejections of non-neighbors per second without delay; beyond it
	// each takes refusalPause, so that a flood of unauthorized requests does not load a CPU.
	refusalRate  = 200
	refusalPause = 250 * time.Millisecond
	// maxArcs is the maximum number of lookups for the keys of one request, each of which covers an
	// arc.
	maxArcs = 16
	// maxVouching is the maximum number of hosts whose owners are asked about one worker.
	maxVouching = 4
)

// authorizer decides on the roles of callers, and counts rejected requests.
type authorizer struct {
	leaf       func(id peer.ID) (is, proven bool) // see dht.DHT.Leaf
	router     *rpc.Router
	self       peer.ID
	origin     func(id peer.ID) string // the network that a caller comes from; empty if unknown
	confirming chan struct{}
	unpacked   *semaphore.Weighted // of strangersMemory
	ofWorkers  *semaphore.Weighted // the same amount for confirmed workers
	refusing   *rate.Limiter

	mu        sync.Mutex                 // guards the fields below
	crowds    map[string]int             // callers being confirmed, or waiting for it, by network
	asking    map[question]chan struct{} // closed when the lookup is done
	turned    *simplelru.LRU[peer.ID, *refusals]
	standings map[question]standing
}

// question is a query about a peer: whether it is a member, works for one, or was a neighbor
// recently.
type question struct {
	id    peer.ID
	works bool
	was   bool
}

// standing is the cached answer about a peer.
type standing struct {
	yes   bool
	until time.Time
}

var _ rpc.Authorizer = (*authorizer)(nil)

// refusals are those of one peer.
type refusals struct {
	n, later int64
	last     time.Time
	request  string
	why      string
}

func newAuthorizer(room *ringServices, router *rpc.Router) *authorizer {
	turned, _ := simplelru.NewLRU[peer.ID, *refusals](maxTurned, nil) // a positive size has no error
	return &authorizer{
		leaf: room.dht.Leaf, router: router, self: room.net.Self(), origin: room.net.Origin, crowds: make(map[string]int), confirming: make(chan struct{}, maxConfirming),
		refusing: rate.NewLimiter(refusalRate, refusalRate), asking: make(map[question]chan struct{}),
		unpacked: semaphore.NewWeighted(strangersMemory), ofWorkers: semaphore.NewWeighted(strangersMemory),
		turned: turned, standings: make(map[question]standing),
	}
}

// neighbor implements rpc.Gate. A peer that has only called is in the leaf set, but not a neighbor
// yet.
func (g *authorizer) neighbor(id peer.ID) bool {
	if is, proven := g.leaf(id); is {
		return proven
	}
	return g.cached(question{id: id, was: true})
}

// left records a peer that left the leaf set, which was a neighbor if proven.
func (g *authorizer) left(id peer.ID, proven bool) {
	if !proven {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remember(question{id: id, was: true}, standing{yes: true, until: time.Now().Add(records.DepartTime)})
}

// revoked forgets what is cached about peers: some may have lost their membership.
func (g *authorizer) revoked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.standings, func(q question, _ standing) bool { return !q.was && !q.works })
}

// Member implements rpc.Gate: a member is the owner of its own position.
func (g *authorizer) Member(ctx context.Context, id peer.ID) bool {
	if g.near(string(id)) {
		return true
	}
	no := strangerFor
	if g.vouchedFor(id) {
		no = workerFor
	}
	return g.confirmed(ctx, question{id: id}, no, func(ctx context.Context) bool { return g.found(ctx, id, ring.PeerKey([]byte(id))) })
}

// Works implements rpc.Gate.
func (g *authorizer) Works(ctx context.Context, id peer.ID, of func() []string) bool {
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

// vouchedFor reports whether an owner of a host has confirmed a worker recently.
func (g *authorizer) vouchedFor(id peer.ID) bool {
	return g.cached(question{id: id, works: true})
}

// confirmed returns the answer of the ring about a peer, cached or new; a negative answer is cached
// for no.
func (g *authorizer) confirmed(ctx context.Context, q question, no time.Duration, ask func(ctx context.Context) bool) bool {
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

// asks returns the cached answer, and if it has expired, a channel that is closed when another
// request has got a new one; nil if this one must ask.
func (g *authorizer) asks(q question) (s standing, asked <-chan struct{}) {
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

// asked wakes the requests that wait for an answer.
func (g *authorizer) asked(q question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.asking[q])
	delete(g.asking, q)
}

// remember caches an answer; negative ones are evicted first, because any peer can cause as many as
// it likes. The lock is held.
func (g *authorizer) remember(q question, s standing) {
	if len(g.standings) >= maxStandings {
		maps.DeleteFunc(g.standings, func(_ question, s standing) bool { return !s.yes || s.until.Before(time.Now()) })
	}
	if len(g.standings) >= maxStandings {
		clear(g.standings) // they are asked again
	}
	g.standings[q] = s
}

// cached reports whether a valid cached answer is yes.
func (g *authorizer) cached(q question) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.standings[q]
	return s.yes && s.until.After(time.Now())
}

// turn waits for permission to look up a caller; done releases it. It returns nil if ctx ends
// before, or if the limit of the caller's network is reached.
func (g *authorizer) turn(ctx context.Context, id peer.ID) (done func()) {
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

// joins counts one more caller of a network; false if the limit is reached.
func (g *authorizer) joins(origin string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if origin != "" && g.crowds[origin] >= maxConfirming/2 {
		return false
	}
	g.crowds[origin]++
	return true
}

// leaves releases the count of joins.
func (g *authorizer) leaves(origin string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crowds[origin]--; g.crowds[origin] <= 0 {
		delete(g.crowds, origin)
	}
}

// found reports whether a lookup returns the peer as owner of a key.
func (g *authorizer) found(ctx context.Context, id peer.ID, key ring.Key) bool {
	l, err := g.router.Ring.Lookup(ctx, key)
	return err == nil && l.Owner.ID == id
}

// Owns implements rpc.Gate. A lookup covers a whole arc: of adjacent keys the first is enough.
func (g *authorizer) Owns(ctx context.Context, id peer.ID, keys []ring.Key) []bool {
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

// near is Neighbour for workers, which may also be known as owners of their position. Attachment
// does not count: any peer gets it on request.
func (g *authorizer) near(worker string) bool {
	id := peer.ID(worker)
	return id == g.self || g.neighbor(id) || g.believed(id, ring.PeerKey([]byte(id)))
}

// believed reports whether a peer owns a key, as cached.
func (g *authorizer) believed(id peer.ID, key ring.Key) bool {
	if is, proven := g.leaf(id); is && !proven {
		return false
	}
	p, ok := g.router.Ring.Guess(key)
	return ok && p.ID == id
}

// unasked counts ignored outcomes.
func (g *authorizer) unasked(id peer.ID, outcomes int) {
	g.count(id, "Session", rpc.Refuse("%d outcomes of hosts without a lease", outcomes))
}

// Unpacks implements rpc.Gate. Untrusted peers share one memory limit; so do workers confirmed by a
// host's owner.
func (g *authorizer) Unpacks(ctx context.Context, id peer.ID, bytes int64) (done func(), err error) {
	bytes = min(bytes, strangersMemory)
	room := g.unpacked
	if g.vouchedFor(id) {
		room = g.ofWorkers
	}
	switch {
	case g.neighbor(id):
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

// Rejected implements rpc.Gate.
func (g *authorizer) Rejected(id peer.ID, request string, why error) {
	g.count(id, request, why)
	if !g.neighbor(id) && !g.refusing.Allow() {
		time.Sleep(refusalPause) // the caller cannot cancel it
	}
}

// count counts a rejected request.
func (g *authorizer) count(id peer.ID, request string, why error) {
	text := fmt.Sprintf("%.200q", why.Error()) // may contain text of the caller
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.turned.Get(id)
	if !ok {
		r = new(refusals)
		g.turned.Add(id, r)
	}
	if r.n++; !rpc.Refused(why) {
		r.later++
	}
	r.last, r.request, r.why = time.Now(), request, text[1:len(text)-1]
}

// refused returns the recent rejections, by peer.
func (g *authorizer) refused() map[peer.ID]control.Refusals {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make(map[peer.ID]control.Refusals, g.turned.Len())
	for _, id := range g.turned.Keys() {
		r, _ := g.turned.Peek(id)
		if ago := time.Since(r.last); ago < turnedFor {
			list[id] = control.Refusals{Requests: r.n, Later: r.later, Request: r.request, Why: r.why, AgoMS: ago.Milliseconds()}
		}
	}
	return list
}
