package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// most peers there are. Peer i stands in front of peer i+1 on the ring, and the host lies before
// the first.
const most = 4

// place is a peer's name and position.
type place struct {
	id  peer.ID
	key ring.Key
}

var (
	places  = newPlaces()
	host    = newHost()
	hostKey = ring.HostKey(host)
	hostPos = ring.PosOf(hostKey)
)

func newPlaces() (list [most]place) {
	for i := range list {
		id := peer.ID(fmt.Sprintf("peer %c", 'a'+i))
		list[i] = place{id, ring.PeerKey([]byte(id))}
	}
	slices.SortFunc(list[:], func(a, b place) int { return a.key.Compare(b.key) })
	return list
}

func newHost() string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("h%d.example", i)
		if ring.Between(places[most-1].key, ring.HostKey(name), places[0].key) {
			return name
		}
	}
}

func number(id peer.ID) int {
	return slices.IndexFunc(places[:], func(p place) bool { return p.id == id })
}

// standing is what is believed of a peer.
type standing uint8

const (
	absent standing = iota
	member
	leaving
)

// state is where a peer stands in its own life, as in package dht.
type state uint8

const (
	joining state = iota
	serving
	left
)

// seat is a peer's place in the ring, by the rules of package dht, serve.go; whom it believes alive
// is for the steps of the world to say.
type seat struct {
	i       int
	state   state
	view    [most]standing
	changes uint64
	serves  bool
	arc     ring.Arc
	fences  [most]time.Time // until when the arc of a peer that died is not served
	// goodbyes are when peers said that they leave.
	goodbyes [most]time.Time
	// alone is when the peer may serve without having found anybody: at once if it founds the ring,
	// else somebody has to tell it to, who waits for a while.
	alone time.Time
}

// next walks the ring from a peer on, as believed, and returns the first member that it meets; the
// peer itself if there is no other.
func (s *seat) next(from, step int) int {
	for i := (from + step + most) % most; i != from; i = (i + step + most) % most {
		if s.view[i] == member {
			return i
		}
	}
	return from
}

func (s *seat) known() ring.Arc {
	return ring.Arc{Start: places[s.next(s.i, -1)].key, End: places[s.i].key}
}

// refresh brings the arc up to date: it shrinks at once and grows when no fence is up. A joining
// peer serves when its successor knows of it and nobody else serves its position.
func (s *seat) refresh(w *world) {
	now := w.now
	known := s.known()
	switch {
	case s.state == left:
		s.serve(false, ring.Arc{})
	case s.state == serving && s.arc != known:
		if s.arc.Holds(known) || !s.fenced(now) {
			s.serve(true, known)
		}
	case s.state == joining && s.mayServe(w):
		s.state = serving
		s.serve(true, known)
	}
}

func (s *seat) fenced(now time.Time) bool {
	return slices.ContainsFunc(s.fences[:], func(until time.Time) bool { return now.Before(until) })
}

func (s *seat) mayServe(w *world) bool {
	if s.fenced(w.now) {
		return false
	}
	for i, q := range w.peers {
		switch {
		case i == s.i || !q.running() && s.view[i] != member:
		case !q.running() || w.truth[i] == member && !w.rules.parted && (s.view[i] != member || q.seat.view[s.i] != member):
			return false // two rounds of calls among the neighbours have not come to the same yet
		case s.view[i] == member && q.seat.serves && q.seat.arc.Contains(places[s.i].key):
			return false
		}
	}
	succ := s.next(s.i, 1)
	said := w.peers[succ].seat
	return succ == s.i && !w.now.Before(s.alone) || succ != s.i && said.next(succ, -1) == s.i && !said.fenced(w.now)
}

func (s *seat) serve(has bool, arc ring.Arc) {
	if has != s.serves || arc != s.arc {
		s.serves, s.arc = has, arc
		s.changes++
	}
}

// learn notes what another peer is. Its death puts up a fence.
func (s *seat) learn(i int, what standing, now time.Time) {
	if s.view[i] == member && what == absent {
		s.fences[i] = now.Add(ttl)
	}
	if what == leaving {
		s.goodbyes[i] = now
	}
	s.view[i] = what
	s.changes++
}

// rejoin is what a peer does that was suspended.
func (s *seat) rejoin(now time.Time) {
	if s.state == serving {
		s.state, s.alone = joining, now.Add(ttl)
		s.serve(false, ring.Arc{})
	}
}

// Version implements handoff.View.
func (s *seat) Version() uint64 { return s.changes }

// Serves implements handoff.View.
func (s *seat) Serves(pos ring.Pos) bool { return s.serves && s.arc.Contains(pos.Key()) }

// Mine implements owner.Ring.
func (s *seat) Mine(key ring.Key) bool { return s.serves && s.arc.Contains(key) }

// Owner implements handoff.View.
func (s *seat) Owner(pos ring.Pos) (peer.ID, bool) {
	key := pos.Key()
	for i := range places {
		if s.view[i] == member && (ring.Arc{Start: places[s.next(i, -1)].key, End: places[i].key}).Contains(key) {
			return places[i].id, true
		}
	}
	return "", false
}

// Knows implements handoff.View.
func (s *seat) Knows(id peer.ID) bool { return s.view[number(id)] == member }

// Departs implements handoff.View.
func (s *seat) Departs(id peer.ID) bool { return s.view[number(id)] == leaving }

// Left implements handoff.Neighbours.
func (s *seat) Left(id peer.ID) (at time.Time, seen bool) {
	i := number(id)
	if s.view[i] == leaving {
		return s.goodbyes[i], true
	}
	return s.fences[i].Add(-ttl), !s.fences[i].IsZero()
}

// Arc implements handoff.Neighbours.
func (s *seat) Arc() (ring.Arc, bool) { return s.arc, s.serves }

// Neighbours implements handoff.Neighbours.
func (s *seat) Neighbours() (ids []peer.ID) {
	for i, what := range s.view {
		if i != s.i && what != absent {
			ids = append(ids, places[i].id)
		}
	}
	return ids
}

// followers are the next peers on the ring.
func (s *seat) followers(n int) (ids []string) {
	for i := s.next(s.i, 1); i != s.i && len(ids) < n; {
		ids = append(ids, string(places[i].id))
		for i = (i + 1) % most; i != s.i && s.view[i] != member; i = (i + 1) % most {
		}
	}
	return ids
}
