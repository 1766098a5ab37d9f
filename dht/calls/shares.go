package calls

import (
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// shares counts bytes held for peers, by party: at most most for all and ofParty for each.
// Untrusted parties get at most strangers in total, and half of that each. It is safe for
// concurrent use.
type shares struct {
	most, ofParty, strangers int
	known                    func(peer.ID) bool

	mu      sync.Mutex // guards the fields below
	all     int
	of      map[string]int
	resting map[string]time.Time // parties in backoff, and until when
}

// caller is a peer and the name of its quota: its own, or its network of origin.
type caller struct {
	peer peer.ID
	name string
}

// take reserves bytes for a party, or returns false if they, or room, do not fit. full reports that
// no party of its kind has space left.
func (s *shares) take(of caller, size, room int) (taken, full bool) {
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

// add counts bytes for a party without limit, or releases them if size is negative.
func (s *shares) add(of caller, size int) {
	if size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(of, size)
}

// count is called with the lock held.
func (s *shares) count(of caller, size int) {
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all += size
	if s.of[of.name] += size; s.of[of.name] == 0 {
		delete(s.of, of.name)
	}
}

// rest refuses a party further memory until a time.
func (s *shares) rest(name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting == nil {
		s.resting = make(map[string]time.Time)
	}
	maps.DeleteFunc(s.resting, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	s.resting[name] = until
}
