package permit

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// Chunk is the longest validity of permits (design, section 6).
	Chunk = time.Minute
	// FallbackShare is the number of workers that together stay within the limit without a granter. A
	// host's worker is in the leaf set of its owner, some sixteen peers and four attached ones.
	FallbackShare = 20
	// MaxWant bounds one request, and MaxLimit the limit of a prefix in requests per chunk.
	MaxWant  = 4096
	MaxLimit = 1 << 20 // requests per chunk

	// MaxDelay bounds the delay between the time slices of two workers at a domain.
	MaxDelay = time.Hour

	bits4, bits6 = 32, 64
	home4, home6 = 24, 48
)

// Key is the unit of a limit: a prefix, or a registrable domain. The zero Key is unlimited.
type Key struct {
	Prefix netip.Prefix // of addresses
	Domain string       // if Prefix is unset
}

// Address returns the Key of an address; the zero Key for an invalid one.
func Address(addr netip.Addr) (k Key) {
	k.Prefix, _ = PrefixOf(addr)
	return k
}

// PrefixOf returns the prefix of an address; false for an invalid one.
func PrefixOf(addr netip.Addr) (netip.Prefix, bool) {
	addr = addr.Unmap().WithZone("")
	n := bits4
	if addr.Is6() {
		n = bits6
	}
	p, err := addr.Prefix(n)
	return p, err == nil && p.IsValid()
}

// Home returns the ring position of a Key; for a prefix, that of the network around it, so that
// neighboring prefixes have one granter.
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

// Name returns the wire form of a prefix: its address bytes and its length.
func Name(p netip.Prefix) []byte { return append(p.Addr().AsSlice(), byte(p.Bits())) } // at most 128

// ParseName parses an untrusted Name.
func ParseName(name []byte) (netip.Prefix, error) {
	if len(name) == 0 {
		return netip.Prefix{}, fmt.Errorf("empty prefix")
	}
	addr, ok := netip.AddrFromSlice(name[:len(name)-1])
	if ok {
		if p, same := PrefixOf(addr); same && p.Addr() == addr && p.Bits() == int(name[len(name)-1]) {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("prefix %x: want a /%d or a /%d", name[:min(len(name), 20)], bits4, bits6)
}
