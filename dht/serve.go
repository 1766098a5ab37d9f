package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// The known arc, (predecessor, self], and the served arc differ. A nearer predecessor shrinks the
// served arc at once. A predecessor's death grows it after TakeOver, its goodbye at once. A joining
// peer starts to serve only when no other peer serves its arc:
//
//   - its successor acknowledges it as predecessor, and both nearest neighbors were the same for
//     two rounds; unconfirmed candidates have had the time to answer;
//   - it is cleared: no serving peer's arc covers its position. It infers that from the first
//     serving peer after it, or from a cleared joining one, since an arc that reached over both
//     would cover both; peers after a serving peer do not matter;
//   - no fence is active, its own or one that its successor announced;
//   - after a suspension, all this follows from answers to calls made since, as older messages are
//     stale;
//   - it is not held because members of its ring use an incompatible version;
//   - after a restart, its predecessor is the remembered one or nearer, or RejoinGrace has passed.

// serving is the state of the peer and the arc that it serves.
type serving struct {
	*step
	neighborhood *neighborhood
	pace         *pace
	candidates   *candidates

	state        State
	serves       bool
	served       ring.Arc // valid while serves
	fences       map[peer.ID]time.Time
	memory       *Memory
	held         bool      // see Ring.Hold
	founder      bool      // a peer without known peers may serve the whole circle
	firstContact time.Time // zero before any peer answered
	resumed      time.Time // when a suspension was detected that interrupted serving; zero unless one was
	ready        time.Time // since when all conditions except the candidates hold; zero otherwise
}

func newServing(s *step, h *neighborhood, p *pace, c *candidates) *serving {
	v := &serving{
		step: s, neighborhood: h, pace: p, candidates: c, fences: map[peer.ID]time.Time{}, memory: s.cfg.Memory, founder: s.cfg.Found,
	}
	if s.cfg.Role == RoleWorker {
		v.state = Worker
	}
	return v
}

// State returns the state of the peer.
func (v *serving) State() State { return v.state }

// Arc returns the arc served; false if there is none.
func (v *serving) Arc() (ring.Arc, bool) { return v.served, v.serves }

// Serves reports whether this peer serves key now.
func (v *serving) Serves(key ring.Key) bool { return v.serves && v.served.Contains(key) }

// Stable reports whether the nearest neighbors have been the same for two rounds and none is
// suspect or being introduced.
func (v *serving) Stable() bool {
	for _, n := range v.neighborhood.peers {
		if n.failures > 0 {
			return false
		}
	}
	return v.pace.steady >= 2 && len(v.candidates.list) == 0
}

// settle updates state and served arc after an input.
func (v *serving) settle(now time.Time) {
	known := v.neighborhood.leaves.Arc()
	switch {
	case v.state == Joining && v.mayServe(now):
		v.setState(Serving)
		v.serve(true, known)
	case v.state == Serving && v.served != known:
		if v.served.Holds(known) || !now.Before(v.fence(now)) {
			v.serve(true, known)
		}
	}
}

func (v *serving) mayServe(now time.Time) bool {
	if v.held {
		return false
	}
	if v.neighborhood.leaves.Len() == 0 {
		return v.mayServeAlone(now)
	}
	if v.pace.steady < 2 || !v.acknowledged() || now.Before(v.fence(now)) || !v.cleared(now) || !v.returned(now) {
		v.ready = time.Time{}
		return false
	}
	if v.ready.IsZero() {
		v.ready = now
	}
	// Two call timeouts; a peer that keeps naming new candidates cannot block longer.
	return len(v.candidates.list) == 0 || now.Sub(v.ready) >= 2*callTimeout+suspectGap
}

// acknowledged reports whether our successor lists us as its predecessor.
func (v *serving) acknowledged() bool {
	announced := v.neighborhood.peers[v.neighborhood.leaves.Successor()].last
	return announced != nil && announced.pred == v.self.Key()
}

// mayServeAlone: a peer that was alone, or may found a ring, need not wait. One that lost the
// others while it was suspended waits for RejoinGrace; one that was restarted waits until it finds
// them.
func (v *serving) mayServeAlone(now time.Time) bool {
	switch {
	case v.memory != nil && v.memory.Alone:
		return true
	case v.resumed.IsZero():
		return v.founder
	default:
		return now.Sub(v.resumed) >= v.cfg.RejoinGrace
	}
}

// cleared reports whether no serving peer's arc covers our position, by the leaf set.
func (v *serving) cleared(now time.Time) bool {
	if v.neighborhood.leaves.Len() == 0 {
		return false
	}
	anchored, heardAll := false, true
	for _, key := range v.neighborhood.leaves.Successors() {
		switch announced := v.neighborhood.peers[key].last; {
		case announced == nil:
			heardAll = false
		case announced.serves && announced.served.Contains(v.self.Key()):
			return false
		case heardAll && announced.serves:
			return true
		case heardAll && announced.cleared:
			anchored = true
		}
	}
	if anchored {
		return true
	}
	// No known peer serves: the whole ring is starting. A peer that finds its old predecessor may
	// serve its old arc, any other when the grace period is over.
	if !heardAll {
		return false
	}
	waited := !v.firstContact.IsZero() && now.Sub(v.firstContact) >= v.cfg.RejoinGrace
	return waited || v.memory != nil && v.memory.HasPredecessor && v.predecessorBack()
}

// returned reports whether a restarted peer has waited enough for its old predecessor.
func (v *serving) returned(now time.Time) bool {
	if v.memory == nil || !v.memory.HasPredecessor {
		return true
	}
	return v.predecessorBack() || now.Sub(v.firstContact) >= v.cfg.RejoinGrace
}

// predecessorBack reports whether the present predecessor is the remembered one or nearer, so that
// our arc is no wider.
func (v *serving) predecessorBack() bool {
	old, pred := v.memory.Predecessor, v.neighborhood.leaves.Predecessor()
	return old == v.self.Key() || pred != v.self.Key() && (pred == old || ring.Between(old, pred, v.self.Key()))
}

// rejoin makes a peer that was suspended confirm its position, as after a restart with this memory.
func (v *serving) rejoin(now time.Time, memory *Memory) {
	v.memory = memory
	if v.state == Serving {
		v.resumed = now
	}
	v.setState(Joining)
	v.serve(false, ring.Arc{})
	for _, n := range v.neighborhood.peers {
		n.last = nil
	}
	v.firstContact = now
}

// join begins to join the ring for the first time.
func (v *serving) join() {
	v.setState(Joining)
	v.firstContact, v.resumed = time.Time{}, time.Time{}
}

// forget clears the memory of a peer that gave up its position.
func (v *serving) forget() {
	clear(v.fences)
	v.memory, v.founder = nil, false
}

// fence returns when the last fence expires: our own, and while joining those of the peers after
// us, up to the first that serves.
func (v *serving) fence(now time.Time) time.Time {
	var until time.Time
	for id, t := range v.fences {
		if !now.Before(t) {
			delete(v.fences, id)
		} else if t.After(until) {
			until = t
		}
	}
	if v.state != Joining {
		return until
	}
	for _, key := range v.neighborhood.leaves.Successors() {
		announced := v.neighborhood.peers[key].last
		if announced == nil {
			continue
		}
		if announced.fence.After(until) {
			until = announced.fence
		}
		if announced.serves {
			break
		}
	}
	return until
}

func (v *serving) setState(state State) {
	if state != v.state {
		v.emit(StateChanged{Old: v.state, New: state})
		v.state = state
	}
}

func (v *serving) serve(has bool, arc ring.Arc) {
	if has == v.serves && arc == v.served {
		return
	}
	v.emit(ArcChanged{Old: v.served, New: arc, Had: v.serves, Has: has})
	v.serves, v.served = has, arc
}

// placed reports whether the leaf set is reliable: that of a peer that just began to join has gaps.
func (v *serving) placed() bool {
	return v.state == Serving || v.state == Joining && v.neighborhood.leaves.Len() > 0 && v.pace.steady >= 2 && v.acknowledged()
}

// keep writes the arc served last into a memory.
func (v *serving) keep(m *Memory) {
	switch {
	case v.serves:
		m.Alone, m.Predecessor, m.HasPredecessor = v.served.Whole(), v.served.Start, true
	case v.memory != nil:
		m.Alone, m.Predecessor, m.HasPredecessor = v.memory.Alone, v.memory.Predecessor, v.memory.HasPredecessor
	}
}

// A worker is a peer that cannot be dialed (design 3, NAT). It is in no leaf set and owns nothing.
// It searches its position, and asks the ring peers around it to attach it (workers.Attach); those
// offer it hosts over the connections that it opened (workers.Guests). workers.Reach decides on the
// role: a worker joins when it may, a joining peer steps down when it must, a serving one emits
// CutOff and waits until its arc is handed over.

// attacher attaches a worker to ring peers.
type attacher struct {
	*step
	pace     *pace
	serving  *serving
	contacts *contacts
	attach   *workers.Attach
}

// send sends the requests that are due.
func (a *attacher) send(now time.Time) {
	for _, p := range a.attach.Ask(now) {
		a.call(p, attachRequest(a.self, false), inFlight{kind: callAttach})
	}
}

// answered takes the answer of a ring peer to a request.
func (a *attacher) answered(now time.Time, to Peer, answer *wire.AttachResponse, err error) {
	if a.serving.state != Worker {
		return
	}
	changed := false
	if err != nil || answer == nil {
		changed = a.attach.Failed(now, to.ID)
	} else {
		var leave []Peer
		leave, changed = a.attach.Answer(now, to.ID, answer.GetAccepted(), member.List(answer.GetPeers()))
		for _, p := range leave {
			a.farewell(p)
		}
	}
	if changed {
		a.contacts.remember(to)
		a.emit(AttachedChanged{})
		if !a.attach.Full() { // search again soon
			a.pace.hurry()
		}
	}
	a.send(now)
}

// roles changes a peer between ring member and worker.
type roles struct {
	*step
	contacts     *contacts
	candidates   *candidates
	reach        *workers.Reach
	attach       *workers.Attach
	guests       *workers.Guests
	pace         *pace
	neighborhood *neighborhood
	serving      *serving
	exchange     *exchange
	seeker       *seeker

	cutOff  bool // CutOff was emitted
	refused bool // this peer had no certificate
}

// follow applies the decision of reach.
func (o *roles) follow(now time.Time) {
	role := o.reach.Role(now)
	if _, known := o.book.Charter(); known && o.book.Ends(now) { // a worker needs a certificate that does not end at once
		role, o.refused = RoleWorker, true
	} else if o.refused {
		o.refused = false // promoted at once if others can dial it
		role = o.reach.Certified()
	}
	switch {
	case role == RoleMember && o.serving.state == Worker:
		o.promote(now)
	case role == RoleMember:
		o.cutOff = false
	case o.serving.state == Joining:
		for _, call := range o.stepDown(now) {
			o.call(call.To, call.Request, inFlight{kind: callFarewell})
		}
	case o.serving.state == Serving && !o.cutOff:
		o.cutOff = true
		o.emit(CutOff{})
	}
}

// promote lets a worker join the ring.
func (o *roles) promote(now time.Time) {
	attached := o.attach.Clear()
	for _, p := range attached {
		o.farewell(p)
	}
	o.neighborhood.setRole(RoleMember)
	o.contacts.remember(attached...)
	o.emit(AttachedChanged{})
	o.serving.join()
	o.seeker.located, o.seeker.search, o.cutOff = false, nil, false
	o.pace.restart(now)
}

// stepDown turns a ring peer into a worker, and returns the goodbyes to send.
func (o *roles) stepDown(now time.Time) []Call {
	before := o.neighborhood.members()
	o.serving.serve(false, ring.Arc{})
	o.serving.setState(Worker)
	o.neighborhood.setRole(RoleWorker)
	if !o.refused {
		o.reach.StepDown(now)
	}
	calls := o.goodbyes(now)
	o.contacts.remember(before...)
	o.attach.AddCandidates(before...)
	o.candidates.list, o.seeker.search = nil, nil
	o.serving.forget()
	o.neighborhood.clear(now)
	o.pace.next = now
	return calls
}

// leave gives up the arc and returns the goodbyes to send.
func (o *roles) leave(now time.Time) []Call {
	o.serving.setState(Leaving)
	o.serving.serve(false, ring.Arc{})
	return o.goodbyes(now)
}

// goodbyes returns the goodbyes to the leaf set, or to the peers that a worker is attached to.
// Attached workers detect the departure at their next request.
func (o *roles) goodbyes(now time.Time) []Call {
	o.guests.Clear()
	var calls []Call
	for _, p := range o.neighborhood.members() {
		calls = append(calls, Call{To: p, Timeout: callTimeout, Request: stabilizeRequest(o.exchange.neighbours(now))})
	}
	for _, p := range o.attach.Clear() {
		calls = append(calls, Call{To: p, Timeout: callTimeout, Request: attachRequest(o.self, true)})
	}
	return calls
}
