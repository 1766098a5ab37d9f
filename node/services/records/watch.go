package records

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

// DepartTime is how long a leaving peer is given to hand over its records itself.
const DepartTime = time.Minute

// Place is the view of this peer's place in the ring: dht.DHT.
type Place interface {
	State() dht.State
	Arc() (ring.Arc, bool)
	Serves(key ring.Key) bool
	Guess(key ring.Key) (dht.Peer, bool)
	Leaves() (preds, succs []dht.Peer)
	Attachments() []dht.Peer
}

// Watch is the current view of the ring for package handoff, independent of ring events. Safe for
// concurrent use.
type Watch struct {
	dht  Place
	self peer.ID

	mu        sync.Mutex // guards what follows
	version   uint64
	last      ringMoment
	departing map[peer.ID]time.Time // peers that left and are handing over their records, since when
	goodbyes  map[peer.ID]time.Time // peers that left, or were declared dead, when
	expelled  map[peer.ID]time.Time // of them, those whose certificates have ended
}

// ringMoment is the input of handoff's decisions.
type ringMoment struct {
	state    dht.State
	arc      ring.Arc
	serves   bool
	leaves   []peer.ID
	attached []peer.ID // peers that a worker is attached to
}

// NewWatch returns the Watch of peer self.
func NewWatch(d Place, self peer.ID) *Watch {
	return &Watch{dht: d, self: self, departing: make(map[peer.ID]time.Time), goodbyes: make(map[peer.ID]time.Time), expelled: make(map[peer.ID]time.Time)}
}

func (w *Watch) now() ringMoment {
	s := ringMoment{state: w.dht.State(), leaves: w.leaves(), attached: member.IDs(w.dht.Attachments())}
	s.arc, s.serves = w.dht.Arc()
	return s
}

func (m *ringMoment) equal(other *ringMoment) bool {
	return m.state == other.state && m.arc == other.arc && m.serves == other.serves && slices.Equal(m.leaves, other.leaves) && slices.Equal(m.attached, other.attached)
}

func (w *Watch) leaves() []peer.ID { return member.IDs(w.dht.Leaves()) }

// isOver reports whether a departure is older than DepartTime.
func isOver(_ peer.ID, since time.Time) bool { return time.Since(since) >= DepartTime }

// Version implements handoff.View.
func (w *Watch) Version() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now() // under the lock, to keep the order of views
	before := len(w.departing)
	maps.DeleteFunc(w.departing, isOver)
	if len(w.departing) < before {
		w.version++
	}
	if !now.equal(&w.last) {
		w.last = now
		w.version++
	}
	return w.version
}

// Serves implements handoff.View.
func (w *Watch) Serves(pos ring.Pos) bool { return w.dht.Serves(pos.Key()) }

// Owner implements handoff.View. A worker, which is in no leaf set, returns the nearest ring peer
// after the position to which it is attached; that one redirects it if necessary.
func (w *Watch) Owner(pos ring.Pos) (peer.ID, bool) {
	if p, ok := w.dht.Guess(pos.Key()); ok {
		return p.ID, true
	}
	var best dht.Peer
	for i, p := range w.dht.Attachments() {
		if i == 0 || p.Key().Sub(pos.Key()).Compare(best.Key().Sub(pos.Key())) < 0 {
			best = p
		}
	}
	return best.ID, best.ID != ""
}

// Arc implements handoff.Neighbours.
func (w *Watch) Arc() (ring.Arc, bool) { return w.dht.Arc() }

// Neighbours implements handoff.Neighbours.
func (w *Watch) Neighbours() []peer.ID {
	ids := w.leaves()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, since := range w.departing {
		if !isOver(id, since) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Departs implements handoff.View.
func (w *Watch) Departs(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, ok := w.departing[id]
	return ok && !isOver(id, since)
}

// Goodbye records the departure of a peer.
func (w *Watch) Goodbye(id peer.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	for _, list := range []map[peer.ID]time.Time{w.departing, w.goodbyes} {
		maps.DeleteFunc(list, isOver)
		list[id] = time.Now()
	}
}

// Died records a peer that the ring has declared dead, or expelled: it grants and renews no lease
// from now on.
func (w *Watch) Died(id peer.ID, expelled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.goodbyes, isOver)
	maps.DeleteFunc(w.expelled, isOver)
	if w.goodbyes[id] = time.Now(); expelled {
		w.expelled[id] = time.Now()
	}
}

// Expelled reports whether a peer was a member until it was expelled, within DepartTime: it hands
// over its records, as all copies may be at peers that were expelled with it.
func (w *Watch) Expelled(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, ok := w.expelled[id]
	return ok && !isOver(id, since)
}

// Left implements handoff.Neighbours.
func (w *Watch) Left(id peer.ID) (at time.Time, seen bool) {
	ago, seen := w.LeftAgo(id)
	return time.Now().Add(-ago), seen
}

// LeftAgo returns how long ago a peer left or died, if it did so within DepartTime.
func (w *Watch) LeftAgo(id peer.ID) (ago time.Duration, left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, left := w.goodbyes[id]
	return time.Since(at), left && !isOver(id, at)
}

// gone records that a peer is unreachable: it hands nothing over any more. Departed reports whether
// this is new.
func (w *Watch) gone(id peer.ID) (departed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, departed = w.departing[id]; departed {
		delete(w.departing, id)
		w.version++
	}
	return departed
}

// Knows reports whether a peer is a neighbor on the ring.
func (w *Watch) Knows(id peer.ID) bool { return slices.Contains(w.leaves(), id) }

// successors returns the next n peers on the ring, or fewer.
func (w *Watch) successors(n int) []peer.ID {
	_, succs := w.dht.Leaves()
	var ids []peer.ID
	for _, p := range succs[:min(max(n, 0), len(succs))] {
		if p.ID != w.self {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
