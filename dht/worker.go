package dht

import (
	"time"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

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

	cutOff bool // CutOff was emitted
}

// follow applies the decision of reach.
func (o *roles) follow(now time.Time) {
	role := o.reach.Role(now)
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
	o.reach.StepDown(now)
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
		calls = append(calls, Call{To: p, Timeout: o.cfg.CallTimeout, Request: leaveRequest(o.exchange.neighbours(now))})
	}
	for _, p := range o.attach.Clear() {
		calls = append(calls, Call{To: p, Timeout: o.cfg.CallTimeout, Request: attachRequest(o.self, true)})
	}
	return calls
}
