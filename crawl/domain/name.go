package domain

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Of is the registrable domain of a host in canonical form: its public suffix and one label more,
// and the name itself where that is a suffix or an address. The port counts for nothing. The result
// is a part of host.
func Of(host string) string {
	name := Name(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

// Name is a host without its port.
func Name(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// HasPort says whether a host is at a port that is not its scheme's own.
func HasPort(host string) bool { return len(Name(host)) < len(host) }

// Plain says that a host needs no admission: it is its registrable domain itself, or www below it,
// at the scheme's own port. There are two of these at most, so no trap is made of them, and most
// sites have no other: a crawl of many sites asks nobody.
func Plain(host string) bool {
	d := Of(host)
	return host == d || strings.TrimSuffix(host, d) == "www."
}

// Covers says whether a host is a domain or below it.
func Covers(domain, host string) bool {
	rest, ok := strings.CutSuffix(Name(host), domain)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}
