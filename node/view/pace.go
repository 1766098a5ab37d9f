package view

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
)

// A report takes some milliseconds of processor time, and the loop of the owner with it.
const (
	// reportEvery is the time between two reports to one peer.
	reportEvery = 500 * time.Millisecond
	// reportsAtOnce of them it may have without that, after a while: a wait for the end of a crawl
	// begins with quick walks.
	reportsAtOnce = 4
	// reportWait is how long a question may wait for its turn; then the peer is told to come back.
	reportWait = 2 * time.Second
	// reportPeers bounds the peers whose turns are remembered.
	reportPeers = 4096
)

// pace has the questions of each peer wait for their turn. Nobody is told an older report than the
// one of the moment: two walks that agree are the end of a crawl. Safe for concurrent use.
type pace struct {
	mu   sync.Mutex // guards next; never held while waiting
	next map[peer.ID]time.Time
}

// wait returns when it is the peer's turn, or with an error when there are too many before it.
func (p *pace) wait(ctx context.Context, from peer.ID) error {
	turn := p.turn(from, time.Now())
	if turn > reportWait {
		return rpc.Busy("too many questions for a report")
	}
	if turn <= 0 {
		return nil
	}
	return loop.Sleep(ctx, turn)
}

// turn is how long a peer's next question has to wait. One that would have to for too long takes no
// turn.
func (p *pace) turn(from peer.ID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(map[peer.ID]time.Time)
	}
	at, known := p.next[from]
	if earliest := now.Add(-reportsAtOnce * reportEvery); at.Before(earliest) {
		at = earliest
	}
	at = at.Add(reportEvery)
	turn := at.Sub(now)
	if turn > reportWait {
		return turn
	}
	if !known && len(p.next) >= reportPeers && !p.forget(now) {
		return reportWait + 1 // so many strangers at once are an attack
	}
	p.next[from] = at
	return turn
}

// forget makes room by those who asked nothing for a while; false if there are none.
func (p *pace) forget(now time.Time) bool {
	for id, at := range p.next {
		if now.Sub(at) > reportsAtOnce*reportEvery {
			delete(p.next, id)
		}
	}
	return len(p.next) < reportPeers
}
