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
	// AttachTo is the number of ring peers that a worker is attached to (design 3): it has work even
	// if two of them fail.
	AttachTo = 3
	// MaxAttached is the maximum number of workers of a ring peer: half of the connection manager's
	// limit, besides two leaf sets.
	MaxAttached = 32
	// AttachedUsed is the number of them that are candidates for one host.
	AttachedUsed = 4

	// attachRenew is the renewal interval, attachFor the lifetime of an attachment: two renewals may
	// be lost.
	attachRenew = 10 * time.Second
	attachFor   = 30 * time.Second
	// attachRest is the initial backoff for a ring peer that refused or did not answer; it doubles up
	// to attachRestMax. The peer may be about to serve, or full for a long time.
	attachRest    = 5 * time.Second
	attachRestMax = 5 * time.Minute
	// attachBetter is the minimum interval between replacements of a ring peer by a nearer one:
	// workers follow a growing ring slowly.
	attachBetter = time.Minute
	// MaxKnown is the maximum number of ring peers that a worker chooses from: the nearest.
	MaxKnown = 64
)

// Attach selects the ring peers that a worker is attached to, as a plain state machine: those
// nearest to its position that accept it. Pass known peers to Hear, call the peers that Ask
// returns, and pass the results to Answer or Failed.
type Attach struct {
	self    ring.Key
	known   []member.Peer // nearest first
	resting map[peer.ID]rest
	held    map[peer.ID]*attachment
	better  time.Time // next attempt to find a nearer one
}

// rest is the backoff of a ring peer.
type rest struct {
	until time.Time
	wait  time.Duration
}

// attachment is a ring peer that was asked to attach this worker.
type attachment struct {
	peer     member.Peer
	accepted bool
	asking   bool
	due      time.Time // of the next request
	failures int       // since its last answer
}

// NewAttach returns the Attach of a worker without known peers.
func NewAttach(self ring.Key) *Attach {
	return &Attach{self: self, resting: map[peer.ID]rest{}, held: map[peer.ID]*attachment{}}
}

// AddCandidates adds ring peers that others named.
func (a *Attach) AddCandidates(peers ...member.Peer) {
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

// Ask returns the ring peers to call now; pass each result to Answer or Failed.
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

// take picks the nearest known peer that is neither held nor in backoff, nearer than beat if that
// is not nil.
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

// farthest returns the accepted attachment with the greatest distance; nil if one is not accepted
// yet, which is change enough.
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

// Answer takes the answer of a ring peer; peers are those around it. It returns the peers to send
// goodbyes to, and whether Peers changed.
func (a *Attach) Answer(now time.Time, from peer.ID, accepted bool, peers []member.Peer) (leave []member.Peer, changed bool) {
	a.AddCandidates(peers...)
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

// Failed takes an unanswered call, which is repeated once at once. It reports whether Peers
// changed.
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

// Renew makes the request to a ring peer due, because its connection dropped.
func (a *Attach) Renew(now time.Time, id peer.ID) {
	if m := a.held[id]; m != nil {
		m.due = now
	}
}

// RenewAll makes all requests due: after a sleep the attachments may have expired.
func (a *Attach) RenewAll(now time.Time) {
	clear(a.resting)
	for _, m := range a.held {
		m.due = now
	}
}

// Next returns when Ask has a peer to call; false if that depends on new peers.
func (a *Attach) Next() (next time.Time, ok bool) {
	for _, m := range a.held {
		if !m.asking && (!ok || m.due.Before(next)) {
			next, ok = m.due, true
		}
	}
	return next, ok
}

// Size returns the number of known ring peers, and of those asked or attached. Both are bounded.
func (a *Attach) Size() (known, held int) { return len(a.known), len(a.held) }

// Full reports whether AttachTo ring peers have accepted.
func (a *Attach) Full() bool { return len(a.Peers()) >= AttachTo }

// Peers returns the ring peers that this worker is attached to, nearest first.
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

// Clear resets the state and returns the peers to send goodbyes to.
func (a *Attach) Clear() []member.Peer {
	leave := a.Peers()
	clear(a.held)
	clear(a.resting)
	a.known = nil
	return leave
}

// Reachability is the observed ability of others to dial this peer.
type Reachability uint8

const (
	// ReachUnknown: no recent attempt. It changes no role.
	ReachUnknown Reachability = iota
	// ReachPublic: others dialed this peer.
	ReachPublic
	// ReachPrivate: others tried, and failed.
	ReachPrivate
)

// String returns the name in lower case.
func (r Reachability) String() string {
	switch r {
	case ReachPublic:
		return "public"
	case ReachPrivate:
		return "private"
	default:
		return "unknown"
	}
}

// Reach turns observations of reachability into a role with hysteresis, as a plain state machine: a
// worker becomes a member after being public for a time without interruption, a member becomes a
// worker after being private for another (design 3: 15 minutes, one minute).
type Reach struct {
	role     member.Role
	up, down time.Duration
	seen     Reachability
	since    time.Time // start of seen
}

// NewReach returns a Reach with a role and no observation: the role stays until the first one.
func NewReach(role member.Role, up, down time.Duration) Reach {
	return Reach{role: role, up: up, down: down}
}

// Observe takes an observation; it holds until the next.
func (r *Reach) Observe(now time.Time, seen Reachability) {
	if seen != r.seen {
		r.seen, r.since = seen, now
	}
}

// Interrupted reports that nothing was observed up to now, because the machine slept: the
// observation counts from here again.
func (r *Reach) Interrupted(now time.Time) { r.since = now }

// StepDown sets the role to worker at once.
func (r *Reach) StepDown(now time.Time) {
	r.role = member.RoleWorker
	if r.seen == ReachPublic {
		r.since = now
	}
}

// Certified makes a worker that others dialed a member at once, and returns the role.
func (r *Reach) Certified() member.Role {
	if r.seen == ReachPublic {
		r.role = member.RoleMember
	}
	return r.role
}

// Last returns the role of the last call of Role or StepDown.
func (r *Reach) Last() member.Role { return r.role }

// Seen returns the last observation.
func (r *Reach) Seen() Reachability { return r.seen }

// Role returns the role that the peer should have now.
func (r *Reach) Role(now time.Time) member.Role {
	if at, ok := r.Next(); ok && !now.Before(at) {
		r.role = member.RoleMember
		if r.seen == ReachPrivate {
			r.role = member.RoleWorker
		}
	}
	return r.role
}

// Next returns when the role changes without other observations; false if it does not.
func (r *Reach) Next() (time.Time, bool) {
	switch {
	case r.role == member.RoleWorker && r.seen == ReachPublic:
		return r.since.Add(r.up), true
	case r.role == member.RoleMember && r.seen == ReachPrivate:
		return r.since.Add(r.down), true
	default:
		return time.Time{}, false
	}
}
