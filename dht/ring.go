package dht

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/member"
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
//	after each of these:                         r.Ready() returns calls to make and events
//	a call has its answer, or failed:            r.Result(now, id, answer, err)
//
// Ring starts no goroutine and reads no clock; its table must not use the network. It is not safe
// for concurrent use. It is deterministic in its seed and inputs.
//
// Rules: a reported peer enters the leaf set only after it has answered a call of ours, so gossip
// cannot revive dead peers. A served arc shrinks at once and grows TakeOver after the predecessor's
// death (serve.go). A peer is dead after two failures unless a third reaches it (suspicion.go).
type Ring struct {
	parts

	wake time.Time // time of the next Tick; zero before the first input
}

// NewRing returns the ring of a joining peer that knows only itself. It panics if the config is
// invalid.
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

// Tick advances the time. It must be the first input, and is then due at every Next.
func (r *Ring) Tick(now time.Time) {
	r.begin(now)
	r.suspicion.expel(now)
	r.roles.follow(now)
	if !now.Before(r.pace.next) {
		r.rounds.round(now)
	}
	if r.state == Worker {
		r.attacher.send(now)
	}
	if r.guests.Expire(now) {
		r.emit(AttachedChanged{})
	}
	r.suspicion.retry(now)
	r.finish(now)
}

// Next returns the time of the next Tick.
func (r *Ring) Next() time.Time { return r.wake }

// Join adds peers through which the ring can be reached. It may be called at any time, also to
// merge another ring with ours.
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

// Leave gives up the arc and returns the goodbyes to send; hand over its data first. The peer
// continues to answer with hints for its old keys.
func (r *Ring) Leave(now time.Time) []Call {
	r.begin(now)
	calls := r.roles.leave(now)
	r.finish(now)
	return calls
}

// Observe takes an observation of whether others can dial this peer.
func (r *Ring) Observe(now time.Time, seen workers.Reachability) {
	r.begin(now)
	r.roles.follow(now)
	r.reach.Observe(now, seen)
	r.finish(now)
}

// Hold keeps a peer that does not serve yet from serving, or releases it.
func (r *Ring) Hold(now time.Time, held bool) {
	r.begin(now)
	r.held = held
	r.finish(now)
}

// StepDown turns a ring peer into a worker, and returns the goodbyes to send; hand over the arc's
// data first.
func (r *Ring) StepDown(now time.Time) []Call {
	if r.state == Worker || r.state == Leaving {
		return nil
	}
	r.begin(now)
	calls := r.roles.stepDown(now)
	r.finish(now)
	return calls
}

// Disconnected reports that the connection to a peer dropped. A leaf peer is probed at once.
func (r *Ring) Disconnected(now time.Time, id peer.ID) {
	r.begin(now)
	r.exchange.ask(now, r.byID(id))
	r.attach.Renew(now, id)
	if r.guests.Drop(id) {
		r.emit(AttachedChanged{})
	}
	r.finish(now)
}

// Unreachable reports that a peer did not answer another protocol: it is not guessed as an owner
// for a while, and probed if it is a leaf peer.
func (r *Ring) Unreachable(now time.Time, id peer.ID) {
	r.begin(now)
	r.suspicion.unreachable(now, id)
	r.finish(now)
}

// Admission passes the charter and certificates to an input that may change them. It then ends the
// membership of peers that lost their certificate, also of this one.
func (r *Ring) Admission(now time.Time, input func(b *admission.Book)) {
	r.begin(now)
	input(r.book)
	r.suspicion.expel(now)
	r.roles.follow(now)
	r.finish(now)
}

// admit checks the charter and certificates of the sender of a stabilize message; a leaf peer
// without valid ones is removed, and may still send a goodbye.
func (r *Ring) admit(now time.Time, from Peer, announced *wire.Neighbours) error {
	if _, known := r.book.Charter(); !known {
		return errors.New("this peer has no charter yet")
	}
	leaf := r.byID(from.ID) != nil
	err := r.book.Admit(now, from.ID, announced.GetAdmission())
	if state := announced.GetState(); err == nil || leaf && (state == wire.State_STATE_LEAVING || state == wire.State_STATE_WORKER) {
		return nil
	}
	r.candidates.drop(from.Key())
	if r.suspicion.expel(now); !leaf {
		r.dead.set(now, from, deadFor)
	}
	return err
}

// Handle answers a request of from. Pings with a target are handled by Relay. The answer is never
// nil.
func (r *Ring) Handle(now time.Time, from peer.ID, req *wire.Message) *wire.Message {
	r.begin(now)
	defer r.finish(now)
	switch body := req.GetBody().(type) {
	case *wire.Message_StabilizeRequest:
		if peer.ID(body.StabilizeRequest.GetSender().GetSelf().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "sender does not match the connection")
		}
		if err := r.admit(now, member.Of(body.StabilizeRequest.GetSender().GetSelf()), body.StabilizeRequest.GetSender()); err != nil {
			return refusal(wire.Reason_REASON_INVALID, err.Error())
		}
		r.listener.called(now, body.StabilizeRequest.GetSender(), r.doubted == 0)
		return stabilizeResponse(r.exchange.neighboursTo(now, ring.PeerKey([]byte(from))))
	case *wire.Message_AttachRequest:
		if peer.ID(body.AttachRequest.GetSender().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "sender does not match the connection")
		}
		return r.listener.attached(now, body.AttachRequest)
	case *wire.Message_NextHopRequest:
		return nextHopResponse(r.NextHop(ring.Key(body.NextHopRequest.GetKey())))
	case *wire.Message_EntryRequest:
		return wire.New(&wire.Message_EntryResponse{EntryResponse: r.entry(from)})
	case *wire.Message_PingRequest:
		return pingResponse(true)
	default:
		return refusal(wire.Reason_REASON_INVALID, "not a request")
	}
}

// Result takes the answer to a call, or its error. A refusal counts as an answer of a live peer
// that does not serve us.
func (r *Ring) Result(now time.Time, id uint64, answer *wire.Message, err error) {
	fl, ok := r.answered(id)
	if !ok {
		return
	}
	r.begin(now)
	switch fl.kind {
	case callStabilize:
		announced := answer.GetStabilizeResponse().GetSender()
		if announced != nil && r.admit(now, fl.to, announced) != nil {
			announced = nil
		}
		r.listener.stabilized(now, fl.to, announced, id > r.doubted, err)
	case callVouch:
		r.suspicion.vouched(now, fl, answer, err)
	case callEntry:
		if m := answer.GetEntryResponse().GetAdmission(); m != nil {
			_ = r.book.Adopt(admission.Of(m))
		}
	case callAttach:
		if m := answer.GetAttachResponse(); m != nil && err == nil {
			err = r.book.Admit(now, fl.to.ID, m.GetAdmission())
		}
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

// Snapshot returns the state to restore after a restart. Store it after each LeavesChanged,
// ArcChanged and StateChanged, and once before the first Tick, to keep incarnations unique.
func (r *Ring) Snapshot() *Memory {
	m := &Memory{Incarnation: r.self.Incarnation, Role: r.reach.Last()}
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

// Notice advances only the time: a peer that was suspended stops serving. Call it before State,
// Arc, Serves or Guess if other inputs may be late, and process Ready if it returns true.
func (r *Ring) Notice(now time.Time) bool {
	if !r.late(now) {
		return false
	}
	r.begin(now)
	r.finish(now)
	return true
}

// late reports whether now is so long after the requested tick that the peer must have been
// suspended.
func (r *Ring) late(now time.Time) bool {
	return !r.wake.IsZero() && now.Sub(r.wake) > r.cfg.pause() && r.state != Leaving
}

// begin opens every input. A peer that wakes much too late was suspended: others may have taken
// over its arc, so it stops serving before it answers. A joining peer has only stale announcements
// and starts again.
func (r *Ring) begin(now time.Time) {
	r.now = now
	switch {
	case r.wake.IsZero():
		r.pace.begin(now)
		r.seeker.nextHeal = now.Add(r.jitter(healEvery))
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

// finish closes every input: it updates the served arc and the next wake time.
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
	r.wakeAt(now.Add(r.cfg.pause() / 2)) // so that a suspension is detected soon
	if r.wake.Before(now) {
		r.wake = now
	}
}

func (r *Ring) wakeAt(t time.Time) {
	if !t.IsZero() && t.Before(r.wake) {
		r.wake = t
	}
}

// parts are the components of a Ring. Each refers only to those above it. The Ring exports the
// methods of the embedded ones.
type parts struct {
	*step
	contacts   *contacts
	dead       tombstones
	resting    resting
	candidates *candidates
	reach      *workers.Reach
	attach     *workers.Attach
	guests     *workers.Guests
	pace       *pace
	*neighborhood
	*serving
	exchange   *exchange
	introducer *introducer
	*routes
	attacher  *attacher
	seeker    *seeker
	suspicion *suspicion
	listener  *listener
	roles     *roles
	rounds    *rounds
}

// newParts returns the parts of a joining peer's ring. cfg has its defaults, self its position and
// role.
func newParts(cfg Config, self Peer, table Table) parts {
	s := &step{cfg: cfg, self: self, rnd: rand.New(rand.NewPCG(cfg.Seed, be64(self.Key()))), book: cfg.Admission, calls: map[uint64]inFlight{}}
	reach := workers.NewReach(cfg.Role, cfg.Promote, cfg.Demote)
	p := parts{
		step: s, contacts: &contacts{self: self.ID}, dead: tombstones{}, resting: resting{}, candidates: &candidates{},
		reach: &reach, attach: workers.NewAttach(self.Key()), guests: workers.NewGuests(),
	}
	p.pace = &pace{step: s, nearest: [2]ring.Key{self.Key(), self.Key()}}
	p.neighborhood = &neighborhood{step: s, pace: p.pace, leaves: ring.NewLeafSet(s.self.Key(), s.cfg.R), peers: map[ring.Key]*neighbor{}}
	p.serving = newServing(s, p.neighborhood, p.pace, p.candidates)
	p.exchange = &exchange{step: s, neighborhood: p.neighborhood, serving: p.serving}
	p.introducer = &introducer{
		step: s, candidates: p.candidates, dead: p.dead, attach: p.attach, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange,
		blamed: make(map[peer.ID]blame), silent: resting{},
	}
	p.routes = &routes{
		step: s, dead: p.dead, attach: p.attach, neighborhood: p.neighborhood, serving: p.serving, table: table,
		inTable: map[ring.Key]struct{}{}, learnt: ring.NewArcCache[Peer](maxArcs),
	}
	p.attacher = &attacher{step: s, contacts: p.contacts, attach: p.attach, pace: p.pace, serving: p.serving}
	p.seeker = &seeker{
		step: s, contacts: p.contacts, neighborhood: p.neighborhood, serving: p.serving, introducer: p.introducer, attacher: p.attacher, table: table, routes: p.routes,
	}
	p.suspicion = &suspicion{
		step: s, contacts: p.contacts, dead: p.dead, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange, introducer: p.introducer,
		routes: p.routes, seeker: p.seeker, resting: p.resting,
	}
	p.listener = &listener{
		step: s, dead: p.dead, candidates: p.candidates, attach: p.attach, guests: p.guests, neighborhood: p.neighborhood, serving: p.serving,
		exchange: p.exchange, introducer: p.introducer, suspicion: p.suspicion, resting: p.resting, detached: resting{},
	}
	p.roles = &roles{
		step: s, contacts: p.contacts, candidates: p.candidates, reach: p.reach, attach: p.attach, guests: p.guests, pace: p.pace,
		neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange, seeker: p.seeker,
	}
	p.rounds = &rounds{
		step: s, contacts: p.contacts, dead: p.dead, attach: p.attach, pace: p.pace, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange,
		introducer: p.introducer, routes: p.routes, seeker: p.seeker,
	}
	return p
}

func stabilizeRequest(sender *wire.Neighbours) *wire.Message {
	return wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: sender}})
}

func stabilizeResponse(sender *wire.Neighbours) *wire.Message {
	return wire.New(&wire.Message_StabilizeResponse{StabilizeResponse: &wire.StabilizeResponse{Sender: sender}})
}

func nextHopResponse(r *wire.NextHopResponse) *wire.Message {
	return wire.New(&wire.Message_NextHopResponse{NextHopResponse: r})
}

func entryRequest() *wire.Message {
	return wire.New(&wire.Message_EntryRequest{EntryRequest: &wire.EntryRequest{}})
}

func pingRequest(target peer.ID) *wire.Message {
	return wire.New(&wire.Message_PingRequest{PingRequest: &wire.PingRequest{Target: []byte(target)}})
}

func pingResponse(reachable bool) *wire.Message {
	return wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: reachable}})
}

func attachRequest(sender Peer, leave bool) *wire.Message {
	return wire.New(&wire.Message_AttachRequest{AttachRequest: &wire.AttachRequest{Sender: sender.Wire(), Leave: leave}})
}

func attachResponse(accepted bool, peers []Peer, own *wire.Admission) *wire.Message {
	return wire.New(&wire.Message_AttachResponse{AttachResponse: &wire.AttachResponse{Accepted: accepted, Peers: member.Wire(peers), Admission: own}})
}

func refusal(reason wire.Reason, text string) *wire.Message {
	return wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: reason, Text: text}})
}
