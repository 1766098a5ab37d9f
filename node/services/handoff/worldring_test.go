package handoff

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// learn brings the picture of one peer up to date, and the arc with it: less is served at once,
// more after a while.
func (p *keep) learn(id peer.ID) {
	if p.view[id] == p.w.truth[id] || id == p.id {
		return
	}
	p.view[id] = p.w.truth[id]
	p.changes++
	if known, ok := p.known(); p.serves && (!ok || p.arc.Holds(known)) {
		p.serves, p.arc = ok, known
	}
}

// suspect takes a living peer for dead.
func (p *keep) suspect(id peer.ID) {
	if p.view[id] == member && id != p.id {
		p.view[id] = absent
		p.changes++
	}
}

// known is the arc that would be this peer's.
func (p *keep) known() (arc ring.Arc, ok bool) {
	if p.view[p.id] != member {
		return arc, false
	}
	arc = ring.Arc{Start: p.key, End: p.key}
	for id, s := range p.view {
		key := ring.PeerKey([]byte(id))
		if s == member && id != p.id && (arc.Start == p.key || ring.Between(arc.Start, key, p.key)) {
			arc.Start = key
		}
	}
	return arc, true
}

// grow begins to serve all of the arc, once the peer that served it before knows.
func (p *keep) grow() {
	known, ok := p.known()
	if !ok || p.serves && p.arc == known {
		return
	}
	for _, other := range p.w.peers {
		if other != p && other.up && other.serves && other.arc.Contains(p.key) {
			return
		}
	}
	p.serves, p.arc = true, known
	p.changes++
}

// Version implements View.
func (p *keep) Version() uint64 { return p.changes }

// Serves implements View.
func (p *keep) Serves(pos ring.Pos) bool { return p.serves && p.arc.Contains(pos.Key()) }

// Owner implements View.
func (p *keep) Owner(pos ring.Pos) (owner peer.ID, ok bool) {
	var best ring.Key
	for id, s := range p.view {
		if s != member {
			continue
		}
		if d := ring.PeerKey([]byte(id)).Sub(pos.Key()); !ok || d.Compare(best) < 0 {
			owner, best, ok = id, d, true
		}
	}
	return owner, ok
}

// Knows implements View.
func (p *keep) Knows(id peer.ID) bool { return p.view[id] == member }

// Departs implements View.
func (p *keep) Departs(id peer.ID) bool { return p.view[id] == leaving }

// Left implements Neighbours.
func (p *keep) Left(peer.ID) (at time.Time, seen bool) { return time.Time{}, false }

// Arc implements Neighbours.
func (p *keep) Arc() (ring.Arc, bool) { return p.arc, p.serves }

// Neighbours implements Neighbours.
func (p *keep) Neighbours() (ids []peer.ID) {
	for id, s := range p.view {
		if id != p.id && s != absent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// followers are the next peers on the ring, as far as this one knows.
func (p *keep) followers() (ids []peer.ID) {
	for id, s := range p.view {
		if s == member && id != p.id {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b peer.ID) int {
		return ring.PeerKey([]byte(a)).Sub(p.key).Compare(ring.PeerKey([]byte(b)).Sub(p.key))
	})
	return ids[:min(len(ids), replicas-1)]
}
