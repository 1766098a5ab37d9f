package dht

import (
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

// Which keys are served. Two arcs are told apart: the one known, (predecessor, self], and the one served. A nearer predecessor
// shrinks the served arc at once. A predecessor's death grows it after TakeOver, its farewell at once. And a joining peer starts to
// serve only when nobody else does:
//
//   - its successor acknowledges it as predecessor, and both nearest neighbours were the same for two rounds;
//   - it is cleared: no serving peer's arc covers its position. It knows that from the first serving peer behind it, or from a
//     cleared joining one, since an arc that reached over both would cover both;
//   - no fence is up, its own or one that its successor tells of;
//   - it knows all this, after a pause, from answers to questions that it asked since: what was sent to it before waited for it;
//   - after a restart, its predecessor is the remembered one or stands nearer, or RejoinGrace has passed.

// settle brings state and served arc up to date after an input.
func (r *Ring) settle(now time.Time) {
	known := r.leaves.Arc()
	switch {
	case r.state == Joining && r.mayServe(now):
		r.setState(Serving)
		r.serve(true, known)
	case r.state == Serving && r.served != known:
		if r.served.Holds(known) || !now.Before(r.fence(now)) {
			r.serve(true, known)
		}
	}
}

func (r *Ring) mayServe(now time.Time) bool {
	if r.leaves.Len() == 0 {
		return r.mayServeAlone(now)
	}
	return r.steady >= 2 && len(r.candidates) == 0 && r.acknowledged() &&
		!now.Before(r.fence(now)) && r.cleared(now) && r.returned(now)
}

// acknowledged says whether our successor takes us for its predecessor.
func (r *Ring) acknowledged() bool {
	said := r.peers[r.leaves.Successor()].said
	return said != nil && said.pred == r.self.key
}

// mayServeAlone: a peer that was alone, or is told to go on alone, has nobody to wait for. One that lost the others while it was
// suspended waits for RejoinGrace; one that was restarted waits until it finds them.
func (r *Ring) mayServeAlone(now time.Time) bool {
	switch {
	case r.memory != nil && r.memory.Alone:
		return true
	case r.resumed.IsZero():
		return r.cfg.Found
	default:
		return now.Sub(r.resumed) >= r.cfg.RejoinGrace
	}
}

// cleared says whether no serving peer's arc covers our position, as far as the leaf set tells.
func (r *Ring) cleared(now time.Time) bool {
	if r.leaves.Len() == 0 {
		return false
	}
	anchored, heardAll := false, true
	for _, key := range r.leaves.Successors() {
		switch said := r.peers[key].said; {
		case said == nil:
			heardAll = false
		case said.serves && said.served.Contains(r.self.key):
			return false
		case !anchored && heardAll && (said.serves || said.cleared):
			anchored = true
		}
	}
	if anchored {
		return true
	}
	// Nobody in sight serves: the whole ring is starting. A peer that finds its old predecessor may begin with what was its own, any
	// other when the grace is over.
	if !heardAll {
		return false
	}
	waited := !r.firstContact.IsZero() && now.Sub(r.firstContact) >= r.cfg.RejoinGrace
	return waited || r.memory != nil && r.memory.HasPredecessor && r.predecessorBack()
}

// returned says whether a restarted peer has waited enough for its old predecessor.
func (r *Ring) returned(now time.Time) bool {
	if r.memory == nil || !r.memory.HasPredecessor {
		return true
	}
	return r.predecessorBack() || now.Sub(r.firstContact) >= r.cfg.RejoinGrace
}

// predecessorBack says whether the present predecessor is the remembered one, or stands nearer, so that our arc is no wider.
func (r *Ring) predecessorBack() bool {
	old, pred := r.memory.Predecessor, r.leaves.Predecessor()
	return old == r.self.key || pred != r.self.key && (pred == old || ring.Between(old, pred, r.self.key))
}

// rejoin makes a peer that was suspended confirm its place, as after a restart.
func (r *Ring) rejoin(now time.Time) {
	r.memory = r.Snapshot()
	if r.state == Serving {
		r.resumed = now
	}
	r.setState(Joining)
	r.serve(false, ring.Arc{})
	for _, n := range r.peers {
		n.said = nil
	}
	r.firstContact = now
	r.lastCall++ // no call has this number: also what is said before the first call is doubted
	r.doubted = r.lastCall
	r.steady, r.located = 0, false
	r.nextRound = now
}

// fence is when the last of the fences falls: our own, and while joining those of the peers behind us, up to the first that serves.
func (r *Ring) fence(now time.Time) time.Time {
	var until time.Time
	for id, t := range r.fences {
		if !now.Before(t) {
			delete(r.fences, id)
		} else if t.After(until) {
			until = t
		}
	}
	if r.state != Joining {
		return until
	}
	for _, key := range r.leaves.Successors() {
		said := r.peers[key].said
		if said == nil {
			continue
		}
		if said.fence.After(until) {
			until = said.fence
		}
		if said.serves {
			break
		}
	}
	return until
}

func (r *Ring) setState(state State) {
	if state != r.state {
		r.tell(StateChanged{Old: r.state, New: state})
		r.state = state
	}
}

func (r *Ring) serve(has bool, arc ring.Arc) {
	if has == r.serves && arc == r.served {
		return
	}
	r.tell(ArcChanged{Old: r.served, New: arc, Had: r.serves, Has: has})
	r.serves, r.served = has, arc
}
