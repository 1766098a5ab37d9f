package workers

import (
	"time"

	"github.com/apoidea/apoidea/dht/member"
)

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
