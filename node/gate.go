package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

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
)

// gate is what this peer knows of those who call it, and what it refused them.
type gate struct {
	watch    *records.Watch
	attached func(peer.ID) bool

	mu     sync.Mutex // guards turned
	turned map[peer.ID]*refusals
}

var _ rpc.Gate = (*gate)(nil)

// refusals are those of one peer.
type refusals struct {
	n       int64
	last    time.Time
	request string
	why     string
}

func newGate(watch *records.Watch, attached func(peer.ID) bool) *gate {
	return &gate{watch: watch, attached: attached, turned: make(map[peer.ID]*refusals)}
}

// Neighbour implements rpc.Gate.
func (g *gate) Neighbour(id peer.ID) bool {
	if g.watch.Knows(id) || g.watch.Departs(id) {
		return true
	}
	_, left := g.watch.LeftAgo(id)
	return left
}

// near is Neighbour for workers, which may be attached to this peer.
func (g *gate) near(worker string) bool {
	return g.Neighbour(peer.ID(worker)) || g.attached(peer.ID(worker))
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
