package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxResting bounds the peers that are remembered for having left.
const maxResting = 1024

// resting are peers that said goodbye a moment ago: they are not taken back at once, or whoever
// comes and goes without a pause would keep everybody busy.
type resting map[peer.ID]time.Time

// rest has a peer rest for so long.
func (r resting) rest(now time.Time, id peer.ID, d time.Duration) {
	if len(r) >= maxResting {
		clear(r)
	}
	r[id] = now.Add(d)
}

// rests says whether a peer is not to be taken back yet.
func (r resting) rests(now time.Time, id peer.ID) bool {
	until, ok := r[id]
	if ok && !now.Before(until) {
		delete(r, id)
	}
	return ok && now.Before(until)
}
