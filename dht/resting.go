package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxResting is the maximum number of remembered departed peers.
const maxResting = 1024

// resting are peers that left recently. They are not accepted at once, because a peer that leaves
// and rejoins in a loop would load its neighbors.
type resting map[peer.ID]time.Time

// rest refuses a peer for d.
func (r resting) rest(now time.Time, id peer.ID, d time.Duration) {
	if len(r) >= maxResting {
		clear(r)
	}
	r[id] = now.Add(d)
}

// rests reports whether a peer is still refused.
func (r resting) rests(now time.Time, id peer.ID) bool {
	until, ok := r[id]
	if ok && !now.Before(until) {
		delete(r, id)
	}
	return ok && now.Before(until)
}
