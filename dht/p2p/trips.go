package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// tripAge is for how long the least round trip to a peer holds, maxTrips of how many peers it is
// kept.
const (
	tripAge  = 5 * time.Minute
	maxTrips = 4096
)

// trips are round trips to peers.
type trips struct {
	mu    sync.Mutex // guards least
	least map[peer.ID]trip
}

type trip struct {
	took time.Duration
	at   time.Time
}

// note takes a call in that a peer answered.
func (t *trips) note(p peer.ID, took time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.least[p]
	if known && old.took < took && now.Sub(old.at) < tripAge {
		return
	}
	if t.least == nil || !known && len(t.least) >= maxTrips {
		t.least = make(map[peer.ID]trip) // the next calls fill it again
	}
	t.least[p] = trip{took, now}
}

func (t *trips) of(p peer.ID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.least[p].took
}
