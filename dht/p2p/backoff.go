package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// firstBackoff is how long after a failed dial a peer is not dialled again;
	// it doubles up to lastBackoff. Short beside libp2p's own five seconds to five
	// minutes: a peer that was killed and came back shall be found at once.
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// maxBackoffs peers are remembered; one more forgets an arbitrary one, which
	// costs a dial.
	maxBackoffs = 4096
)

// backoffs remembers which peers could not be dialled. Safe for concurrent use.
type backoffs struct {
	mu    sync.Mutex // guards peers
	peers map[peer.ID]*backoff
}

type backoff struct {
	until time.Time
	delay time.Duration
	cause error // of the last failure
}

// wait returns the cause of the last failure while a peer must not be dialled.
func (b *backoffs) wait(p peer.ID, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.peers[p]; e != nil && now.Before(e.until) {
		return e.cause
	}
	return nil
}

// failed notes a dial that failed at now.
func (b *backoffs) failed(p peer.ID, now time.Time, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.peers == nil {
		b.peers = map[peer.ID]*backoff{}
	}
	e := b.peers[p]
	if e == nil {
		for old := range b.peers {
			if len(b.peers) < maxBackoffs {
				break
			}
			delete(b.peers, old)
		}
		e = &backoff{delay: firstBackoff / 2}
		b.peers[p] = e
	}
	e.delay = min(2*e.delay, lastBackoff)
	e.until = now.Add(e.delay)
	e.cause = cause
}

// cleared forgets a peer that was reached, or that reached us.
func (b *backoffs) cleared(p peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.peers, p)
}

// sweep forgets peers whose last failure is long ago.
func (b *backoffs) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, e := range b.peers {
		if now.Sub(e.until) > lastBackoff {
			delete(b.peers, p)
		}
	}
}
