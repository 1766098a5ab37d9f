package p2p

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// ListenAll stands for all interfaces of the machine, over TCP and QUIC, at any free port; with a
// port behind a colon, as in all:4001, at that one.
const ListenAll = "all"

// ListenOn turns what is to be listened on, a multiaddr or ListenAll, into multiaddrs. IPv6 is left
// out of all interfaces where the machine has none.
func ListenOn(text string) ([]string, error) {
	if addr, err := ma.NewMultiaddr(text); err == nil {
		return []string{addr.String()}, nil
	}
	word, port, fixed := strings.Cut(text, ":")
	number := uint64(0)
	var err error
	if fixed {
		number, err = strconv.ParseUint(port, 10, 16)
	}
	if word != ListenAll || err != nil {
		return nil, fmt.Errorf("listen %q: must be a multiaddr such as /ip4/0.0.0.0/tcp/4001, all or all:PORT", text)
	}
	return everywhere(uint16(number)), nil
}

// everywhere is every interface, over TCP and QUIC, at a port.
func everywhere(port uint16) (addrs []string) {
	anyOf := []string{"/ip4/0.0.0.0"}
	if hasIPv6() {
		anyOf = append(anyOf, "/ip6/::")
	}
	for _, ip := range anyOf {
		addrs = append(addrs, fmt.Sprintf("%s/tcp/%d", ip, port), fmt.Sprintf("%s/udp/%d/quic-v1", ip, port))
	}
	return addrs
}

// hasIPv6 says whether a socket of IPv6 can be had: containers and old kernels may have none.
func hasIPv6() bool {
	c, err := net.ListenPacket("udp6", "[::]:0") //nolint:noctx // a socket of this machine, closed at once
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Elsewhere leaves, of multiaddrs, those that other machines may dial: none of loopback, and none
// that holds on one link only.
func Elsewhere(addrs []string) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(text string) bool {
		addr, err := ma.NewMultiaddr(text)
		return err != nil || onlyHere(addr)
	})
}

func onlyHere(addr ma.Multiaddr) bool {
	return manet.IsIPLoopback(addr) || manet.IsIP6LinkLocal(addr) || manet.IsIPUnspecified(addr)
}

// labAddrs tells others where a peer of the lab is: at loopback only if it is nowhere else, since
// to other machines that is themselves.
func labAddrs(addrs []ma.Multiaddr) []ma.Multiaddr {
	if outside := slices.DeleteFunc(slices.Clone(addrs), onlyHere); len(outside) > 0 {
		return outside
	}
	return addrs
}
