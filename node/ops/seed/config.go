package seed

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/node/control"
)

// The profiles, named as in a peer's configuration.
const (
	profilePublic = "public"
	profileLab    = "lab"
)

// Config configures a seed. Start from DefaultConfig.
type Config struct {
	// Zone is the zone of this server; the peers are at _dnsaddr below it.
	Zone string
	// Names are names below the zone that also list peers: eu adds _dnsaddr.eu.ZONE.
	Names []string
	// NS are the name servers of the zone as delegated by the parent; empty: ns.ZONE.
	NS []string
	// Addresses are the addresses of this server, returned for name servers within the zone.
	Addresses []netip.Addr
	// Mailbox is the mail address of the zone's administrator; empty: hostmaster@ZONE.
	Mailbox string
	// Listen is the HOST:PORT for queries over UDP and TCP; the system chooses port 0.
	Listen string
	// Rate is the limit of UDP responses per second to a network (/24, /56).
	Rate int

	// Profile is public or lab: public allows only public addresses, and one peer per network (/16,
	// /32) in a response.
	Profile string
	// Network is the name of the ring.
	Network string
	// Bootstrap are multiaddrs of entry peers with /p2p, DNSSeed other seeds of the ring, DNSServer
	// their resolver; empty: the system's.
	Bootstrap, DNSSeed []string
	DNSServer          string // host:port
	// Every is the interval of visits of a peer that responds.
	Every time.Duration
	// Peers is the maximum number of peers.
	Peers int

	// Dir is the directory of the state.
	Dir string
	// Metrics is the loopback HOST:PORT for Prometheus; empty: none.
	Metrics string
	Version string // program version, sent to visited peers
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Listen: ":53", Rate: 20, Profile: profilePublic, Network: "main", Every: 5 * time.Minute, Peers: 10_000}
}

// Limits of the settings.
const (
	mostEvery = time.Hour
	mostPeers = 100_000
	mostRate  = 1_000_000
	mostNames = 16
)

// Validate returns an error that names the invalid flag.
func (c *Config) Validate() error {
	if err := c.ValidateZone(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return wrong("listen", c.Listen, "HOST:PORT, such as :53 or 192.0.2.7:53")
	}
	if err := c.ValidateRing(); err != nil {
		return err
	}
	switch {
	case c.Rate < 1 || c.Rate > mostRate:
		return wrong("rate", c.Rate, fmt.Sprintf("1 to %d", mostRate))
	case c.Every < c.leastEvery() || c.Every > mostEvery:
		return wrong("every", c.Every, fmt.Sprintf("%v to %v", c.leastEvery(), mostEvery))
	case c.Peers < MostGiven || c.Peers > mostPeers:
		return wrong("peers", c.Peers, fmt.Sprintf("%d to %d", MostGiven, mostPeers))
	case c.Dir == "":
		return wrong("dir", c.Dir, "a directory")
	}
	for _, ns := range c.nameServers() {
		if c.Profile == profilePublic && dns.IsSubDomain(dns.CanonicalName(c.Zone), ns) && len(c.Addresses) == 0 {
			return control.Usage(fmt.Sprintf("address: name server %s is in the zone and needs an address: set --address to this server's public address, or --ns to another name server", ns))
		}
	}
	if at, err := netip.ParseAddrPort(c.Metrics); c.Metrics != "" && (err != nil || !at.Addr().IsLoopback()) {
		return wrong("metrics", c.Metrics, "a loopback address, such as 127.0.0.1:9465; use a reverse proxy for access by other machines")
	}
	return nil
}

// ValidateRing validates the settings for finding the ring.
func (c *Config) ValidateRing() error {
	switch {
	case c.Profile != profilePublic && c.Profile != profileLab:
		return wrong("profile", c.Profile, "public or lab")
	case c.Network == "":
		return wrong("network", c.Network, "the name of a ring")
	default:
		return nil
	}
}

// ValidateZone validates the settings of the zone.
func (c *Config) ValidateZone() error {
	if !domain(c.Zone) {
		return wrong("zone", c.Zone, "a domain name, such as seeds.example.org")
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"name", c.Names}, {"ns", c.NS}} {
		if len(list.names) > mostNames {
			return wrong(list.flag, len(list.names), fmt.Sprintf("%d at most", mostNames))
		}
		for _, name := range list.names {
			if !domain(name) || list.flag == "name" && !domain(name+"."+c.Zone) {
				return wrong(list.flag, name, "a domain name")
			}
		}
	}
	if len(c.Addresses) > mostNames {
		return wrong("address", len(c.Addresses), fmt.Sprintf("%d at most", mostNames))
	}
	if c.Mailbox != "" {
		local, host, ok := strings.Cut(c.Mailbox, "@")
		if !ok || local == "" || strings.ContainsAny(local, `\" `) || !domain(host) {
			return wrong("mailbox", c.Mailbox, "a mail address, such as hostmaster@example.org")
		}
	}
	return nil
}

func wrong(flag string, value any, want string) error {
	return control.Usage(fmt.Sprintf("%s %q: must be %s", flag, fmt.Sprint(value), want))
}

// domain reports whether name is a valid host name with space for the _dnsaddr label.
func domain(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
	_, ok := dns.IsDomainName(dnsaddr + name)
	return ok && name != "" && name != "." && !strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(letters, r) })
}

// nameServers returns the name servers of the zone in canonical form.
func (c *Config) nameServers() []string {
	if len(c.NS) == 0 {
		return []string{"ns." + dns.CanonicalName(c.Zone)}
	}
	list := make([]string, len(c.NS))
	for i, ns := range c.NS {
		list[i] = dns.CanonicalName(ns)
	}
	return list
}

// mailbox returns the mail address as a domain name, with escaped dots in the first label (RFC
// 1035, 8).
func (c *Config) mailbox() string {
	local, host, ok := strings.Cut(c.Mailbox, "@")
	if !ok {
		return "hostmaster." + dns.CanonicalName(c.Zone)
	}
	return strings.ReplaceAll(local, ".", `\.`) + "." + dns.CanonicalName(host)
}

// leastEvery returns the minimum interval of visits: libp2p accepts one connection per address
// every five seconds, except from loopback.
func (c *Config) leastEvery() time.Duration {
	if c.Profile == profilePublic {
		return 5 * time.Second
	}
	return time.Second
}

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
