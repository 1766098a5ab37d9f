package calls

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// shares counts bytes that are kept for others, by peer. All may have most, of which the last quarter is for those whom the Network knows, and each ofPeer. Safe for
// concurrent use.
type shares struct {
	most, ofPeer int
	known        func(peer.ID) bool

	mu  sync.Mutex // guards the rest
	all int
	of  map[peer.ID]int
}

// take counts bytes for a peer; false, and nothing is, if that is more than it may have.
func (s *shares) take(of peer.ID, size int) bool {
	most := s.most
	if !s.known(of) {
		most -= most / 4
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+size > most || s.of[of]+size > s.ofPeer {
		return false
	}
	s.count(of, size)
	return true
}

// add counts bytes, or with a negative size takes them back, however many there are.
func (s *shares) add(of peer.ID, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(of, size)
}

// count is called with the lock held.
func (s *shares) count(of peer.ID, size int) {
	if s.of == nil {
		s.of = make(map[peer.ID]int)
	}
	s.all += size
	if s.of[of] += size; s.of[of] == 0 {
		delete(s.of, of)
	}
}
