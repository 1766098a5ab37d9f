package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
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
	// does not; maxStandings bounds of how many peers.
	memberFor, strangerFor = 10 * time.Minute, 2 * time.Second
	maxStandings           = 1024
	// maxConfirming bounds the lookups that confirm callers at once, confirmTime each of them.
	maxConfirming = 8
	confirmTime   = 2 * time.Second
)

// gate is what this peer knows of those who call it, and what it refused them.
type gate struct {
	watch      *records.Watch
	attached   func(peer.ID) bool
	ring       rpc.Ring
	self       peer.ID
	confirming chan struct{}

	mu        sync.Mutex // guards the rest
	turned    map[peer.ID]*refusals
	standings map[peer.ID]standing
}

// standing is what a lookup said of a peer.
type standing struct {
	member bool
	until  time.Time
}

var _ rpc.Gate = (*gate)(nil)

// refusals are those of one peer.
type refusals struct {
	n       int64
	last    time.Time
	request string
	why     string
}

func newGate(room *ringRoom, ring rpc.Ring) *gate {
	return &gate{
		watch: room.watch, attached: room.attached, ring: ring, self: room.net.Self(), confirming: make(chan struct{}, maxConfirming),
		turned: make(map[peer.ID]*refusals), standings: make(map[peer.ID]standing),
	}
}

// Neighbour implements rpc.Gate.
func (g *gate) Neighbour(id peer.ID) bool {
	if g.watch.Knows(id) || g.watch.Departs(id) {
		return true
	}
	_, left := g.watch.LeftAgo(id)
	return left
}

// Member implements rpc.Gate: a member is the owner of its own place.
func (g *gate) Member(ctx context.Context, id peer.ID) bool {
	if id == g.self || g.Neighbour(id) {
		return true
	}
	if g.atItsPlace(id) {
		return true
	}
	if s := g.standing(id); s.until.After(time.Now()) {
		return s.member
	}
	select {
	case g.confirming <- struct{}{}:
		defer func() { <-g.confirming }()
	case <-ctx.Done():
		return false
	}
	if s := g.standing(id); s.until.After(time.Now()) { // another request of it has asked meanwhile
		return s.member
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	l, err := g.ring.Lookup(ctx, ring.PeerKey([]byte(id)))
	s := standing{member: err == nil && l.Owner.ID == id, until: time.Now().Add(strangerFor)}
	if s.member {
		s.until = time.Now().Add(memberFor)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.standings) >= maxStandings {
		clear(g.standings) // they are asked again
	}
	g.standings[id] = s
	return s.member
}

// standing is what a lookup said of a peer last.
func (g *gate) standing(id peer.ID) standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.standings[id]
}

// near is Neighbour for workers, which may be attached to this peer, or be known at their place
// further away.
func (g *gate) near(worker string) bool {
	id := peer.ID(worker)
	return g.Neighbour(id) || g.attached(id) || g.atItsPlace(id)
}

// atItsPlace says whether a peer is believed to own its own place, without asking anybody.
func (g *gate) atItsPlace(id peer.ID) bool {
	p, ok := g.ring.Guess(ring.PeerKey([]byte(id)))
	return ok && p.ID == id
}

// unasked notes outcomes that were left aside.
func (g *gate) unasked(id peer.ID, outcomes int) {
	g.Turned(id, "Session", fmt.Errorf("%d outcomes of hosts that it never had", outcomes))
}

// Turned implements rpc.Gate.
func (g *gate) Turned(id peer.ID, request string, why error) {
	text := fmt.Sprintf("%.200q", why.Error()) // it may have words of the caller in it
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.turned[id]
	if r == nil {
		g.forget()
		r = new(refusals)
		g.turned[id] = r
	}
	r.n++
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
			list[id] = control.Refusals{Requests: r.n, Request: r.request, Why: r.why, AgoMS: ago.Milliseconds()}
		}
	}
	return list
}
