package custody

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// Answer is what a neighbour says when it is asked whether it holds anything of this peer's arc.
type Answer uint8

const (
	// NotYet: it does, or is still looking, or cannot be asked.
	NotYet Answer = iota
	// Nothing: it holds nothing of it, as it sees the ring now.
	Nothing
)

// Neighbours is what a Settler has to know of the ring.
type Neighbours interface {
	// Arc is the arc served; false while none is.
	Arc() (ring.Arc, bool)
	// Neighbours are the peers that may hold records of the arc: the leaf set, and those that are
	// leaving.
	Neighbours() []peer.ID
	// Departs says that a peer is leaving and hands over what it holds by itself.
	Departs(id peer.ID) bool
	// Left is when a peer said goodbye or was given up, if this peer saw that: it gives and renews
	// no lease since.
	Left(id peer.ID) (at time.Time, seen bool)
}

// Ask is the question to a neighbour whether it holds anything of an arc; its answer goes to
// Settler.Result.
type Ask struct {
	ID  uint64   // of this question, to be given to Result
	To  peer.ID  // the neighbour
	Arc ring.Arc // that this peer answers for now
}

// Settler finds out whether the records of this peer's arc have all arrived. Not safe for
// concurrent use.
//
// A wait of Patience ends it. Then no lease is alive that another peer gave for a host of the arc,
// and what comes later is merged. If a neighbour dies that has not answered, the arc may have been
// its own a moment ago: Patience then counts from its death, if that was seen.
type Settler struct {
	// Patience is how long the neighbours are asked at most, Again the wait between two questions
	// to one.
	patience, again time.Duration
	ring            Neighbours
	free            func(arc ring.Arc) bool // this peer itself has taken over what it holds of the arc

	settled  ring.Arc
	any      bool // settled has a meaning
	arc      ring.Arc
	since    time.Time
	answered map[peer.ID]bool
	missed   map[peer.ID]bool   // asked about the arc, not answered, and no reason to be gone
	asking   map[uint64]peer.ID // about arc
	next     map[peer.ID]time.Time
	last     uint64
}

// NewSettler returns a settler for which nothing has settled. Free says whether this peer itself
// keeps nothing of its arc in copies that is still to be merged, see Keeper.
func NewSettler(patience, again time.Duration, neighbours Neighbours, free func(arc ring.Arc) bool) *Settler {
	return &Settler{patience: patience, again: again, ring: neighbours, free: free, asking: make(map[uint64]peer.ID)}
}

// Settled says whether all records of a position have arrived that others may hold.
func (s *Settler) Settled(pos ring.Pos) bool { return s.any && s.settled.Contains(pos.Key()) }

// All says whether the whole arc has settled that is served now.
func (s *Settler) All() bool {
	arc, ok := s.ring.Arc()
	return ok && s.any && s.settled == arc
}

// Tick asks whom is to be asked now. Changed says that another arc has settled; next is when to
// call again, zero: when the ring changes.
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
		s.settle(arc) // less is served than before
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
		if s.isAsking(id) {
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

// leasesEnd is when the leases are over of neighbours that are gone without having answered; the
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

func (s *Settler) isAsking(id peer.ID) bool {
	for _, other := range s.asking {
		if other == id {
			return true
		}
	}
	return false
}

func (s *Settler) settle(arc ring.Arc) {
	s.settled, s.any, s.since = arc, true, time.Time{}
}

// Result brings an answer. One that was asked before the arc changed is of no use.
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

// Answers says what a peer answers when another asks about its arc. It says that it holds nothing
// if it is free of the arc (see Keeper) and sees the ring as the asker does, whose arc begins
// behind the last peer that it believes alive. If it saw it otherwise it might keep the copy of a
// peer for alive that the asker knows to be dead.
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
