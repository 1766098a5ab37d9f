package domain

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Of returns the registrable domain of a canonical host: its public suffix and one more label, or
// the name itself if it is a suffix or an address. The port is ignored. The result is a substring
// of host.
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

// Name returns a host without its port.
func Name(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// HasPort reports whether a host has a port other than its scheme's default.
func HasPort(host string) bool { return len(Name(host)) < len(host) }

// Plain reports whether a host needs no admission: it is its registrable domain itself, or www
// below it, at the scheme's default port. At most two such hosts exist, so they cannot form a trap,
// and most sites have no others: a crawl of many sites needs no requests.
func Plain(host string) bool {
	d := Of(host)
	return host == d || strings.TrimSuffix(host, d) == "www."
}

// Covers reports whether a host is a domain or below it.
func Covers(domain, host string) bool {
	rest, ok := strings.CutSuffix(Name(host), domain)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}
