package seed

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/node/control"
)

// The profiles, by the names that a peer's configuration has for them.
const (
	profilePublic = "public"
	profileLab    = "lab"
)

// Config of a seed. Start from DefaultConfig.
type Config struct {
	// Zone is the name that this server answers for; the peers are at _dnsaddr below it.
	Zone string
	// Names below the zone that have peers of their own name too: eu tells the same of
	// _dnsaddr.eu.ZONE.
	Names []string
	// NS are the names of the name servers of the zone, as its parent delegates to; empty: ns.ZONE.
	NS []string
	// Addresses are those of this server, which are answered for name servers with names in the
	// zone.
	Addresses []netip.Addr
	// Mailbox is the mail address of whoever is responsible for the zone; empty: hostmaster@ZONE.
	Mailbox string
	// Listen is where questions come in over UDP and TCP, HOST:PORT; port 0 lets the system choose.
	Listen string
	// Rate is how many answers a second go to a network (/24, /56) over UDP.
	Rate int

	// Profile is public or lab: whether public addresses only are given, and one peer of a network
	// (/16, /32) in an answer.
	Profile string
	// Network is the name of the ring.
	Network string
	// Bootstrap are multiaddrs of entry peers with /p2p, DNSSeed other seeds of the ring, and
	// DNSServer the resolver for those; empty: the system's.
	Bootstrap, DNSSeed []string
	DNSServer          string // host:port
	// Every is how often a peer that answers is visited.
	Every time.Duration
	// Peers is how many are kept.
	Peers int

	// Dir is where the state is kept.
	Dir string
	// Metrics is an address of loopback, HOST:PORT, where Prometheus is answered; empty: nowhere.
	Metrics string
	Version string // of this program, told to the peers visited
}

// DefaultConfig has all that has a default.
func DefaultConfig() Config {
	return Config{Listen: ":53", Rate: 20, Profile: profilePublic, Network: "main", Every: 5 * time.Minute, Peers: 10_000}
}

// Bounds on what may be set.
const (
	mostEvery = time.Hour
	mostPeers = 100_000
	mostRate  = 1_000_000
	mostNames = 16
)

// Validate says what is wrong, by the names that the flags have.
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
			return control.Usage(fmt.Sprintf("address: %s is in the zone, so that nobody else can say where it is: name this server's public address with --address, or another name server with --ns", ns))
		}
	}
	if at, err := netip.ParseAddrPort(c.Metrics); c.Metrics != "" && (err != nil || !at.Addr().IsLoopback()) {
		return wrong("metrics", c.Metrics, "an address of loopback, such as 127.0.0.1:9465; a proxy in front may let others in")
	}
	return nil
}

// ValidateRing says what is wrong with how the ring is found.
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

// ValidateZone says what is wrong with the names.
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

// domain says whether a text is a name of hosts, with room for the label of the peers before it.
func domain(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
	_, ok := dns.IsDomainName(dnsaddr + name)
	return ok && name != "" && name != "." && !strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(letters, r) })
}

// nameServers are the names of the name servers of the zone, in canonical form.
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

// mailbox is the mail address as a name, whose first label may have dots (RFC 1035, 8).
func (c *Config) mailbox() string {
	local, host, ok := strings.Cut(c.Mailbox, "@")
	if !ok {
		return "hostmaster." + dns.CanonicalName(c.Zone)
	}
	return strings.ReplaceAll(local, ".", `\.`) + "." + dns.CanonicalName(host)
}

// leastEvery is how often a peer may be visited: libp2p lets one address have a connection each
// five seconds in the long run, those of loopback apart.
func (c *Config) leastEvery() time.Duration {
	if c.Profile == profilePublic {
		return 5 * time.Second
	}
	return time.Second
}
