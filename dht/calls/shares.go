package calls

import (
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// shares counts bytes that are kept for others, by party. All may have most, and each ofParty.
// Those whom the Network does not know have something only up to strangers of it all, and each half
// of that. Safe for concurrent use.
type shares struct {
	most, ofParty, strangers int
	known                    func(peer.ID) bool

	mu      sync.Mutex // guards the rest
	all     int
	of      map[string]int
	resting map[string]time.Time // who has no room, and until when
}

// party is a peer, and the name under which its share counts: its own, or where it is connected
// from.
type party struct {
	peer peer.ID
	name string
}

// take counts bytes for a party; false, and nothing is, if there is no room for that, or for so
// much: full says that no other like it has room either.
func (s *shares) take(of party, size, room int) (taken, full bool) {
	room = max(room, size)
	known := s.known(of.peer)
	most, ofParty := s.most, s.ofParty
	if !known {
		most, ofParty = s.strangers, min(ofParty, s.strangers/2)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until, rests := s.resting[of.name]
	switch {
	case s.all+room > most:
		return false, true
	case s.of[of.name]+room > ofParty, rests && !known && time.Now().Before(until):
		return false, false
	}
	s.count(of, size)
	return true, false
}

// add counts bytes, or with a negative size takes them back, however many there are.
func (s *shares) add(of party, size int) {
	if size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(of, size)
}

// count is called with the lock held.
func (s *shares) count(of party, size int) {
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all += size
	if s.of[of.name] += size; s.of[of.name] == 0 {
		delete(s.of, of.name)
	}
}

// rest has a party wait for room until a time.
func (s *shares) rest(name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting == nil {
		s.resting = make(map[string]time.Time)
	}
	maps.DeleteFunc(s.resting, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	s.resting[name] = until
}
