package calls

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// shares counts bytes that are kept for others, by peer. All may have most, of which the last
// quarter is for those whom the Network knows, and each ofPeer. Safe for concurrent use.
type shares struct {
	most, ofPeer int
	known        func(peer.ID) bool

	mu  sync.Mutex // guards the rest
	all int
	of  map[peer.ID]int
}

// take counts bytes for a peer; false, and nothing is, if there is no room for that, or for so
// much.
func (s *shares) take(of peer.ID, size, room int) bool {
	room = max(room, size)
	most := s.most
	if !s.known(of) {
		most -= most / 4
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+room > most || s.of[of]+room > s.ofPeer {
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
