package dht

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// step is the state that all parts share: configuration, calls in flight, and the output of the
// current input.
type step struct {
	cfg  Config
	self Peer
	rnd  *rand.Rand
	book *admission.Book
	now  time.Time // of the current input, or the last

	calls    map[uint64]inFlight
	lastCall uint64
	doubted  uint64 // answers to calls up to this one may predate a suspension
	out      []Call
	events   []Event
}

// Call is a request that the driver must send; it passes the answer to Result with the same ID,
// exactly once.
type Call struct {
	// ID identifies the call for Result.
	ID uint64
	// To is the receiver.
	To Peer
	// Request is the message to send.
	Request *wire.Message
	// Timeout is how long to wait for the answer.
	Timeout time.Duration
}

// Ready is the pending output of a Ring, in order.
type Ready struct {
	// Calls must be made.
	Calls []Call
	// Events are to be delivered.
	Events []Event
}

type inFlight struct {
	to     Peer
	kind   callKind
	target ring.Key // subject of a vouch
	search *lookup.Search
}

type callKind uint8

const (
	callStabilize callKind = iota
	callVouch
	callSearch
	callAttach
	callEntry
	callFarewell // the result is ignored
)

func be64(k ring.Key) uint64 {
	var v uint64
	for _, b := range k[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}

// Self returns this peer, with its incarnation.
func (s *step) Self() Peer { return s.self }

// Ready returns the output since the last Ready.
func (s *step) Ready() Ready {
	ready := Ready{Calls: s.out, Events: s.events}
	s.out, s.events = nil, nil
	return ready
}

func (s *step) call(to Peer, req *wire.Message, fl inFlight) {
	s.lastCall++
	fl.to = to
	s.calls[s.lastCall] = fl
	s.out = append(s.out, Call{ID: s.lastCall, To: to, Request: req, Timeout: callTimeout})
}

// farewell sends a goodbye to a ring peer that this worker is attached to.
func (s *step) farewell(to Peer) {
	s.call(to, attachRequest(s.self, true), inFlight{kind: callFarewell})
}

// answered removes the call of an answer; false if there is none.
func (s *step) answered(id uint64) (inFlight, bool) {
	fl, ok := s.calls[id]
	delete(s.calls, id)
	return fl, ok
}

func (s *step) emit(e Event) { s.events = append(s.events, e) }

// doubt marks the answers to all calls made so far as doubtful.
func (s *step) doubt() {
	s.lastCall++ // unused number: doubts also messages before the first call
	s.doubted = s.lastCall
}

// jitter varies d by up to a fifth either way, so that peers started together do not call at once.
func (s *step) jitter(d time.Duration) time.Duration {
	return d + time.Duration((s.rnd.Float64()-0.5)*0.4*float64(d))
}

// maxContacts is the maximum number of remembered entry points to the ring.
const maxContacts = 32

// contacts are entry points to the ring, latest first: entry peers, remembered ones and former
// neighbors.
type contacts struct {
	self peer.ID
	list []Peer
}

// remember puts peers in front.
func (c *contacts) remember(peers ...Peer) {
	for _, p := range slices.Backward(peers) {
		if p.ID == c.self || p.ID == "" {
			continue
		}
		c.list = slices.DeleteFunc(c.list, func(q Peer) bool { return q.ID == p.ID })
		c.list = slices.Insert(c.list, 0, p)
	}
	c.list = c.list[:min(len(c.list), maxContacts)]
}

// State is the state of a peer in the ring.
type State uint8

const (
	// Joining peers are in leaf sets and take part in lookups, but serve no key.
	Joining State = iota
	// Serving peers serve their arc.
	Serving
	// Leaving peers have given up their arc and are about to stop.
	Leaving
	// Worker peers cannot be dialed: they are in no leaf set, and are attached to ring peers by
	// connections that they opened.
	Worker
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Serving:
		return "serving"
	case Leaving:
		return "leaving"
	case Worker:
		return "worker"
	default:
		return "joining"
	}
}

func (s State) wire() wire.State {
	switch s {
	case Serving:
		return wire.State_STATE_SERVING
	case Leaving:
		return wire.State_STATE_LEAVING
	case Worker:
		return wire.State_STATE_WORKER
	default:
		return wire.State_STATE_JOINING
	}
}

// Event is a change of this peer's place in the ring: one of the types below.
type Event interface{ event() }

// StateChanged reports a change of the peer's state.
type StateChanged struct {
	Old, New State // before and after the change
}

// ArcChanged reports that the served arc changed. Had and Has report whether the peer served one
// before and serves one now; Old and New are undefined where they are false.
type ArcChanged struct {
	Old, New ring.Arc // the arcs
	Had, Has bool     // Old, and New, are defined
}

// LeavesChanged reports a change of the leaf set.
type LeavesChanged struct{}

// CutOff reports that a serving peer cannot be dialed any more: hand its arc over, then call
// StepDown. It serves until then.
type CutOff struct{}

// AttachedChanged reports a change of the workers attached to this peer, or, for a worker, of the
// ring peers that it is attached to.
type AttachedChanged struct{}

// PeerUp reports a peer that entered the leaf set.
type PeerUp struct {
	Peer Peer // the new leaf peer
}

// PeerSuspect reports a leaf peer that did not answer.
type PeerSuspect struct {
	Peer Peer // the suspect
}

// PeerDead reports a leaf peer that was removed: it failed twice, and no third peer could reach it;
// or its certificates have ended.
type PeerDead struct {
	Peer     Peer // the dead peer
	Proven   bool // it had answered a call of ours
	Expelled bool // it had too, and its certificates have ended
}

// PeerLeft reports a leaf peer that sent a goodbye.
type PeerLeft struct {
	Peer   Peer // the departed peer
	Proven bool // it had answered a call of ours
}

func (StateChanged) event()    {}
func (ArcChanged) event()      {}
func (LeavesChanged) event()   {}
func (CutOff) event()          {}
func (AttachedChanged) event() {}
func (PeerUp) event()          {}
func (PeerSuspect) event()     {}
func (PeerDead) event()        {}
func (PeerLeft) event()        {}
