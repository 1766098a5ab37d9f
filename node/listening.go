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

// ListenOn turns Listen into multiaddrs, given those of the last run; none leaves the choice to the
// profile. own says that the ports are this peer's choice: they are those of the last run, so that
// others find it again, and if they are taken any others will do.
func (c *Config) ListenOn(last []string) (addrs []string, own bool) {
	switch {
	case len(c.Listen) == 0 && c.MDNS && len(p2p.Elsewhere(last)) == 0 && !slices.ContainsFunc(last, isEverywhere):
		return mustListenOn(p2p.ListenAll), true // who looks for others nearby is to be found there
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

// isEverywhere says whether a multiaddr is of all interfaces.
func isEverywhere(addr string) bool {
	return strings.HasPrefix(addr, "/ip4/0.0.0.0/") || strings.HasPrefix(addr, "/ip6/::/")
}

// mustListenOn is p2p.ListenOn of what Validate has let pass.
func mustListenOn(text string) []string {
	addrs, err := p2p.ListenOn(text)
	if err != nil {
		return []string{text} // the network says what is wrong with it
	}
	return addrs
}

// listens names the first that is nothing to listen on.
func listens(addrs []string) error {
	for _, a := range addrs {
		if _, err := p2p.ListenOn(a); err != nil {
			return control.Usage(err.Error())
		}
	}
	return nil
}

// DialAddrs are, of a peer's own addresses, those that other machines may dial, best first; if
// there are none, those for peers of this machine.
func DialAddrs(own []string) (addrs []string, elsewhere bool) {
	addrs = p2p.Elsewhere(own)
	if elsewhere = len(addrs) > 0; !elsewhere {
		addrs = slices.Clone(own)
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return cmp.Compare(dialOrder(a), dialOrder(b)) })
	return addrs, elsewhere
}

// dialOrder is how far behind the others an address is to be tried: IPv4 before IPv6 and TCP before
// QUIC, since more networks let them through; relays last.
func dialOrder(addr string) (n int) {
	for i, part := range []string{"/ip6/", "/quic-v1", "/p2p-circuit"} {
		if strings.Contains(addr, part) {
			n += 1 << i
		}
	}
	return n
}

// cannotBeDialled says that an entry peer is on another machine while this one listens on loopback
// only, which every machine takes for itself: the ring would have a member that nobody can ask.
// Entry peers that are given by name are not judged.
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
			return control.Usage(fmt.Sprintf("bootstrap %s: that peer is on another machine, and this one listens on loopback only, where nobody there can dial it: add --listen all", e))
		}
	}
	return nil
}

// isOurs says whether an address is one of this machine.
func isOurs(ip net.IP) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
