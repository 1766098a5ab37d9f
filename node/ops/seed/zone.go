package seed

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

const (
	// lifetime is the TTL of peers in seconds: short, so that joining peers behind one resolver get
	// different peers, and failed peers disappear.
	lifetime = 60
	// authorityLifetime is the TTL of SOA, NS and address records, in seconds.
	authorityLifetime = 3600
	// mostUDP is the maximum size of a datagram, without fragmentation (DNS flag day 2020). Without
	// EDNS the limit is dns.MinMsgSize.
	mostUDP = 1232
	// dnsaddr is the label at which multiaddr resolves /dnsaddr names.
	dnsaddr = "_dnsaddr."
)

// zone answers queries. It is stateless.
type zone struct {
	name  string
	soa   *dns.SOA
	ns    []string
	hosts map[string][]netip.Addr // name servers within this zone
	peers map[string]bool         // names with peers
	nodes []string                // all names, without empty non-terminals
	draw  func() []string
}

// newZone returns the zone of a valid configuration.
func newZone(c *Config, serial uint32, draw func() []string) *zone {
	z := &zone{name: dns.CanonicalName(c.Zone), draw: draw, hosts: make(map[string][]netip.Addr), peers: make(map[string]bool)}
	z.nodes = []string{z.name}
	for _, sub := range append([]string{""}, c.Names...) {
		name := z.name
		if sub != "" {
			name = dns.CanonicalName(sub) + name
		}
		z.peers[dnsaddr+name] = true
		z.nodes = append(z.nodes, dnsaddr+name)
	}
	for _, name := range c.nameServers() {
		z.ns = append(z.ns, name)
		if dns.IsSubDomain(z.name, name) {
			z.hosts[name] = c.Addresses
			z.nodes = append(z.nodes, name)
		}
	}
	z.soa = &dns.SOA{
		Hdr: z.header(z.name, dns.TypeSOA, lifetime), Ns: z.ns[0], Mbox: c.mailbox(), Serial: serial,
		Refresh: 7200, Retry: 900, Expire: 1209600, Minttl: lifetime,
	}
	return z
}

func (z *zone) header(name string, kind uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// accept checks the header of a message: only a plain query is decoded.
func accept(h dns.Header) dns.MsgAcceptAction {
	const response, opcode = 1 << 15, 0xF << 11
	switch {
	case h.Bits&response != 0:
		return dns.MsgIgnore
	case h.Bits&opcode != 0: // QUERY is 0
		return dns.MsgRejectNotImplemented
	case h.Qdcount != 1 || h.Ancount != 0 || h.Nscount > 1 || h.Arcount > 2: // IXFR has one authority record and is refused by type
		return dns.MsgReject
	default:
		return dns.MsgAccept
	}
}

// answer answers a message that passed accept, with at most most bytes: dns.MaxMsgSize over TCP,
// less over UDP.
func (z *zone) answer(req *dns.Msg, most int) *dns.Msg {
	m := new(dns.Msg).SetReply(req)
	m.Compress = true
	opt := req.IsEdns0()
	if opt != nil {
		m.SetEdns0(mostUDP, false)
		if opt.Version() != 0 {
			return m.SetRcode(req, dns.RcodeBadVers)
		}
	}
	if len(req.Question) != 1 { // a header alone is decoded without a question
		return m.SetRcode(req, dns.RcodeFormatError)
	}
	q := req.Question[0]
	name := dns.CanonicalName(q.Name)
	if q.Qclass != dns.ClassINET || q.Qtype >= dns.TypeTKEY && q.Qtype <= dns.TypeANY || !dns.IsSubDomain(z.name, name) {
		m.Rcode = dns.RcodeRefused // other zones, zone transfers, and ANY (RFC 8482)
		return m
	}
	m.Authoritative = true
	z.fill(m, q, name, most)
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{dns.Copy(z.soa)}
		if !slices.ContainsFunc(z.nodes, func(node string) bool { return dns.IsSubDomain(name, node) }) { // empty non-terminals exist
			m.Rcode = dns.RcodeNameError
		}
	}
	m.Truncate(most)
	return m
}

// size returns the maximum response size of a UDP query.
func size(req *dns.Msg) int {
	if opt := req.IsEdns0(); opt != nil {
		return min(max(int(opt.UDPSize()), dns.MinMsgSize), mostUDP)
	}
	return dns.MinMsgSize
}

// fill adds the matching records to a response.
func (z *zone) fill(m *dns.Msg, q dns.Question, name string, most int) {
	switch {
	case q.Qtype == dns.TypeTXT && z.peers[name]:
		for _, rr := range records(q.Name, z.draw()) {
			m.Answer = append(m.Answer, rr)
			if m.Len() > most { // fewer peers are still a complete answer
				m.Answer = m.Answer[:len(m.Answer)-1]
				break
			}
		}
	case q.Qtype == dns.TypeSOA && name == z.name:
		m.Answer = []dns.RR{dns.Copy(z.soa)}
	case q.Qtype == dns.TypeNS && name == z.name:
		for _, ns := range z.ns {
			m.Answer = append(m.Answer, &dns.NS{Hdr: z.header(q.Name, dns.TypeNS, authorityLifetime), Ns: ns})
			m.Extra = append(z.addresses(ns, ns, dns.TypeA), append(z.addresses(ns, ns, dns.TypeAAAA), m.Extra...)...)
		}
	case q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA:
		m.Answer = z.addresses(name, q.Name, q.Qtype)
	}
}

// addresses returns the records of a name server of this zone, with the name as queried.
func (z *zone) addresses(name, spelled string, kind uint16) (list []dns.RR) {
	for _, a := range z.hosts[name] {
		switch {
		case kind == dns.TypeA && a.Is4():
			list = append(list, &dns.A{Hdr: z.header(spelled, kind, authorityLifetime), A: a.AsSlice()})
		case kind == dns.TypeAAAA && a.Is6():
			list = append(list, &dns.AAAA{Hdr: z.header(spelled, kind, authorityLifetime), AAAA: a.AsSlice()})
		}
	}
	return list
}

// records returns the TXT records of peers, given as multiaddrs with /p2p.
func records(name string, peers []string) []dns.RR {
	list := make([]dns.RR, len(peers))
	for i, p := range peers {
		list[i] = &dns.TXT{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: lifetime},
			Txt: []string{txt(p)},
		}
	}
	return list
}

// txt returns the TXT data of a peer.
func txt(peer string) string { return "dnsaddr=" + peer }
