package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// tripAge is the lifetime of a minimum round-trip time, maxTrips the number of peers.
const (
	tripAge  = 5 * time.Minute
	maxTrips = 4096
)

// trips holds minimum round-trip times of peers.
type trips struct {
	mu    sync.Mutex // guards least
	least map[peer.ID]trip
}

type trip struct {
	took time.Duration
	at   time.Time
}

// record records an answered call.
func (t *trips) record(p peer.ID, took time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.least[p]
	if known && old.took < took && now.Sub(old.at) < tripAge {
		return
	}
	if t.least == nil || !known && len(t.least) >= maxTrips {
		t.least = make(map[peer.ID]trip) // later calls refill it
	}
	t.least[p] = trip{took, now}
}

func (t *trips) of(p peer.ID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.least[p].took
}
