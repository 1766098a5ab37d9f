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

// ListenAll means all interfaces, TCP and QUIC, any free port; all:4001 sets the port.
const ListenAll = "all"

// ListenOn converts a listen argument, a multiaddr or ListenAll, into multiaddrs. All interfaces
// exclude IPv6 if the machine lacks it.
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
		return nil, fmt.Errorf("listen %q: expected a multiaddr such as /ip4/0.0.0.0/tcp/4001, all or all:PORT", text)
	}
	return everywhere(uint16(number)), nil
}

// everywhere returns every interface, over TCP and QUIC, at a port.
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

// hasIPv6 reports whether IPv6 sockets work: containers and old kernels may lack them.
func hasIPv6() bool {
	c, err := net.ListenPacket("udp6", "[::]:0") //nolint:noctx // a socket of this machine, closed at once
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Elsewhere returns the multiaddrs that other machines may dial: no loopback, no link-local.
func Elsewhere(addrs []string) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(text string) bool {
		addr, err := ma.NewMultiaddr(text)
		return err != nil || onlyHere(addr)
	})
}

func onlyHere(addr ma.Multiaddr) bool {
	return manet.IsIPLoopback(addr) || manet.IsIP6LinkLocal(addr) || manet.IsIPUnspecified(addr)
}

// labAddrs returns the addresses to advertise in a lab: loopback only if there is no other, since
// it is useless to other machines.
func labAddrs(addrs []ma.Multiaddr) []ma.Multiaddr {
	if outside := slices.DeleteFunc(slices.Clone(addrs), onlyHere); len(outside) > 0 {
		return outside
	}
	return addrs
}
