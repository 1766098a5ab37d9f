package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// dialBurst is the number of peers that a public peer dials at once; then one each dialEvery. A
	// home router's connection table is small: a burst of dead addresses fills it for minutes.
	dialBurst = 32
	dialEvery = 100 * time.Millisecond
	// maxDialWait is the maximum delay of a dial, because its caller gives up soon after.
	maxDialWait = 3 * time.Second
	// maxDialAddrs is the maximum number of addresses dialed of one peer.
	maxDialAddrs = 8
)

// dialPace limits the rate of dials. It is safe for concurrent use.
type dialPace struct {
	now func() time.Time

	mu   sync.Mutex // guards free
	free time.Time  // when the whole burst is available again
}

// rank is a dial ranker that delays dials beyond the rate.
func (p *dialPace) rank(addrs []ma.Multiaddr) []network.AddrDelay {
	ranked := preferTCP(addrs)
	ranked = ranked[:min(len(ranked), maxDialAddrs)]
	wait := p.take()
	for i := range ranked {
		ranked[i].Delay += wait
	}
	return ranked
}

// take returns the delay of the next dial.
func (p *dialPace) take() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	wait := p.free.Sub(now) - (dialBurst-1)*dialEvery
	if wait <= maxDialWait {
		p.free = p.free.Add(dialEvery)
	}
	return min(max(wait, 0), maxDialWait)
}
