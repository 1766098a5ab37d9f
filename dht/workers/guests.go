package workers

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

// Guests are the workers attached to a ring peer, as a plain state machine: at most MaxAttached,
// each for attachFor after its last request. One origin gets no more places than are left for
// others.
type Guests struct {
	workers map[peer.ID]*guest
}

type guest struct {
	peer   member.Peer
	origin string
	until  time.Time
}

// NewGuests returns an empty list.
func NewGuests() *Guests { return &Guests{workers: map[peer.ID]*guest{}} }

// Take attaches or renews a worker; accepted is false if the limit is reached. origin is the
// network that it is connected from, empty if unknown.
func (g *Guests) Take(now time.Time, p member.Peer, origin string) (accepted, changed bool) {
	g.Expire(now)
	if w := g.workers[p.ID]; w != nil {
		w.peer, w.origin, w.until = p, origin, now.Add(attachFor)
		return true, false
	}
	left := MaxAttached - len(g.workers)
	if left <= 0 || origin != "" && g.from(origin) >= left {
		return false, false
	}
	g.workers[p.ID] = &guest{peer: p, origin: origin, until: now.Add(attachFor)}
	return true, true
}

// from counts the workers of an origin.
func (g *Guests) from(origin string) (n int) {
	for _, w := range g.workers {
		if w.origin == origin {
			n++
		}
	}
	return n
}

// Drop removes a worker and reports whether it was attached: it left, or lost the connection
// without which it cannot be reached.
func (g *Guests) Drop(id peer.ID) bool {
	_, attached := g.workers[id]
	delete(g.workers, id)
	return attached
}

// Expire removes workers that were silent for too long, and reports whether there were any.
func (g *Guests) Expire(now time.Time) (changed bool) {
	for id, w := range g.workers {
		if !now.Before(w.until) {
			delete(g.workers, id)
			changed = true
		}
	}
	return changed
}

// Next returns the next expiry; false if no worker is attached.
func (g *Guests) Next() (next time.Time, ok bool) {
	for _, w := range g.workers {
		if !ok || w.until.Before(next) {
			next, ok = w.until, true
		}
	}
	return next, ok
}

// Peers returns the attached workers by position.
func (g *Guests) Peers() []member.Peer {
	return g.sorted(func(p, q member.Peer) int { return p.Key().Compare(q.Key()) })
}

// For returns up to AttachedUsed workers for a key: the same for one key while the set does not
// change. It hashes by the last bytes, as the first bytes of keys and workers of one neighborhood
// are alike.
func (g *Guests) For(key ring.Key) []member.Peer {
	last := func(k ring.Key) uint64 { return binary.BigEndian.Uint64(k[ring.KeySize-8:]) }
	target := last(key)
	peers := g.sorted(func(p, q member.Peer) int { return cmp.Compare(last(p.Key())^target, last(q.Key())^target) })
	return peers[:min(len(peers), AttachedUsed)]
}

func (g *Guests) sorted(order func(p, q member.Peer) int) []member.Peer {
	peers := make([]member.Peer, 0, len(g.workers))
	for _, w := range g.workers {
		peers = append(peers, w.peer)
	}
	slices.SortFunc(peers, func(p, q member.Peer) int { return cmp.Or(order(p, q), cmp.Compare(p.ID, q.ID)) })
	return peers
}

// Len returns the number of attached workers.
func (g *Guests) Len() int { return len(g.workers) }

// Clear removes all workers.
func (g *Guests) Clear() { clear(g.workers) }
