package node

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
)

// listenOn converts Listen into multiaddrs, given those of the last run; empty leaves the choice to
// the profile. own means that the ports are this peer's choice: those of the last run, so that
// others find it again; if they are in use any others will do.
func (c *Config) listenOn(last []string) (addrs []string, own bool) {
	switch {
	case len(c.Listen) == 0 && c.MDNS && len(p2p.Elsewhere(last)) == 0 && !slices.ContainsFunc(last, isEverywhere):
		return mustListenOn(p2p.ListenAll), true // a peer that uses mDNS must be reachable on the local network
	case len(c.Listen) == 0:
		return c.standing(last), true
	case len(c.Listen) == 1 && c.Listen[0] == p2p.ListenAll:
		if before := slices.DeleteFunc(slices.Clone(last), func(a string) bool { return !isEverywhere(a) }); len(before) > 0 {
			return before, true
		}
		return mustListenOn(p2p.ListenAll), true
	}
	for _, text := range c.Listen {
		addrs = append(addrs, mustListenOn(text)...)
	}
	return addrs, false
}

// isEverywhere reports whether a multiaddr is of all interfaces.
func isEverywhere(addr string) bool {
	return strings.HasPrefix(addr, "/ip4/0.0.0.0/") || strings.HasPrefix(addr, "/ip6/::/")
}

// mustListenOn is p2p.ListenOn for validated input.
func mustListenOn(text string) []string {
	addrs, err := p2p.ListenOn(text)
	if err != nil {
		return []string{text} // listening returns the error
	}
	return addrs
}

// listens names the first invalid listen address.
func listens(addrs []string) error {
	for _, a := range addrs {
		if _, err := p2p.ListenOn(a); err != nil {
			return control.Usage(err.Error())
		}
	}
	return nil
}

// DialAddrs returns those of a peer's own addresses that other machines may dial, best first; if
// there are none, those for peers of this machine.
func DialAddrs(own []string) (addrs []string, elsewhere bool) {
	addrs = p2p.Elsewhere(own)
	if elsewhere = len(addrs) > 0; !elsewhere {
		addrs = slices.Clone(own)
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return cmp.Compare(dialOrder(a), dialOrder(b)) })
	return addrs, elsewhere
}

// dialOrder returns the sort order of an address for dialing: IPv4 before IPv6 and TCP before QUIC,
// since more networks pass them; relays last.
func dialOrder(addr string) (n int) {
	for i, part := range []string{"/ip6/", "/quic-v1", "/p2p-circuit"} {
		if strings.Contains(addr, part) {
			n += 1 << i
		}
	}
	return n
}

// cannotBeDialled reports an entry peer on another machine while this one listens on loopback only:
// the ring would have an unreachable member. Entry peers given by name are not checked.
func cannotBeDialled(own, entries []string) error {
	if len(p2p.Elsewhere(own)) > 0 {
		return nil
	}
	for _, e := range entries {
		info, err := peer.AddrInfoFromString(e)
		if err != nil || len(info.Addrs) == 0 || manet.IsIPLoopback(info.Addrs[0]) {
			continue
		}
		if ip, err := manet.ToIP(info.Addrs[0]); err == nil && !isOurs(ip) {
			return control.Usage(fmt.Sprintf("bootstrap %s: the peer is on another machine and cannot dial this one, which listens on loopback only: add --listen all", e))
		}
	}
	return nil
}

// isOurs reports whether an address is one of this machine.
func isOurs(ip net.IP) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
