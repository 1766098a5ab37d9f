package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// firstBackoff is the time after a failed dial before a peer is dialed again; it doubles up to
	// lastBackoff. It is short compared with libp2p's five seconds to five minutes, so that a
	// restarted peer is found at once.
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// maxBackoffs is the number of peers in the table; one more evicts an arbitrary one, which costs a
	// dial.
	maxBackoffs = 4096
)

// backoffs records which peers could not be dialed. It is safe for concurrent use.
type backoffs struct {
	mu    sync.Mutex // guards peers
	peers map[peer.ID]*backoff
}

type backoff struct {
	until time.Time
	delay time.Duration
	cause error // of the last failure
}

// wait returns the cause of the last failure while a peer must not be dialed.
func (b *backoffs) wait(p peer.ID, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.peers[p]; e != nil && now.Before(e.until) {
		return e.cause
	}
	return nil
}

// failed records a dial that failed at now.
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

// cleared removes a peer that was reached, or that reached us.
func (b *backoffs) cleared(p peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.peers, p)
}

// sweep removes peers whose last failure is long ago.
func (b *backoffs) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, e := range b.peers {
		if now.Sub(e.until) > lastBackoff {
			delete(b.peers, p)
		}
	}
}
