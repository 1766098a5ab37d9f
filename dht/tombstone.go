package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxTombstones bounds what is remembered of the dead; the oldest is forgotten first.
const maxTombstones = 1024

// tombstones keep what others say of a dead peer from being believed; its own word always is.
type tombstones map[peer.ID]tombstone

type tombstone struct {
	until       time.Time
	incarnation uint64
	goodbye     bool // it said so itself
}

// set notes that p is dead, for as long as rest; the oldest tombstones make room.
func (t tombstones) set(now time.Time, p Peer, rest time.Duration) {
	if len(t) >= maxTombstones {
		byEnd := slices.SortedFunc(maps.Keys(t), func(a, b peer.ID) int { return t[a].until.Compare(t[b].until) })
		for _, id := range byEnd[:maxTombstones/4] {
			delete(t, id)
		}
	}
	t[p.ID] = tombstone{until: now.Add(rest), incarnation: p.Incarnation}
}

// goodbye is set for a peer that says itself that it is gone.
func (t tombstones) goodbye(now time.Time, p Peer, rest time.Duration) {
	t.set(now, p, rest)
	g := t[p.ID]
	g.goodbye = true
	t[p.ID] = g
}

// has says whether hearsay of p is not to be believed. Expired tombstones are removed by expire.
func (t tombstones) has(p Peer) bool {
	g, ok := t[p.ID]
	return ok && p.Incarnation <= g.incarnation
}

// drop is for a peer that spoke. When it is the one that was taken for dead and not a later life of
// it, a line was cut and nobody died, so that the others may live too: what is said of them is
// worth a call again.
func (t tombstones) drop(p Peer) {
	g, ok := t[p.ID]
	if ok && !g.goodbye && g.incarnation == p.Incarnation {
		clear(t)
	}
	delete(t, p.ID)
}

func (t tombstones) expire(now time.Time) {
	maps.DeleteFunc(t, func(_ peer.ID, g tombstone) bool { return !now.Before(g.until) })
}
