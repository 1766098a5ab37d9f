package fetch

import "net/netip"

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// notPublic4 are the IPv4 blocks of the IANA special-purpose registry that are not globally
// reachable, and addresses of cloud metadata services, which return secrets.
var notPublic4 = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by carriers (CGNAT); a cloud's metadata at 100.100.100.200
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local; metadata at 169.254.169.254
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4, deprecated
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast
	"168.63.129.16/32",
)

// notPublic6 are the blocks within 2000::/3 that are not globally reachable.
var notPublic6 = prefixes(
	"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
	"2001:db8::/32", // documentation
	"3fff::/20",     // documentation
)

var (
	globalUnicast6 = netip.MustParsePrefix("2000::/3")
	sixToFour      = netip.MustParsePrefix("2002::/16")
	nat64          = netip.MustParsePrefix("64:ff9b::/96")
)

// permits reports whether the guard admits an address.
func (c *Config) permits(addr netip.Addr) bool {
	switch {
	case addr.Zone() != "":
		return false // scoped to one machine
	case c.AllowPrivate || Public(addr):
		return true
	}
	return contains(c.AllowPrefixes, addr) || contains(c.AllowPrefixes, embedded(addr))
}

// embedded returns the IPv4 address that is embedded in an IPv6 address (mapped, NAT64, 6to4), else
// the address itself.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:]))
	default:
		return addr
	}
}

// Public reports whether an address may be dialed by a peer that crawls the public internet. An
// IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4) is classified by that.
func Public(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return !contains(notPublic4, addr)
	}
	if v4 := embedded(addr); v4.Is4() {
		return Public(v4)
	}
	return globalUnicast6.Contains(addr) && !contains(notPublic6, addr)
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
