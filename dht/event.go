package dht

import (
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// State is where a peer stands in its life in the ring.
type State uint8

const (
	// Joining peers stand in leaf sets and take part in lookups, but serve no key.
	Joining State = iota
	// Serving peers answer for their arc.
	Serving
	// Leaving peers have given up their arc and are on their way out.
	Leaving
	// Worker peers cannot be dialled: they stand in no leaf set, and are attached to ring peers by
	// connections of their own.
	Worker
)

// String names the state in lower case.
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

// Event is something that happened to this peer's place in the ring: one of the types below.
type Event interface{ event() }

// StateChanged tells of a step in the peer's own life.
type StateChanged struct {
	Old, New State // before and after the step
}

// ArcChanged tells that the peer serves other keys than before. Had and Has say whether it served
// any before and does now; Old and New mean nothing where they are false.
type ArcChanged struct {
	Old, New ring.Arc // the arcs
	Had, Has bool     // Old, and New, mean something
}

// LeavesChanged tells that the leaf set is another one.
type LeavesChanged struct{}

// CutOff tells a serving peer that it cannot be dialled any more: hand its arc over, then call
// StepDown. It serves until then.
type CutOff struct{}

// AttachedChanged tells that other workers are attached to this peer than before, or, to a worker,
// that it is attached to others.
type AttachedChanged struct{}

// PeerUp tells of a peer that came into the leaf set.
type PeerUp struct {
	Peer Peer // who came
}

// PeerSuspect tells of a leaf peer that did not answer.
type PeerSuspect struct {
	Peer Peer // who is silent
}

// PeerDead tells of a leaf peer that was given up: it failed twice, and no third peer could vouch
// for it.
type PeerDead struct {
	Peer   Peer // who is given up
	Proven bool // it had answered a call of ours
}

// PeerLeft tells of a leaf peer that said goodbye.
type PeerLeft struct {
	Peer   Peer // who left
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
