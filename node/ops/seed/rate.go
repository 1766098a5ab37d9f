package seed

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// buckets is the number of token buckets, which networks share by a random hash: memory is
	// constant.
	buckets = 1 << 14
	// burst is the burst size in seconds of the rate.
	burst = 2
	// The prefix lengths of networks that share a rate.
	clientBits4 = 24
	clientBits6 = 56
)

// paces limits the rate of responses to each network, because source addresses may be forged.
type paces struct {
	seed    maphash.Seed
	buckets [buckets]*rate.Limiter
	over    atomic.Uint64 // responses above the rate
}

func newPaces(perSecond int) *paces {
	p := &paces{seed: maphash.MakeSeed()}
	for i := range p.buckets {
		p.buckets[i] = rate.NewLimiter(rate.Limit(perSecond), burst*perSecond)
	}
	return p
}

// verdict is the decision on a response.
type verdict uint8

const (
	send verdict = iota
	// slip: send a truncated response, so that a real client retries over TCP.
	slip
	drop
)

// take returns the decision on a response to an address: above the rate every second one slips.
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

// clientNetwork returns the network in which one client can easily use all addresses.
func clientNetwork(a netip.Addr) netip.Prefix {
	bits := clientBits6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = clientBits4
	}
	network, _ := a.Prefix(bits) // fails for bits beyond the address only
	return network
}
