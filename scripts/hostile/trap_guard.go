package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/miekg/dns"
)

// Ways to addresses that are not allowed.
//
// The trap: links, redirects, sitemaps, frames, bases and a robots.txt's redirect to addresses of
// this machine that the peer was not told to visit, written in all ways an address can be written;
// names that resolve to such an address, to one of each kind, now to the one and then to the other,
// by IPv6, mapped or not. Listeners wait at those addresses and note whoever connects.
//
// A good crawler judges the address it is about to dial, each time, and dials what it judged; a
// probe of the way there is a connection too.
var guardFamily = family{
	name:        "guard",
	does:        "links, redirects, sitemaps and names that lead to addresses of this machine which are not allowed",
	quick:       true,
	needsPrefix: true,
	seeds: func(w *world) []string {
		return w.urls("guard", "links", "redirects", "robots", "sitemap", "named", "mixed", "rebind", "mapped", "six", "zero", "alias", "base", "frames")
	},
	resolve:   resolveGuard,
	ownRobots: true,
	serve:     serveGuard,
	check:     func(j *judge) { j.wants("mixed", "/") }, // which has an address that is allowed
}

// badAddresses are ways to write addresses at which the world's other listeners wait.
func badAddresses() []string {
	return []string{
		"127.0.0.1", "localhost", "a.localhost", "localhost.", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "017700000001", "0", "0.0.0.0",
		"[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "127.2.0.1", "２１３０７０６４３３", "127。0。0。1", "%31%32%37.0.0.1",
		"user@127.0.0.1", "a.test@127.0.0.1", "0x7f.0x0.0x0.0x1", "127.0.0.1.", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
	}
}

func badURLs(w *world) []string {
	var urls []string
	for _, b := range badAddresses() {
		urls = append(urls, fmt.Sprintf("http://%s:%d/stolen", b, w.port))
	}
	return append(urls, fmt.Sprintf("https://127.0.0.1:%d/stolen", w.port+1))
}

func serveGuard(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	bad := badURLs(w)
	if r.URL.Path == "/robots.txt" {
		switch name {
		case "robots":
			http.Redirect(rw, r, bad[0], http.StatusFound)
		case "sitemap":
			_, _ = io.WriteString(rw, defaultRobots+"Sitemap: "+strings.Join(bad, "\nSitemap: ")+"\n")
		default:
			_, _ = io.WriteString(rw, defaultRobots)
		}
		return
	}
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/to/%d", &n); err == nil && n < len(bad) {
		rw.Header()["Location"] = []string{bad[n]}
		rw.WriteHeader(http.StatusMovedPermanently)
		return
	}
	switch name {
	case "links":
		writePage(rw, page(name, bad...))
	case "redirects":
		writePage(rw, page(name, numbered("/to/%d", len(bad))...))
	case "base":
		writePage(rw, `<base href="`+bad[0]+`"><a href="x">x</a><link rel=canonical href="`+bad[3]+`"><meta http-equiv=refresh content="0;url=`+bad[5]+`">`)
	case "frames":
		writePage(rw, `<iframe src="`+bad[0]+`"></iframe><frame src="`+bad[4]+`"><embed src="`+bad[6]+`"><form action="`+bad[7]+`"></form><area href="`+bad[8]+`">`)
	case "rebind":
		if r.URL.Path == "/" { // each page comes after the name has been believed for as long as it asked
			writePage(rw, page(name, "/1", "/2", "/3", w.url("guard", "rebind2", "/"), w.url("guard", "rebind3", "/")))
			return
		}
		rw.Header().Set("Connection", "close")
		writePage(rw, page(r.URL.Path))
	default:
		writePage(rw, page(r.Host+r.URL.Path))
	}
}

func resolveGuard(w *world, name string, q dns.Question, m *dns.Msg) *dns.Msg {
	add := func(qtype uint16, ip string) {
		if q.Qtype != qtype {
			return
		}
		if qtype == dns.TypeA {
			m.Answer = append(m.Answer, a(q.Name, net.ParseIP(ip), 0))
			return
		}
		m.Answer = append(m.Answer, &dns.AAAA{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET}, AAAA: net.ParseIP(ip)})
	}
	good := allowedAddr(hashOf(name)).String()
	switch name {
	case "named":
		add(dns.TypeA, "127.0.0.1")
	case "zero":
		add(dns.TypeA, "0.0.0.0")
	case "mixed":
		add(dns.TypeA, "127.2.0.1")
		add(dns.TypeA, good)
		add(dns.TypeAAAA, "::1")
	case "six":
		add(dns.TypeAAAA, "::1")
	case "mapped":
		add(dns.TypeAAAA, "::ffff:127.0.0.1")
	case "alias":
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: "localhost."})
		if q.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, a("localhost.", net.IPv4(127, 0, 0, 1), 0))
		}
	case "rebind", "rebind2", "rebind3":
		if w.dns.times(strings.ToLower(q.Name), dns.TypeA) > 1 {
			good = "127.2.0.1"
		}
		add(dns.TypeA, good)
	default:
		return nil
	}
	return m
}
