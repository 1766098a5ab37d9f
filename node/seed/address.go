package seed

import (
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// maxAddrs of a peer are kept: the one at which it answered, and what was told last.
const maxAddrs = 8

// usable says whether an address may stand in an answer: an IP address and a port of TCP or QUIC,
// in public one that all can reach.
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

// ipOf is the IP address of a multiaddr, the zero one if it has none.
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

// The bits of an address that name its network: who holds one such network may hold many peers in
// it.
const (
	networkBits4 = 16
	networkBits6 = 32
)

// networkOf is the network of which an answer has one peer at most: in the lab, where all peers
// share one, the very address.
func networkOf(text string, public bool) string {
	ip := ipOf(text)
	if !public || !ip.IsValid() {
		return text
	}
	bits := networkBits6
	if ip.Is4() {
		bits = networkBits4
	}
	network, _ := ip.Prefix(bits) // fails for bits beyond the address only
	return network.String()
}
