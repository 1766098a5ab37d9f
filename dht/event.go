package dht

import (
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

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

// PeerDead reports a leaf peer that was removed: it failed twice, and no third peer could reach it.
type PeerDead struct {
	Peer   Peer // the dead peer
	Proven bool // it had answered a call of ours
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
