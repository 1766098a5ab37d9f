package seed

import (
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// maxAddrs limits the addresses of a peer: that of its last response, and the last announced ones.
const maxAddrs = 8

// usable reports whether an address may be in a response: an IP address with a TCP or QUIC port, in
// the public profile a public one.
func usable(a ma.Multiaddr, public bool) bool {
	var codes []int
	ma.ForEach(a, func(c ma.Component) bool {
		codes = append(codes, c.Protocol().Code)
		return len(codes) < 4
	})
	if len(codes) == 0 || codes[0] != ma.P_IP4 && codes[0] != ma.P_IP6 {
		return false
	}
	tcp := len(codes) == 2 && codes[1] == ma.P_TCP
	quic := len(codes) == 3 && codes[1] == ma.P_UDP && codes[2] == ma.P_QUIC_V1
	return (tcp || quic) && (!public || manet.IsPublicAddr(a))
}

// ipOf returns the IP address of a multiaddr, zero if it has none.
func ipOf(text string) netip.Addr {
	a, err := ma.NewMultiaddr(text)
	if err != nil {
		return netip.Addr{}
	}
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// The prefix lengths of a network: the holder of one network may run many peers in it.
const (
	networkBits4 = 16
	networkBits6 = 32
)

// networkOf returns the network of which a response has at most one peer; in the lab profile, the
// address itself.
func networkOf(text string, public bool) string {
	ip := ipOf(text)
	if !public || !ip.IsValid() {
		return text
	}
	bits := networkBits6
	if ip.Is4() {
		bits = networkBits4
	}
	network, _ := ip.Prefix(bits) // fails only if bits exceed the address
	return network.String()
}
