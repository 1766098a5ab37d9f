package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxTombstones is the maximum number of tombstones; the oldest is forgotten first.
const maxTombstones = 1024

// tombstones suppress gossip about dead peers; messages from the peer itself are always accepted.
type tombstones map[peer.ID]tombstone

type tombstone struct {
	until       time.Time
	incarnation uint64
	goodbye     bool // it sent a goodbye
}

// set records that p is dead, for a duration of rest; it replaces the oldest tombstone if the limit
// is reached.
func (t tombstones) set(now time.Time, p Peer, rest time.Duration) {
	if len(t) >= maxTombstones {
		byEnd := slices.SortedFunc(maps.Keys(t), func(a, b peer.ID) int { return t[a].until.Compare(t[b].until) })
		for _, id := range byEnd[:maxTombstones/4] {
			delete(t, id)
		}
	}
	t[p.ID] = tombstone{until: now.Add(rest), incarnation: p.Incarnation}
}

// goodbye records a peer that sent a goodbye.
func (t tombstones) goodbye(now time.Time, p Peer, rest time.Duration) {
	t.set(now, p, rest)
	g := t[p.ID]
	g.goodbye = true
	t[p.ID] = g
}

// has reports whether gossip about p is ignored. expire removes expired tombstones.
func (t tombstones) has(p Peer) bool {
	g, ok := t[p.ID]
	return ok && p.Incarnation <= g.incarnation
}

// drop handles a message of p. If it is the same incarnation that was taken for dead, a link failed
// and no peer died. The others may live too, so their tombstones are removed.
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
