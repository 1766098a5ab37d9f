package p2p

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// dialBurst peers are dialled at once by a public peer, and then one each dialEvery: a home
	// router's table of connections is small, and a burst of addresses nobody answers at fills it
	// for minutes.
	dialBurst = 32
	dialEvery = 100 * time.Millisecond
	// maxDialWait bounds how long a dial is put off: one that would come later is made then, as its
	// caller gives up soon after.
	maxDialWait = 3 * time.Second
	// maxDialAddrs of one peer are dialled.
	maxDialAddrs = 8
)

// dialPace spreads dials over time. Safe for concurrent use.
type dialPace struct {
	now func() time.Time

	mu   sync.Mutex // guards free
	free time.Time  // when a burst is free again as a whole
}

// rank is a dial ranker that puts off the dials beyond the pace.
func (p *dialPace) rank(addrs []ma.Multiaddr) []network.AddrDelay {
	ranked := preferTCP(addrs)
	ranked = ranked[:min(len(ranked), maxDialAddrs)]
	wait := p.take()
	for i := range ranked {
		ranked[i].Delay += wait
	}
	return ranked
}

// take is how long the next dial is put off.
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
