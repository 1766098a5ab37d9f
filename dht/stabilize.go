package dht

import (
	"bytes"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// rounds runs the periodic tasks of a peer.
type rounds struct {
	*step
	neighborhood *neighborhood
	pace         *pace
	serving      *serving
	exchange     *exchange
	introducer   *introducer
	seeker       *seeker
	routes       *routes
	contacts     *contacts
	dead         tombstones
	attach       *workers.Attach

	turn int // index of the next of the farther leaf peers
}

// round runs one stabilize round: scan the routing table, call neighbors, search for our position
// while joining.
func (o *rounds) round(now time.Time) {
	o.pace.round()
	if o.serving.state == Leaving {
		o.pace.next = now.Add(o.cfg.MaxInterval)
		return
	}
	o.dead.expire(now)
	if _, known := o.book.Charter(); !known {
		for _, p := range o.contacts.list[:min(len(o.contacts.list), nearestAsked)] {
			o.call(p, entryRequest(), inFlight{kind: callEntry})
		}
		o.pace.rest(now)
		return
	}
	if o.serving.state == Worker {
		o.worker(now)
		return
	}
	o.introducer.consider(now, "", o.routes.scan())
	if o.serving.state == Joining {
		o.pace.interval = o.cfg.Interval / 2
		o.introducer.consider(now, "", o.contacts.list)
		if !o.seeker.located {
			o.seeker.start(now)
		}
	}
	o.seeker.heal(now)
	for _, key := range o.partners(now) {
		o.exchange.ask(now, o.neighborhood.peers[key])
	}
	o.pace.rest(now)
}

// partners returns the peers to exchange lists with in this round: both nearest and, in turn, one
// of the others; while joining, all whose announcement is missing or old.
func (o *rounds) partners(now time.Time) []ring.Key {
	members := o.neighborhood.leaves.Members()
	if len(members) <= 2 {
		return members
	}
	if o.serving.state == Joining {
		near := [2]ring.Key{o.neighborhood.leaves.Predecessor(), o.neighborhood.leaves.Successor()}
		return slices.DeleteFunc(members, func(key ring.Key) bool {
			n := o.neighborhood.peers[key]
			return key != near[0] && key != near[1] && n.last != nil && now.Sub(n.asked) < 2*o.cfg.Interval
		})
	}
	o.turn++
	partners := []ring.Key{o.neighborhood.leaves.Successor()}
	for _, key := range []ring.Key{o.neighborhood.leaves.Predecessor(), members[o.turn%len(members)]} {
		if !slices.Contains(partners, key) {
			partners = append(partners, key)
		}
	}
	return partners
}

// worker searches for ring peers around our position, while attachments are missing.
func (o *rounds) worker(now time.Time) {
	o.attach.AddCandidates(o.contacts.list...)
	o.attach.AddCandidates(o.routes.table.Nearest(o.self.Key(), nearestAsked)...)
	if !o.attach.Full() {
		o.seeker.start(now)
	}
	o.pace.rest(now)
}

// pace schedules the stabilize rounds: soon after a change, ever later while nothing changes.
type pace struct {
	*step
	interval time.Duration
	next     time.Time   // of the rounds
	nearest  [2]ring.Key // predecessor and successor
	steady   int         // rounds begun since they changed
}

// begin handles the first input.
func (p *pace) begin(now time.Time) { p.interval, p.next = p.cfg.Interval, now }

// round counts a round.
func (p *pace) round() {
	if p.steady++; p.steady > 1 {
		p.interval = min(2*p.interval, p.cfg.MaxInterval)
	}
}

// rest schedules the next round.
func (p *pace) rest(now time.Time) { p.next = now.Add(p.jitter(p.interval)) }

// hurry shortens the interval of the next rounds.
func (p *pace) hurry() { p.steady, p.interval = 0, p.cfg.Interval }

// restart resets the count; a round is due now.
func (p *pace) restart(now time.Time) { p.steady, p.next = 0, now }

// changed handles a change of the leaf set, with its two nearest peers.
func (p *pace) changed(now time.Time, nearest [2]ring.Key) {
	if p.nearest != nearest {
		p.nearest, p.steady = nearest, 0
	}
	p.interval = p.cfg.Interval
	if soon := now.Add(p.jitter(p.interval)); soon.Before(p.next) {
		p.next = soon
	}
}

// listener processes the announcements of other peers and passes them to the other parts.
type listener struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	exchange     *exchange
	introducer   *introducer
	candidates   *candidates
	suspicion    *suspicion
	dead         tombstones
	resting      resting
	detached     resting // workers refused until they may attach again
	attach       *workers.Attach
	guests       *workers.Guests
}

// stabilized processes the answer to an introduction or a stabilize round.
func (l *listener) stabilized(now time.Time, to Peer, announced *wire.Neighbours, fresh bool, err error) {
	if n := l.neighborhood.peers[to.Key()]; n != nil {
		n.asking = false
	}
	if err != nil || announced == nil || peer.ID(announced.GetSelf().GetId()) != to.ID {
		l.suspicion.failed(now, to)
		return
	}
	l.receive(now, announced, fresh)
	if n := l.neighborhood.peers[to.Key()]; n != nil && !n.proven {
		n.proven = true
		l.emit(LeavesChanged{})
	}
}

// called processes a sender's announcement in a request. A peer that enters the leaf set by it is
// called back. A joining peer ignores senders that have not answered a call of its own, except
// goodbyes: a neighbor can influence whether it may serve.
func (l *listener) called(now time.Time, announced *wire.Neighbours, fresh bool) {
	p, state := member.Of(announced.GetSelf()), announced.GetState()
	goodbye := state == wire.State_STATE_LEAVING || state == wire.State_STATE_WORKER
	n := l.neighborhood.peers[p.Key()]
	switch {
	case l.serving.state != Joining || goodbye || n != nil && n.proven:
		l.receive(now, announced, fresh)
		n = l.neighborhood.peers[p.Key()]
	case n == nil && !l.resting.rests(now, p.ID) && !l.introducer.silent.rests(now, p.ID):
		l.dead.drop(p)
		l.introducer.consider(now, p.ID, []Peer{p})
	}
	if n != nil && !n.proven && now.Sub(n.asked) >= suspectGap {
		l.exchange.ask(now, n)
	}
}

// receive processes the announcement of a live peer, from a request or an answer. If not fresh, it
// may have waited while this peer was suspended: it then proves that the sender lives, but does not
// help a joining peer to start serving.
func (l *listener) receive(now time.Time, announced *wire.Neighbours, fresh bool) {
	p := member.Of(announced.GetSelf())
	if p.ID == l.self.ID {
		return
	}
	l.candidates.drop(p.Key())
	announced, whole := l.neighborhood.completed(p.Key(), announced)
	if l.serving.state == Worker { // the sender takes us for a ring peer
		l.attach.AddCandidates(append(listed(announced), p)...)
		return
	}
	if announced.GetState() == wire.State_STATE_WORKER {
		l.suspicion.left(now, p)
		l.dead.goodbye(now, p, deadFor)
		return
	}
	if l.guests.Drop(p.ID) { // it is a ring peer now
		l.emit(AttachedChanged{})
	}
	if announced.GetState() == wire.State_STATE_LEAVING {
		l.suspicion.left(now, p)
		l.introducer.named(now, p.ID, listed(announced))
		return
	}
	if l.resting.rests(now, p.ID) {
		return // it announces itself again when that expires, if it is back
	}
	if l.serving.firstContact.IsZero() {
		l.serving.firstContact = now
	}
	l.dead.drop(p)
	delete(l.serving.fences, p.ID)
	l.neighborhood.insert(now, p)
	if n := l.neighborhood.peers[p.Key()]; n != nil {
		if n.peer.Incarnation != p.Incarnation || !slices.EqualFunc(n.peer.Addrs, p.Addrs, bytes.Equal) {
			l.neighborhood.encoded = nil
		}
		n.peer, n.lastHeard, n.failures, n.retry, n.thirds = p, now, 0, time.Time{}, nil
		n.holds = announced.GetKnown()
		if !whole {
			return // it lives; it sends its lists when it learns that we lack them
		}
		if fresh || l.serving.state != Joining {
			n.last = wordOf(now, p, announced)
			if n.last.serves {
				l.neighborhood.witness(now, p, n.last.served, l.serving.serves)
			}
		}
		quiet := n.weighed == l.neighborhood.version && sameLists(n.lists, announced)
		n.lists, n.weighed = announced, l.neighborhood.version
		if quiet {
			return // a quiet ring repeats the same announcement
		}
	}
	l.exchange.missing(now, p.Key(), announced)
	l.introducer.named(now, p.ID, listed(announced))
}

func listed(announced *wire.Neighbours) []Peer {
	return member.List(slices.Concat(announced.GetPredecessors(), announced.GetSuccessors()))
}

func sameLists(a, b *wire.Neighbours) bool {
	same := func(p, q *wire.Peer) bool { return bytes.Equal(p.GetId(), q.GetId()) }
	return slices.EqualFunc(a.GetPredecessors(), b.GetPredecessors(), same) && slices.EqualFunc(a.GetSuccessors(), b.GetSuccessors(), same)
}

// attached answers a worker.
func (l *listener) attached(now time.Time, req *wire.AttachRequest) *wire.Message {
	p := member.Of(req.GetSender())
	p.Role = RoleWorker
	accepted, changed := false, false
	switch {
	case req.GetLeave():
		if changed = l.guests.Drop(p.ID); changed {
			l.detached.rest(now, p.ID, l.cfg.Interval)
		}
	case l.serving.state == Serving && !l.detached.rests(now, p.ID):
		if l.neighborhood.peers[p.Key()] != nil { // a ring peer until now; its goodbye was lost
			l.suspicion.left(now, p)
		}
		origin := ""
		if l.cfg.Origin != nil {
			origin = l.cfg.Origin(p.ID)
		}
		accepted, changed = l.guests.Take(now, p, origin)
	}
	if changed {
		l.emit(AttachedChanged{})
	}
	around := l.neighborhood.members()
	return attachResponse(accepted, around[:min(len(around), wire.MaxPeers)], l.book.Admission())
}

// exchange builds this peer's announcements and requests those of its neighbors.
type exchange struct {
	*step
	neighborhood *neighborhood
	serving      *serving
}

// ask exchanges lists with a leaf peer, one call at a time.
func (x *exchange) ask(now time.Time, n *neighbor) {
	if n == nil || n.asking {
		return
	}
	n.asking, n.asked = true, now
	x.call(n.peer, stabilizeRequest(x.neighboursTo(now, n.peer.Key())), inFlight{kind: callStabilize})
}

// neighboursTo returns this peer's announcement to another, without the lists that it already has.
// In a quiet ring they would be nine tenths of all traffic.
func (x *exchange) neighboursTo(now time.Time, to ring.Key) *wire.Neighbours {
	announced := x.neighbours(now)
	if n := x.neighborhood.peers[to]; n != nil {
		announced.Known = n.lists.GetLists()
		if n.holds == announced.Lists {
			announced.Predecessors, announced.Successors = nil, nil
		}
	}
	return announced
}

// neighbours returns this peer's complete announcement.
func (x *exchange) neighbours(now time.Time) *wire.Neighbours {
	lists := x.neighborhood.lists()
	announced := &wire.Neighbours{
		Self: lists.Self, State: x.serving.state.wire(), Predecessors: lists.Predecessors, Successors: lists.Successors, Lists: lists.Lists,
		Cleared: x.serving.state == Joining && x.serving.cleared(now), Admission: x.book.Admission(),
	}
	if x.serving.serves {
		announced.ServedStart = bytes.Clone(x.serving.served.Start[:]) // the message outlives the arc
	}
	if left := x.serving.fence(now).Sub(now); left > 0 {
		announced.FenceMs = uint32(min(left.Milliseconds()+1, wire.MaxFenceMillis))
	}
	return announced
}

// missing probes silent leaf peers that a live neighbor should list and does not: it may have
// detected their death. Such news spreads at the speed of the exchange, not of our own rounds.
func (x *exchange) missing(now time.Time, speaker ring.Key, announced *wire.Neighbours) {
	named := map[ring.Key]bool{speaker: true}
	first, last := speaker, speaker
	for _, p := range announced.GetPredecessors() {
		first = ring.PeerKey(p.GetId())
		named[first] = true
	}
	for _, p := range announced.GetSuccessors() {
		last = ring.PeerKey(p.GetId())
		named[last] = true
	}
	for _, key := range x.neighborhood.leaves.Members() {
		if !named[key] && (ring.Between(first, key, speaker) || ring.Between(speaker, key, last)) {
			if n := x.neighborhood.peers[key]; now.Sub(n.lastHeard) >= 2*x.cfg.Interval && now.Sub(n.asked) >= x.cfg.Interval {
				x.ask(now, n)
			}
		}
	}
}
