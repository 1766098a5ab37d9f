package handoff

import (
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// Answer is a neighbor's answer whether it holds anything of this peer's arc.
type Answer uint8

const (
	// NotYet: it does, or is still checking, or is unreachable.
	NotYet Answer = iota
	// Nothing: it holds nothing of it, in its current view of the ring.
	Nothing
)

// Neighbours is a Settler's view of the ring.
type Neighbours interface {
	// Arc returns the arc served; false without one.
	Arc() (ring.Arc, bool)
	// Neighbours returns the peers that may hold records of the arc: the leaf set, and leaving peers.
	Neighbours() []peer.ID
	// Departs reports whether a peer is leaving and hands over its records itself.
	Departs(id peer.ID) bool
	// Left returns when a peer left or was declared dead, if this peer observed that: it has granted
	// and renewed no lease since.
	Left(id peer.ID) (at time.Time, seen bool)
}

// Ask is a query to a neighbor whether it holds anything of an arc; its answer goes to
// Settler.Result.
type Ask struct {
	ID  uint64   // to be passed to Result
	To  peer.ID  // the neighbor
	Arc ring.Arc // the arc that this peer serves now
}

// Settler determines whether the records of this peer's arc have all arrived. Not safe for
// concurrent use.
//
// It ends after Patience at the latest. Then no lease of another peer for a host of the arc is
// valid, and later records are merged. If a neighbor dies that has not answered, the arc may have
// been its own a moment ago: Patience then counts from its death, if that was observed.
type Settler struct {
	// Patience bounds the time for which the neighbors are queried, Again is the delay between two
	// queries to one.
	patience, again time.Duration
	ring            Neighbours
	free            func(arc ring.Arc) bool // this peer has merged its own copies of the arc

	settled  ring.Arc
	any      bool // settled is valid
	arc      ring.Arc
	since    time.Time
	answered map[peer.ID]bool
	missed   map[peer.ID]bool   // queried about the arc without an answer, and not known to be gone
	asking   map[uint64]peer.ID // queries about arc
	next     map[peer.ID]time.Time
	last     uint64
}

// NewSettler returns a settler for which nothing has settled. Free reports whether this peer itself
// has no copies of its arc that are still to be merged, see Keeper.
func NewSettler(patience, again time.Duration, neighbours Neighbours, free func(arc ring.Arc) bool) *Settler {
	return &Settler{patience: patience, again: again, ring: neighbours, free: free, asking: make(map[uint64]peer.ID)}
}

// Settled reports whether all records of a position have arrived that others may hold.
func (s *Settler) Settled(pos ring.Pos) bool { return s.any && s.settled.Contains(pos.Key()) }

// All reports whether the whole arc served now has settled.
func (s *Settler) All() bool {
	arc, ok := s.ring.Arc()
	return ok && s.any && s.settled == arc
}

// Tick returns the queries to be sent now. Changed reports whether another arc has settled; next is
// when to call again, zero: when the ring changes.
func (s *Settler) Tick(now time.Time) (asks []Ask, changed bool, next time.Time) {
	arc, ok := s.ring.Arc()
	switch {
	case !ok:
		changed = s.any
		s.any, s.since = false, time.Time{}
		return nil, changed, time.Time{}
	case s.any && s.settled == arc:
		s.since = time.Time{}
		return nil, false, time.Time{}
	case s.any && s.settled.Holds(arc):
		s.settle(arc) // the arc shrank
		return nil, true, time.Time{}
	case s.since.IsZero() || s.arc != arc:
		s.arc, s.since = arc, now
		s.answered, s.next, s.asking = make(map[peer.ID]bool), make(map[peer.ID]time.Time), make(map[uint64]peer.ID)
		s.missed = make(map[peer.ID]bool)
	}
	if now.Sub(s.since) >= s.patience {
		s.settle(arc)
		return nil, true, time.Time{}
	}
	next = s.since.Add(s.patience)
	if !s.free(arc) {
		return nil, false, earlier(next, now.Add(s.again))
	}
	open := false
	for _, id := range s.ring.Neighbours() {
		if s.answered[id] {
			continue
		}
		open = true
		s.missed[id] = !s.ring.Departs(id)
		at := s.next[id]
		if slices.Contains(slices.Collect(maps.Values(s.asking)), id) {
			continue
		}
		if now.Before(at) {
			next = earlier(next, at)
			continue
		}
		s.last++
		s.asking[s.last] = id
		asks = append(asks, Ask{s.last, id, arc})
	}
	if open {
		return asks, false, next
	}
	until := s.leasesEnd()
	if !now.Before(until) {
		s.settle(arc)
		return nil, true, time.Time{}
	}
	return asks, false, earlier(next, until)
}

// leasesEnd returns when the leases of neighbors have expired that are gone without an answer; the
// zero time if there are none.
func (s *Settler) leasesEnd() (end time.Time) {
	for id, missed := range s.missed {
		if !missed || s.answered[id] {
			continue
		}
		left, seen := s.ring.Left(id)
		if !seen {
			left = s.since
		}
		if left = left.Add(s.patience); left.After(end) {
			end = left
		}
	}
	return end
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (s *Settler) settle(arc ring.Arc) {
	s.settled, s.any, s.since = arc, true, time.Time{}
}

// Result processes an answer. It ignores answers about an earlier arc.
func (s *Settler) Result(now time.Time, id uint64, answer Answer) {
	from, ok := s.asking[id]
	delete(s.asking, id)
	if arc, serves := s.ring.Arc(); !ok || !serves || arc != s.arc || s.since.IsZero() {
		return
	}
	if answer == Nothing {
		s.answered[from] = true
		return
	}
	s.next[from] = now.Add(s.again)
}

// Answers returns a peer's answer about another's arc. It is Nothing if the peer is free of the arc
// (see Keeper) and has the same view of the ring as the requester, whose arc begins after the last
// peer that it presumes alive. With another view it might retain the copy of a peer as alive that
// the requester has found dead.
func Answers(from peer.ID, arc ring.Arc, view View, free bool) Answer {
	if !free || arc.End != ring.PeerKey([]byte(from)) {
		return NotYet
	}
	for _, pos := range []ring.Pos{ring.PosOf(arc.Start).Next(), ring.PosOf(arc.End)} {
		if owner, ok := view.Owner(pos); !ok || owner != from || view.Serves(pos) {
			return NotYet
		}
	}
	return Nothing
}
