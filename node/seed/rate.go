package seed

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// buckets that networks share by a hash that nobody can foresee: however many ask, there are no
	// more.
	buckets = 1 << 14
	// burst: so many seconds of a rate may be used at once.
	burst = 2
	// The bits of an address that name the network whose answers are counted together.
	clientBits4 = 24
	clientBits6 = 56
)

// paces bounds the answers to each network, as their address may be forged: whoever is sent them
// may not have asked.
type paces struct {
	seed    maphash.Seed
	buckets [buckets]*rate.Limiter
	over    atomic.Uint64 // answers beyond
}

func newPaces(perSecond int) *paces {
	p := &paces{seed: maphash.MakeSeed()}
	for i := range p.buckets {
		p.buckets[i] = rate.NewLimiter(rate.Limit(perSecond), burst*perSecond)
	}
	return p
}

// verdict on an answer.
type verdict uint8

const (
	send verdict = iota
	// slip: an empty one that sends whoever really asked to TCP.
	slip
	drop
)

// take says what becomes of an answer to an address: beyond the rate every second one slips.
func (p *paces) take(now time.Time, to netip.Addr) verdict {
	at := maphash.Comparable(p.seed, clientNetwork(to)) % buckets
	switch {
	case p.buckets[at].AllowN(now, 1):
		return send
	case p.over.Add(1)%2 == 1:
		return slip
	default:
		return drop
	}
}

// clientNetwork is what one who asks can easily have addresses of.
func clientNetwork(a netip.Addr) netip.Prefix {
	bits := clientBits6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = clientBits4
	}
	network, _ := a.Prefix(bits) // fails for bits beyond the address only
	return network
}
