package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/miekg/dns"
)

// dnsFamily has names that do not resolve. A good crawler takes "no such name" as final after one
// more try, retries failures a few times, and asks about a name once, not once a URL. Answers that
// break the protocol are in crawl/resolve: TestOddAnswers.
var dnsFamily = family{
	name: "dns",
	does: "500 names that do not exist, servers that fail or are silent, thousands of addresses",
	traps: map[string]trap{
		"page": {serve: func(x exchange) {
			var links []string
			for _, name := range numbered("absent%d", absentNames) {
				links = append(links, x.w.url(x.f.name, name, "/a"), x.w.url(x.f.name, name, "/b"))
			}
			x.own(links...)
		}},
		"servfail": {}, "silent": {}, "circle": {}, "wrongname": {},
		"many": {serve: func(x exchange) { x.own() }},
	},
	resolve: resolveDNS,
	within:  crawlWithin + crawlWithin/3,
	check: func(j *judge) {
		for _, name := range numbered("absent%d.dns.test.", absentNames) {
			if n := j.w.questions.get("A " + name); n > mostQuestions {
				j.blame("%s, which does not exist, was asked for %d times, bound %d", name, n, mostQuestions)
				break
			}
		}
		j.wants("many", "/")
	},
}

const (
	absentNames   = 500
	mostQuestions = 4 // two tries, each possibly by two peers
)

func resolveDNS(_ *world, name string, q dns.Question, m *dns.Msg) (*dns.Msg, bool) {
	switch {
	case strings.HasPrefix(name, "absent"):
		m.Rcode = dns.RcodeNameError
	case name == "servfail":
		m.Rcode = dns.RcodeServerFailure
	case name == "silent":
		return nil, true
	case name == "circle":
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: q.Name})
	case name == "wrongname":
		m.Answer = append(m.Answer, a("elsewhere.dns.test.", allowedAddr(1), 60))
	case name == "many":
		m.Compress = true // or they would not fit into a message
		for range 3000 {
			if q.Qtype == dns.TypeA {
				m.Answer = append(m.Answer, a(q.Name, allowedAddr(1), 60))
			}
		}
	default:
		return nil, false
	}
	return m, true
}

// guardFamily leads to addresses of this machine that the peer may not visit, in all ways an
// address can be written, and by names that resolve to such an address, at once or later. Listeners
// at those addresses record connections. A good crawler checks the address it is about to dial,
// each time, and dials the one it checked; a probe is a connection too.
var guardFamily = family{
	name:     "guard",
	does:     "links, redirects, sitemaps and names that lead to addresses of this machine which are not allowed",
	quick:    true,
	anyScope: true,
	traps: map[string]trap{
		"links":     {serve: func(x exchange) { x.page(x.name, badURLs(x.w)...) }},
		"redirects": {serve: guardRedirects},
		"robots": {robots: func(x exchange) {
			http.Redirect(x.rw, x.r, badURLs(x.w)[0], http.StatusFound)
		}},
		"sitemap": {robots: func(x exchange) {
			x.write(plainType, defaultRobots+"Sitemap: "+strings.Join(badURLs(x.w), "\nSitemap: ")+"\n")
		}},
		"base": {serve: func(x exchange) {
			bad := badURLs(x.w)
			x.write(htmlType, `<base href="`+bad[0]+`"><a href="x">x</a><link rel=canonical href="`+bad[3]+`"><meta http-equiv=refresh content="0;url=`+bad[5]+`">`)
		}},
		"frames": {serve: func(x exchange) {
			bad := badURLs(x.w)
			x.write(htmlType, `<iframe src="`+bad[0]+`"></iframe><frame src="`+bad[4]+`"><embed src="`+bad[6]+`"><form action="`+bad[7]+`"></form><area href="`+bad[8]+`">`)
		}},
		"rebind": {serve: func(x exchange) {
			if x.r.URL.Path == "/" { // each page comes after the name's time to live
				x.page(x.name, "/1", "/2", "/3", x.w.url(x.f.name, "rebind2", "/"), x.w.url(x.f.name, "rebind3", "/"))
				return
			}
			x.rw.Header().Set("Connection", "close")
			x.own()
		}},
		"mixed": {serve: func(x exchange) { x.own() }},
		"named": {}, "mapped": {}, "six": {}, "zero": {}, "alias": {},
	},
	resolve: resolveGuard,
	check:   func(j *judge) { j.wants("mixed", "/") }, // which has an address that is allowed
}

// badAddresses are ways to write addresses at which the world's other listeners wait.
var badAddresses = []string{
	"127.0.0.1", "localhost", "a.localhost", "localhost.", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "017700000001", "0", "0.0.0.0",
	"[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "127.2.0.1", "２１３０７０６４３３", "127。0。0。1", "%31%32%37.0.0.1",
	"user@127.0.0.1", "a.test@127.0.0.1", "0x7f.0x0.0x0.0x1", "127.0.0.1.", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
}

func badURLs(w *world) (urls []string) {
	for _, b := range badAddresses {
		urls = append(urls, fmt.Sprintf("http://%s:%d/stolen", b, w.port))
	}
	return append(urls, fmt.Sprintf("https://127.0.0.1:%d/stolen", w.port+1))
}

func guardRedirects(x exchange) {
	bad := badURLs(x.w)
	if x.r.URL.Path == "/" {
		x.page(x.name, numbered("/to/%d", len(bad))...)
		return
	}
	x.rw.Header()["Location"] = []string{bad[x.number("/to/%d")%len(bad)]}
	x.rw.WriteHeader(http.StatusMovedPermanently)
}

func resolveGuard(w *world, name string, q dns.Question, m *dns.Msg) (*dns.Msg, bool) {
	good := allowedAddr(hashOf(name)).String()
	if strings.HasPrefix(name, "rebind") && w.questions.get("A "+strings.ToLower(q.Name)) > 1 {
		good = "127.2.0.1"
	}
	addrs, ok := map[string][]string{
		"named":   {"127.0.0.1"},
		"zero":    {"0.0.0.0"},
		"mixed":   {"127.2.0.1", good, "::1"},
		"six":     {"::1"},
		"mapped":  {"::ffff:127.0.0.1"},
		"alias":   {"127.0.0.1"},
		"rebind":  {good},
		"rebind2": {good},
		"rebind3": {good},
	}[name]
	owner := q.Name
	if name == "alias" {
		owner = "localhost."
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: owner})
	}
	for _, addr := range addrs {
		six := strings.Contains(addr, ":")
		switch {
		case q.Qtype == dns.TypeA && !six:
			m.Answer = append(m.Answer, a(owner, net.ParseIP(addr), 0))
		case q.Qtype == dns.TypeAAAA && six:
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeAAAA, Class: dns.ClassINET}, AAAA: net.ParseIP(addr)})
		}
	}
	return m, ok
}
