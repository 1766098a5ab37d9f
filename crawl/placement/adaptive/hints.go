package adaptive

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// hint is a kind of what two sites may share, the most telling first.
type hint int

const (
	sameAddress hint = iota
	sameNetwork
	sameSubnet // /24, /48
	sameSite   // /20, /40: what one place usually announces
	sameOrgHere
	sameBlock // /16, /32
	sameOrg
	sameCountry
	sameRegistry // /8, /20
	anywhere
	hintKinds
)

// prefixBits are the lengths of the kinds that are prefixes, of IPv4 and of IPv6.
var prefixBits = [hintKinds]struct{ v4, v6 int }{
	sameAddress: {32, 128}, sameSubnet: {24, 48}, sameSite: {20, 40}, sameBlock: {16, 32}, sameRegistry: {8, 20},
}

// hints are what a site may share with others: a number for each kind, equal where they share it, 0
// where the site has none.
type hints [hintKinds]uint64

// hintsOf an address; the zero address only is somewhere.
func hintsOf(addr netip.Addr, atlas Atlas) (h hints) {
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
			p, _ := addr.Prefix(n) // of a valid address and few bits
			h[kind] = number(hint(kind), p.String())
		}
	}
	if atlas == nil {
		return h
	}
	f := atlas.Facts(addr)
	if f.Network.IsValid() {
		h[sameNetwork] = number(sameNetwork, f.Network.String())
	}
	if f.Org != "" {
		h[sameOrg] = number(sameOrg, f.Org)
	}
	if f.Country != "" {
		h[sameCountry] = number(sameCountry, f.Country)
		if f.Org != "" {
			h[sameOrgHere] = number(sameOrgHere, f.Country+f.Org)
		}
	}
	return h
}

// number is never 0.
func number(kind hint, text string) uint64 {
	sum := fnv.New64a()
	sum.Write(binary.AppendUvarint(nil, uint64(kind))) // not negative
	sum.Write([]byte(text))
	return sum.Sum64() | 1
}
