package inspect

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// A report takes some milliseconds of processor time in the owner's loop.
const (
	// reportEvery is the time between two reports to one peer.
	reportEvery = 500 * time.Millisecond
	// reportsAtOnce is the burst of reports without that interval: a wait for the end of a crawl
	// begins with quick walks.
	reportsAtOnce = 4
	// reportWait is the maximum wait of a request for its turn; then it is rejected as busy.
	reportWait = 2 * time.Second
	// reportPeers limits the peers whose turns are stored.
	reportPeers = 4096
)

// pace limits the rate of requests of each peer by delaying them. Reports are never cached: two
// equal walks end a crawl. Safe for concurrent use.
type pace struct {
	mu   sync.Mutex // guards next; never held while waiting
	next map[peer.ID]time.Time
}

// wait returns at the peer's turn, or with an error if too many requests are waiting.
func (p *pace) wait(ctx context.Context, from peer.ID) error {
	turn := p.turn(from, time.Now())
	if turn > reportWait {
		return rpc.Busy("too many report requests")
	}
	if turn <= 0 {
		return nil
	}
	return loop.Sleep(ctx, turn)
}

// turn returns the delay of a peer's next request. A request that would wait too long takes no
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
		return reportWait + 1 // so many untrusted peers at once are an attack
	}
	p.next[from] = at
	return turn
}

// forget removes inactive peers; false if there are none.
func (p *pace) forget(now time.Time) bool {
	for id, at := range p.next {
		if now.Sub(at) > reportsAtOnce*reportEvery {
			delete(p.next, id)
		}
	}
	return len(p.next) < reportPeers
}
