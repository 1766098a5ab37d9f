package dht

import (
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// What a peer is that cannot be dialled (design 3, NAT). It stands in no leaf set and owns nothing. It looks for its position all the same,
// and asks the ring peers around it to attach it (attach.go); those offer it hosts over the connections that it made (guests.go). Whether it
// should be a worker or a ring peer is for reach.go to say: a worker joins as soon as it may, a joining peer steps down as soon as it
// must, a serving one tells CutOff and waits until its arc is handed over.

// Observe takes what is known of whether others can dial this peer.
func (r *Ring) Observe(now time.Time, seen Reachability) {
	r.begin(now)
	r.takeRole(now)
	r.reach.Observe(now, seen)
	r.finish(now)
}

// StepDown makes a worker of a ring peer, and returns the goodbyes to send; what is served is handed over before.
func (r *Ring) StepDown(now time.Time) []Call {
	if r.state == Worker || r.state == Leaving {
		return nil
	}
	r.begin(now)
	calls := r.stepDown(now)
	r.finish(now)
	return calls
}

func (r *Ring) stepDown(now time.Time) []Call {
	before := r.standing(r.leaves.Members())
	r.serve(false, ring.Arc{})
	r.setState(Worker)
	r.self.Role, r.told = RoleWorker, nil
	r.reach.StepDown(now)
	calls := r.goodbyes(now)
	r.remember(before...)
	r.attach.Hear(before...)
	r.leaves = ring.NewLeafSet(r.self.key, r.cfg.R)
	r.candidates, r.search = nil, nil
	clear(r.fences)
	r.changed(now)
	r.memory, r.cfg.Found = nil, false // what it was once is others' now
	r.nextRound = now
	return calls
}

// promote lets a worker join the ring.
func (r *Ring) promote(now time.Time) {
	attached := r.attach.Clear()
	for _, p := range attached {
		r.call(p, attachRequest(r.self, true), inFlight{kind: callFarewell})
	}
	r.self.Role, r.told = RoleMember, nil
	r.remember(attached...)
	r.tell(AttachedChanged{})
	r.setState(Joining)
	r.firstContact, r.resumed = time.Time{}, time.Time{}
	r.steady, r.located, r.search, r.cutOff = 0, false, nil, false
	r.nextRound = now
}

// takeRole follows what reach says.
func (r *Ring) takeRole(now time.Time) {
	role := r.reach.Role(now)
	switch {
	case role == RoleMember && r.state == Worker:
		r.promote(now)
	case role == RoleMember:
		r.cutOff = false
	case r.state == Joining:
		for _, call := range r.stepDown(now) {
			r.call(call.To, call.Request, inFlight{kind: callFarewell})
		}
	case r.state == Serving && !r.cutOff:
		r.cutOff = true
		r.tell(CutOff{})
	}
}

// workerRound looks for ring peers around our position, while there are places to fill.
func (r *Ring) workerRound(now time.Time) {
	r.attach.Hear(r.contacts...)
	r.attach.Hear(r.table.Nearest(r.self.key, nearestAsked)...)
	if !r.attach.Full() && r.search == nil {
		r.startSearch(now, r.contacts)
	}
	r.nextRound = now.Add(r.jitter(r.interval))
}

// sendAttach sends the requests that are due.
func (r *Ring) sendAttach(now time.Time) {
	for _, p := range r.attach.Ask(now) {
		r.call(p, attachRequest(r.self, false), inFlight{kind: callAttach})
	}
}

// attachAnswered takes what a ring peer said to a request.
func (r *Ring) attachAnswered(now time.Time, to Peer, answer *wire.AttachResponse, err error) {
	if r.state != Worker {
		return
	}
	changed := false
	if err != nil || answer == nil {
		changed = r.attach.Failed(now, to.ID)
	} else {
		var leave []Peer
		leave, changed = r.attach.Answer(now, to.ID, answer.GetAccepted(), peersOf(answer.GetPeers()))
		for _, p := range leave {
			r.call(p, attachRequest(r.self, true), inFlight{kind: callFarewell})
		}
	}
	if changed {
		r.remember(to)
		r.tell(AttachedChanged{})
		if !r.attach.Full() { // look again, soon
			r.steady, r.interval = 0, r.cfg.Interval
		}
	}
	r.sendAttach(now)
}

// attached answers a worker.
func (r *Ring) attached(now time.Time, req *wire.AttachRequest) *wire.Message {
	p := peerOf(req.GetSender())
	p.Role = RoleWorker
	accepted, changed := false, false
	switch {
	case req.GetLeave():
		changed = r.guests.Drop(p.ID)
	case r.state == Serving:
		if r.peers[p.key] != nil { // a ring peer until now, whose goodbye did not come through
			r.left(now, p)
		}
		accepted, changed = r.guests.Take(now, p)
	}
	if changed {
		r.tell(AttachedChanged{})
	}
	around := r.standing(r.leaves.Members())
	return attachResponse(accepted, around[:min(len(around), wire.MaxPeers)])
}

// Attached returns the workers attached to this peer, by position.
func (r *Ring) Attached() []Peer { return r.guests.Peers() }

// Candidates returns up to AttachedUsed of them, chosen by key.
func (r *Ring) Candidates(key ring.Key) []Peer { return r.guests.For(key) }

// Attachments returns the ring peers that this worker is attached to, nearest first.
func (r *Ring) Attachments() []Peer { return r.attach.Peers() }
