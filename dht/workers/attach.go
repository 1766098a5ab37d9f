package workers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// AttachTo is how many ring peers a worker is attached to (design 3): it has work while two of
	// them fail.
	AttachTo = 3
	// MaxAttached is how many workers a ring peer takes: half of what its connection manager holds,
	// with two leaf sets beside.
	MaxAttached = 32
	// AttachedUsed is how many of them are candidates for one host.
	AttachedUsed = 4

	// attachRenew is the time between two requests to each, attachFor how long one holds: two may
	// be lost.
	attachRenew = 10 * time.Second
	attachFor   = 30 * time.Second
	// attachRest is how long a ring peer that refused or did not answer is not asked again; twice
	// as long each time, up to attachRestMax. It may only be about to serve, or have no place for a
	// long time.
	attachRest    = 5 * time.Second
	attachRestMax = 5 * time.Minute
	// attachBetter is the time between two exchanges of a ring peer for a nearer one: workers
	// follow a ring that grows, without haste.
	attachBetter = time.Minute
	// MaxKnown bounds the ring peers of which a worker chooses: the nearest.
	MaxKnown = 64
)

// Attach is a worker's choice of the ring peers that it is attached to, as a plain state machine:
// those nearest to its own position that take it. Tell it whom you Hear of, ask whom Ask names, and
// give Answer or Failed what came of it.
type Attach struct {
	self    ring.Key
	known   []member.Peer // nearest first
	resting map[peer.ID]rest
	held    map[peer.ID]*attachment
	better  time.Time // when to look for a nearer one again
}

// rest is why a ring peer is not asked.
type rest struct {
	until time.Time
	wait  time.Duration
}

// attachment is a ring peer that was asked to take this worker.
type attachment struct {
	peer     member.Peer
	accepted bool
	asking   bool
	due      time.Time // of the next request
	failures int       // since its last answer
}

// NewAttach returns the choice of a worker that knows nobody.
func NewAttach(self ring.Key) *Attach {
	return &Attach{self: self, resting: map[peer.ID]rest{}, held: map[peer.ID]*attachment{}}
}

// Hear takes ring peers that somebody spoke of.
func (a *Attach) Hear(peers ...member.Peer) {
	for _, p := range peers {
		p = p.Placed()
		if p.ID == "" || p.Key() == a.self || p.Role != member.RoleMember {
			continue
		}
		at, found := slices.BinarySearchFunc(a.known, p, a.nearer)
		switch {
		case found && len(p.Addrs) > 0:
			a.known[at] = p
		case !found && at < MaxKnown:
			a.known = slices.Insert(a.known, at, p)
			a.known = a.known[:min(len(a.known), MaxKnown)]
		}
	}
}

func (a *Attach) nearer(p, q member.Peer) int {
	return cmp.Or(ring.Near(p.Key(), a.self).Compare(ring.Near(q.Key(), a.self)), cmp.Compare(p.ID, q.ID))
}

// Ask names the ring peers to send a request to, now; each is answered by Answer or Failed.
func (a *Attach) Ask(now time.Time) []member.Peer {
	for len(a.held) < AttachTo && a.take(now, nil) {
	}
	if worst := a.farthest(); worst != nil && len(a.held) == AttachTo && !now.Before(a.better) {
		if !a.better.IsZero() {
			a.take(now, worst)
		}
		a.better = now.Add(attachBetter)
	}
	var ask []member.Peer
	for _, m := range a.held {
		if !m.asking && !now.Before(m.due) {
			m.asking = true
			ask = append(ask, m.peer)
		}
	}
	slices.SortFunc(ask, a.nearer)
	return ask
}

// take picks the nearest known peer that is not held nor resting, nearer than another if there is
// one to beat.
func (a *Attach) take(now time.Time, beat *attachment) bool {
	for _, p := range a.known {
		if beat != nil && a.nearer(p, beat.peer) >= 0 {
			return false
		}
		if !now.Before(a.resting[p.ID].until) && a.held[p.ID] == nil {
			a.held[p.ID] = &attachment{peer: p, due: now}
			return true
		}
	}
	return false
}

// farthest is the accepted attachment with the greatest distance; nil when one is not accepted,
// since that is enough of a change.
func (a *Attach) farthest() *attachment {
	var worst *attachment
	for _, m := range a.held {
		if !m.accepted {
			return nil
		}
		if worst == nil || a.nearer(m.peer, worst.peer) > 0 {
			worst = m
		}
	}
	return worst
}

// Answer takes what a ring peer said; peers are those around it. It returns the peers to take leave
// of, and whether Peers changed.
func (a *Attach) Answer(now time.Time, from peer.ID, accepted bool, peers []member.Peer) (leave []member.Peer, changed bool) {
	a.Hear(peers...)
	m := a.held[from]
	if m == nil {
		return nil, false
	}
	m.asking, m.failures = false, 0
	if !accepted {
		return nil, a.drop(now, m)
	}
	changed = !m.accepted
	m.accepted, m.due = true, now.Add(attachRenew)
	delete(a.resting, from)
	for len(a.held) > AttachTo {
		worst := a.farthest()
		if worst == nil {
			break
		}
		delete(a.held, worst.peer.ID)
		leave = append(leave, worst.peer)
	}
	return leave, changed
}

// Failed takes that a ring peer did not answer; it is asked once more at once. It reports whether
// Peers changed.
func (a *Attach) Failed(now time.Time, from peer.ID) (changed bool) {
	m := a.held[from]
	if m == nil {
		return false
	}
	m.asking, m.due = false, now
	if m.failures++; m.failures < 2 {
		return false
	}
	a.known = slices.DeleteFunc(a.known, func(p member.Peer) bool { return p.ID == from })
	return a.drop(now, m)
}

func (a *Attach) drop(now time.Time, m *attachment) bool {
	delete(a.held, m.peer.ID)
	maps.DeleteFunc(a.resting, func(_ peer.ID, r rest) bool { return now.Sub(r.until) > attachRestMax })
	wait := max(attachRest, min(2*a.resting[m.peer.ID].wait, attachRestMax))
	a.resting[m.peer.ID] = rest{until: now.Add(wait), wait: wait}
	return m.accepted
}

// Renew makes a request to a ring peer due, because the connection to it dropped.
func (a *Attach) Renew(now time.Time, id peer.ID) {
	if m := a.held[id]; m != nil {
		m.due = now
	}
}

// RenewAll makes all requests due: after a sleep nobody may hold us any more.
func (a *Attach) RenewAll(now time.Time) {
	clear(a.resting)
	for _, m := range a.held {
		m.due = now
	}
}

// Next is when Ask has somebody to name; false when that depends on what is heard.
func (a *Attach) Next() (next time.Time, ok bool) {
	for _, m := range a.held {
		if !m.asking && (!ok || m.due.Before(next)) {
			next, ok = m.due, true
		}
	}
	return next, ok
}

// Size is how many ring peers it knows, and how many of them were asked or hold this worker. Both
// are bounded.
func (a *Attach) Size() (known, held int) { return len(a.known), len(a.held) }

// Full says whether all places are taken, by ring peers that accepted.
func (a *Attach) Full() bool { return len(a.Peers()) >= AttachTo }

// Peers are the ring peers that hold this worker, nearest first.
func (a *Attach) Peers() []member.Peer {
	var peers []member.Peer
	for _, m := range a.held {
		if m.accepted {
			peers = append(peers, m.peer)
		}
	}
	slices.SortFunc(peers, a.nearer)
	return peers
}

// Clear forgets all of it and returns whom to take leave of.
func (a *Attach) Clear() []member.Peer {
	leave := a.Peers()
	clear(a.held)
	clear(a.resting)
	a.known = nil
	return leave
}
