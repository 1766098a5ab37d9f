package dht

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// step is what all parts of a ring stand on: what it was made with, the calls under way, and what
// comes of the input that it takes.
type step struct {
	cfg  Config
	self Peer
	rnd  *rand.Rand

	calls    map[uint64]inFlight
	lastCall uint64
	doubted  uint64 // answers to calls up to this one may be from before a pause
	out      []Call
	events   []Event
}

// Call is a request that the driver must send; Result takes its answer under the same ID, exactly
// once.
type Call struct {
	// ID is by which Result knows the call.
	ID uint64
	// To is who is asked.
	To Peer
	// Request is what is asked.
	Request *wire.Message
	// Timeout is how long to wait for the answer.
	Timeout time.Duration
}

// Ready is what a Ring wants done, in order.
type Ready struct {
	// Calls are to be made.
	Calls []Call
	// Events are what happened.
	Events []Event
}

type inFlight struct {
	to     Peer
	kind   callKind
	target ring.Key // whom a vouch is about
	search *lookup.Search
}

type callKind uint8

const (
	callStabilize callKind = iota
	callVouch
	callSearch
	callAttach
	callFarewell // whatever comes of it
)

func newStep(cfg Config, self Peer) *step {
	return &step{cfg: cfg, self: self, rnd: rand.New(rand.NewPCG(cfg.Seed, be64(self.Key()))), calls: map[uint64]inFlight{}}
}

func be64(k ring.Key) uint64 {
	var v uint64
	for _, b := range k[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}

// Self is this peer, with its incarnation.
func (s *step) Self() Peer { return s.self }

// Ready returns what is to be done since the last Ready.
func (s *step) Ready() Ready {
	ready := Ready{Calls: s.out, Events: s.events}
	s.out, s.events = nil, nil
	return ready
}

func (s *step) call(to Peer, req *wire.Message, fl inFlight) {
	s.lastCall++
	fl.to = to
	s.calls[s.lastCall] = fl
	s.out = append(s.out, Call{ID: s.lastCall, To: to, Request: req, Timeout: s.cfg.CallTimeout})
}

// farewell takes leave of a ring peer that this worker is attached to.
func (s *step) farewell(to Peer) {
	s.call(to, attachRequest(s.self, true), inFlight{kind: callFarewell})
}

// answered takes the call out that an answer belongs to; false when there is none.
func (s *step) answered(id uint64) (inFlight, bool) {
	fl, ok := s.calls[id]
	delete(s.calls, id)
	return fl, ok
}

func (s *step) tell(e Event) { s.events = append(s.events, e) }

// doubt makes all answers doubtful whose questions were asked up to now.
func (s *step) doubt() {
	s.lastCall++ // no call has this number: also what is said before the first call is doubted
	s.doubted = s.lastCall
}

// jitter spreads d by a fifth to both sides, so that peers started together do not knock together.
func (s *step) jitter(d time.Duration) time.Duration {
	return d + time.Duration((s.rnd.Float64()-0.5)*0.4*float64(d))
}

// maxContacts bounds the remembered ways back into the ring.
const maxContacts = 32

// contacts are ways back into the ring, the latest first: entry peers, remembered ones and former
// neighbours.
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
