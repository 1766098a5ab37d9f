package p2p

import (
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Short returns the end of a peer's ID, short enough for display.
func Short(id peer.ID) string {
	s := id.String()
	return s[max(0, len(s)-8):]
}

// FirstIP returns the IP address of the first multiaddr that has one, preferring public ones.
func FirstIP(addrs []string) (first netip.Addr) {
	for _, s := range addrs {
		m, err := multiaddr.NewMultiaddr(s)
		if err != nil {
			continue
		}
		ip, err := manet.ToIP(m)
		if err != nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(ip)
		if ok && manet.IsPublicAddr(m) {
			return addr.Unmap()
		}
		if ok && !first.IsValid() {
			first = addr.Unmap()
		}
	}
	return first
}

// NameOf returns the ID of the peer with a stored identity.
func NameOf(identity []byte) (string, error) {
	key, err := UnmarshalIdentity(identity)
	if err != nil {
		return "", err
	}
	id, err := peer.IDFromPrivateKey(key)
	return id.String(), err
}
