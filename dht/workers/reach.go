package workers

import (
	"time"

	"github.com/apoidea/apoidea/dht/member"
)

// Reachability is what is known of whether others can dial this peer.
type Reachability uint8

const (
	// ReachUnknown: nobody tried of late. It changes no role.
	ReachUnknown Reachability = iota
	// ReachPublic: others dialled this peer.
	ReachPublic
	// ReachPrivate: others tried, and could not.
	ReachPrivate
)

// String names what is known in lower case.
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

// Reach turns observations of reachability into a role that does not flutter, as a plain state
// machine: a worker becomes a member when it was public for a time without a break, a member
// becomes a worker when it was private for another (design 3: 15 minutes, one minute).
type Reach struct {
	role     member.Role
	up, down time.Duration
	seen     Reachability
	since    time.Time // when seen began
}

// NewReach begins with a role and nothing observed: until the first observation it stays so.
func NewReach(role member.Role, up, down time.Duration) Reach {
	return Reach{role: role, up: up, down: down}
}

// Observe takes what is known now; it holds until the next observation.
func (r *Reach) Observe(now time.Time, seen Reachability) {
	if seen != r.seen {
		r.seen, r.since = seen, now
	}
}

// Interrupted tells that nothing was observed up to now, because the machine slept: what was seen
// counts from here again.
func (r *Reach) Interrupted(now time.Time) { r.since = now }

// StepDown makes it a worker's at once, whatever was seen.
func (r *Reach) StepDown(now time.Time) {
	r.role = member.RoleWorker
	if r.seen == ReachPublic {
		r.since = now
	}
}

// Seen is the last observation.
func (r *Reach) Seen() Reachability { return r.seen }

// Role is what the peer should be now.
func (r *Reach) Role(now time.Time) member.Role {
	if at, ok := r.Next(); ok && !now.Before(at) {
		r.role = member.RoleMember
		if r.seen == ReachPrivate {
			r.role = member.RoleWorker
		}
	}
	return r.role
}

// Next is when the role changes if nothing else is observed; false when it does not.
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
