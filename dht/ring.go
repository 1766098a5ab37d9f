package dht

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// Ring is a peer's place in the ring as a plain state machine. Drive it so:
//
//	r := NewRing(config, self, table)
//	at each moment r.Next(), and at the start:   r.Tick(now)
//	a request comes:                             answer = r.Handle(now, from, request)
//	a connection drops:                          r.Disconnected(now, peer)
//	after each of these:                         r.Ready() says which calls to make and what happened
//	a call has its answer, or failed:            r.Result(now, id, answer, err)
//
// Ring starts no goroutine and reads no clock; its table must answer without the network. It is not
// safe for concurrent use. With the same seed and the same inputs it does the same.
//
// The rules: who is only heard of is introduced by a call of our own before it enters the leaf set,
// so gossip raises no dead. A peer serves only what its predecessor's death, departure or arrival
// has made its own: an arc shrinks at once and grows after TakeOver (serve.go). A peer is given up
// after two failures and the word of a third (suspicion.go).
type Ring struct {
	parts

	wake time.Time // when Tick wants to be called; zero before the first input
}

// NewRing returns the ring as a joining peer knows it: itself. It panics when the config is not
// valid.
func NewRing(config Config, self Peer, table Table) *Ring {
	if err := config.Validate(); err != nil {
		panic("dht: " + err.Error())
	}
	cfg := config.withDefaults()
	self = self.Placed()
	self.Role = cfg.Role
	if self.Incarnation == 0 {
		self.Incarnation = 1
		if cfg.Memory != nil {
			self.Incarnation = cfg.Memory.Incarnation + 1
		}
	}
	r := &Ring{parts: newParts(cfg, self, table)}
	if cfg.Memory != nil {
		r.contacts.remember(cfg.Memory.Peers...)
	}
	return r
}

// Tick tells the time. Call it first of all, and then at every Next.
func (r *Ring) Tick(now time.Time) {
	r.begin(now)
	r.roles.follow(now)
	if !now.Before(r.pace.next) {
		r.rounds.round(now)
	}
	if r.state == Worker {
		r.attacher.send(now)
	}
	if r.guests.Expire(now) {
		r.tell(AttachedChanged{})
	}
	r.suspicion.retry(now)
	r.finish(now)
}

// Next is when Tick wants to be called again.
func (r *Ring) Next() time.Time { return r.wake }

// Join names peers through which the ring can be reached. It may be called at any time, also to
// join another ring to ours.
func (r *Ring) Join(now time.Time, entries ...Peer) {
	r.begin(now)
	r.contacts.remember(entries...)
	if r.state == Joining || r.state == Worker {
		r.pace.next = now
		r.seeker.located = false
	}
	r.seeker.join(now, entries)
	r.finish(now)
}

// Leave gives up the arc and returns the goodbyes to send; what is served is handed over before.
// The peer goes on answering where the keys went.
func (r *Ring) Leave(now time.Time) []Call {
	r.begin(now)
	calls := r.roles.leave(now)
	r.finish(now)
	return calls
}

// Observe takes what is known of whether others can dial this peer.
func (r *Ring) Observe(now time.Time, seen workers.Reachability) {
	r.begin(now)
	r.roles.follow(now)
	r.reach.Observe(now, seen)
	r.finish(now)
}

// Hold keeps a peer that does not serve yet from serving, or ends that.
func (r *Ring) Hold(now time.Time, held bool) {
	r.begin(now)
	r.held = held
	r.finish(now)
}

// StepDown makes a worker of a ring peer, and returns the goodbyes to send; what is served is
// handed over before.
func (r *Ring) StepDown(now time.Time) []Call {
	if r.state == Worker || r.state == Leaving {
		return nil
	}
	r.begin(now)
	calls := r.roles.stepDown(now)
	r.finish(now)
	return calls
}

// Disconnected tells that the connection to a peer dropped. A leaf peer is probed at once.
func (r *Ring) Disconnected(now time.Time, id peer.ID) {
	r.begin(now)
	r.exchange.ask(now, r.byID(id))
	r.attach.Renew(now, id)
	if r.guests.Drop(id) {
		r.tell(AttachedChanged{})
	}
	r.finish(now)
}

// Unreachable tells that a peer did not answer somebody outside of the ring's own calls: it is not
// guessed as an owner for a while, and probed when it is a leaf peer.
func (r *Ring) Unreachable(now time.Time, id peer.ID) {
	r.begin(now)
	r.suspicion.unreachable(now, id)
	r.finish(now)
}

// Handle answers a request of from. A ping with a target is not answered here: ask Relay.
// The answer is never nil.
func (r *Ring) Handle(now time.Time, from peer.ID, req *wire.Message) *wire.Message {
	r.begin(now)
	defer r.finish(now)
	switch body := req.GetBody().(type) {
	case *wire.Message_StabilizeRequest:
		if peer.ID(body.StabilizeRequest.GetSender().GetSelf().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		r.listener.called(now, body.StabilizeRequest.GetSender(), r.doubted == 0)
		return stabilizeResponse(r.exchange.neighboursTo(now, ring.PeerKey([]byte(from))))
	case *wire.Message_LeaveRequest:
		if peer.ID(body.LeaveRequest.GetSender().GetSelf().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		r.listener.called(now, body.LeaveRequest.GetSender(), r.doubted == 0)
		return leaveResponse()
	case *wire.Message_AttachRequest:
		if peer.ID(body.AttachRequest.GetSender().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		return r.listener.attached(now, body.AttachRequest)
	case *wire.Message_NextHopRequest:
		return nextHopResponse(r.NextHop(ring.Key(body.NextHopRequest.GetKey())))
	case *wire.Message_EntryRequest:
		return entryResponse(r.entry(from))
	case *wire.Message_PingRequest:
		return pingResponse(true)
	default:
		return refusal(wire.Reason_REASON_INVALID, "not a request")
	}
}

// Result takes the answer to a call, or why there is none. A refusal counts as an answer of a live
// peer that will not serve us.
func (r *Ring) Result(now time.Time, id uint64, answer *wire.Message, err error) {
	fl, ok := r.answered(id)
	if !ok {
		return
	}
	r.begin(now)
	switch fl.kind {
	case callStabilize:
		r.listener.stabilized(now, fl.to, answer.GetStabilizeResponse().GetSender(), id > r.doubted, err)
	case callVouch:
		r.suspicion.vouched(now, fl, answer, err)
	case callAttach:
		r.attacher.answered(now, fl.to, answer.GetAttachResponse(), err)
	case callSearch:
		r.seeker.answered(now, fl, answer, err)
	}
	r.finish(now)
}

// Attached returns the workers attached to this peer, by position.
func (r *Ring) Attached() []Peer { return r.guests.Peers() }

// Candidates returns up to workers.AttachedUsed of them, chosen by key.
func (r *Ring) Candidates(key ring.Key) []Peer { return r.guests.For(key) }

// Attachments returns the ring peers that this worker is attached to, nearest first.
func (r *Ring) Attachments() []Peer { return r.attach.Peers() }

// Snapshot is what the peer should find again after a restart. Store it whenever LeavesChanged,
// ArcChanged or StateChanged tells of a change, and once before the first Tick, which keeps
// incarnations apart.
func (r *Ring) Snapshot() *Memory {
	m := &Memory{Incarnation: r.self.Incarnation, Role: r.self.Role}
	r.keep(m)
	preds, succs := r.Leaves()
	for i := range max(len(preds), len(succs)) {
		for _, side := range [][]Peer{succs, preds} {
			if i < len(side) {
				m.Peers = appendPeer(m.Peers, side[i], wire.MaxPeers)
			}
		}
	}
	for _, p := range append(r.attach.Peers(), r.contacts.list...) {
		m.Peers = appendPeer(m.Peers, p, wire.MaxPeers)
	}
	return m
}

func appendPeer(list []Peer, p Peer, limit int) []Peer {
	if len(list) >= limit || slices.ContainsFunc(list, func(q Peer) bool { return q.ID == p.ID }) {
		return list
	}
	return append(list, p)
}

// Notice looks at the time only: a peer that was suspended stops serving. Call it before asking
// State, Arc, Serves or Guess when other inputs may be late, and look at Ready afterwards when it
// returns true.
func (r *Ring) Notice(now time.Time) bool {
	if !r.late(now) {
		return false
	}
	r.begin(now)
	r.finish(now)
	return true
}

// late says whether now is so long after the time for which a tick was asked that the peer must
// have been suspended.
func (r *Ring) late(now time.Time) bool {
	return !r.wake.IsZero() && now.Sub(r.wake) > r.cfg.Pause && r.state != Leaving
}

// begin opens every input. A peer that wakes much later than it meant to was suspended: others may
// have taken over its arc, so it stops serving before it says a word. One that was joining has only
// old words to go by, and begins again too.
func (r *Ring) begin(now time.Time) {
	switch {
	case r.wake.IsZero():
		r.pace.begin(now)
		r.seeker.begin(now)
	case !r.late(now):
	case r.state == Worker:
		r.reach.Interrupted(now)
		r.attach.RenewAll(now)
	default:
		r.reach.Interrupted(now)
		r.rejoin(now, r.Snapshot())
		r.doubt()
		r.pace.restart(now)
		r.seeker.located = false
	}
}

// finish closes every input: what it means for the arc served, and when to wake.
func (r *Ring) finish(now time.Time) {
	r.settle(now)
	r.wake = r.pace.next
	for _, n := range r.peers {
		r.wakeAt(n.retry)
	}
	for _, c := range r.candidates.list {
		r.wakeAt(c.retry)
	}
	for _, until := range r.fences {
		if until.After(now) {
			r.wakeAt(until)
		}
	}
	for _, next := range []func() (time.Time, bool){r.suspicion.watch, r.reach.Next, r.guests.Next, r.attach.Next} {
		if at, ok := next(); ok && at.After(now) {
			r.wakeAt(at)
		}
	}
	r.wakeAt(now.Add(r.cfg.Pause / 2)) // so that a suspension shows soon
	if r.wake.Before(now) {
		r.wake = now
	}
}

func (r *Ring) wakeAt(t time.Time) {
	if !t.IsZero() && t.Before(r.wake) {
		r.wake = t
	}
}
