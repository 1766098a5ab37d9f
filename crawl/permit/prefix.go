package permit

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// Chunk is how long permits hold at most (design, section 6).
	Chunk = time.Minute
	// FallbackShare: of that many workers that cannot reach the granter all together keep its
	// limit. A host's worker is one of the leaf set of its owner, some sixteen peers and four that
	// are attached.
	FallbackShare = 20
	// MaxWant bounds what is asked for at once, and MaxLimit the limit of a prefix: requests in a
	// chunk.
	MaxWant  = 4096
	MaxLimit = 1 << 20 // requests in a chunk

	// MaxDelay bounds what there is between the turns of two workers at a domain.
	MaxDelay = time.Hour

	bits4, bits6 = 32, 64
	home4, home6 = 24, 48
)

// Key is what shares a limit: a prefix, or a registrable domain. The zero Key shares none.
type Key struct {
	Prefix netip.Prefix // of addresses
	Domain string       // where it is no prefix
}

// Address is what shares a limit with an address; the zero Key for what is none.
func Address(addr netip.Addr) (k Key) {
	k.Prefix, _ = PrefixOf(addr)
	return k
}

// PrefixOf is what shares a limit with an address; false for what is no address.
func PrefixOf(addr netip.Addr) (netip.Prefix, bool) {
	addr = addr.Unmap().WithZone("")
	n := bits4
	if addr.Is6() {
		n = bits6
	}
	p, err := addr.Prefix(n)
	return p, err == nil && p.IsValid()
}

// Home is the ring position of what shares a limit; of a prefix it is that of the network around
// it, so that neighbours have one granter.
func Home(k Key) ring.Key {
	if k.Domain != "" {
		return ring.KeyOf([]byte("/apoidea/turns/" + k.Domain))
	}
	p, n := k.Prefix, home4
	if p.Addr().Is6() {
		n = home6
	}
	around, err := p.Addr().Prefix(n)
	if err != nil {
		around = p
	}
	return ring.KeyOf(append([]byte("/apoidea/addresses/"), Name(around)...))
}

// Name is how a prefix travels: its address's bytes and its length.
func Name(p netip.Prefix) []byte { return append(p.Addr().AsSlice(), byte(p.Bits())) } // at most 128

// ParseName reads a Name that a stranger sent.
func ParseName(name []byte) (netip.Prefix, error) {
	if len(name) == 0 {
		return netip.Prefix{}, fmt.Errorf("prefix of 0 bytes")
	}
	addr, ok := netip.AddrFromSlice(name[:len(name)-1])
	if ok {
		if p, same := PrefixOf(addr); same && p.Addr() == addr && p.Bits() == int(name[len(name)-1]) {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("prefix %x: want a /%d or a /%d", name[:min(len(name), 20)], bits4, bits6)
}
