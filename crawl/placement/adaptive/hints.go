package adaptive

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// hint is a property that two sites may share, the strongest first.
type hint int

const (
	sameAddress  hint = iota
	sameSubnet        // /24, /48
	sameSite          // /20, /40: typical announcement of one location
	sameBlock         // /16, /32
	sameRegistry      // /8, /20
	anywhere
	hintKinds
)

// prefixBits are the prefix lengths of hints, of IPv4 and of IPv6.
var prefixBits = [hintKinds]struct{ v4, v6 int }{
	sameAddress: {32, 128}, sameSubnet: {24, 48}, sameSite: {20, 40}, sameBlock: {16, 32}, sameRegistry: {8, 20},
}

// hints are the properties of a site: a number for each kind, equal where sites share it, 0 where
// the site has none.
type hints [hintKinds]uint64

// hintsOf returns the hints of an address; the zero address has only the most general one.
func hintsOf(addr netip.Addr) (h hints) {
	h[anywhere] = 1
	if !addr.IsValid() {
		return h
	}
	addr = addr.Unmap().WithZone("")
	for kind, bits := range prefixBits {
		n := bits.v6
		if addr.Is4() {
			n = bits.v4
		}
		if n > 0 {
			p, _ := addr.Prefix(n) // valid address and length
			h[kind] = number(hint(kind), p.String())
		}
	}
	return h
}

// number returns a hash that is never 0.
func number(kind hint, text string) uint64 {
	sum := fnv.New64a()
	sum.Write(binary.AppendUvarint(nil, uint64(kind))) // not negative
	sum.Write([]byte(text))
	return sum.Sum64() | 1
}
