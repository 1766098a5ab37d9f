package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/miekg/dns"
)

// Names in the DNS.
//
// The trap: 500 names that do not exist, others for which the server fails, refuses or says
// nothing; aliases that lead in a circle or through a hundred names; thousands of addresses;
// answers that are believed for no time, or for 136 years; answers for another question, cut short,
// empty, or only of another class.
//
// A good crawler takes "no such name" as final after one more try, tries what may pass a few times,
// asks about a name once and not once a URL, and tells people what it is waiting for.
var dnsFamily = family{
	name: "dns",
	does: "names that do not exist, servers that fail or are silent, circles of aliases, thousands of addresses",
	seeds: func(w *world) []string {
		return append(w.urls("dns", "page"), w.urls("dns", dnsNames...)...)
	},
	resolve: resolveDNS,
	serve: func(w *world, rw http.ResponseWriter, r *http.Request, name string) {
		var links []string
		if name == "page" && r.URL.Path == "/" {
			for i := range absentNames {
				links = append(links, w.url("dns", fmt.Sprintf("absent%d", i), "/a"), w.url("dns", fmt.Sprintf("absent%d", i), "/b"))
			}
		}
		writePage(rw, page(r.Host+r.URL.Path, links...))
	},
	within: 4 * 60e9,
	check: func(j *judge) {
		for i := range absentNames {
			name := fmt.Sprintf("absent%d.dns.test.", i)
			if n := j.w.dns.times(name, dns.TypeA); n > mostQuestions {
				j.blame("dns: %s, which does not exist, was asked for %d times, bound %d", name, n, mostQuestions)
				break
			}
		}
		for _, name := range []string{"many", "zero", "alias3", "upper"} { // which have addresses
			j.wants(name, "/")
		}
	},
}

var dnsNames = []string{
	"servfail", "refused", "silent", "circle", "alias100", "alias3", "many", "zero", "forever", "wrongname", "cut", "nodata", "garbage", "upper", "self", "otherid",
}

const (
	absentNames   = 500
	mostQuestions = 4 // two tries, each possibly by two peers
)

func resolveDNS(w *world, name string, q dns.Question, m *dns.Msg) *dns.Msg {
	here := allowedAddr(hashOf(name))
	add := func(rr dns.RR) *dns.Msg {
		if q.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, rr)
		}
		return m
	}
	alias := func(to string) *dns.Msg {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}, Target: to + ".dns.test."})
		return m
	}
	switch {
	case strings.HasPrefix(name, "absent"):
		m.Rcode = dns.RcodeNameError
		return m
	case strings.HasPrefix(name, "alias"):
		return aliases(name, q, m, here)
	}
	switch name {
	case "servfail":
		m.Rcode = dns.RcodeServerFailure
	case "refused":
		m.Rcode = dns.RcodeRefused
	case "silent":
		return silence
	case "circle":
		return alias("circle2")
	case "circle2":
		return alias("circle")
	case "self":
		return alias("self")
	case "many":
		m.Compress = true // or they would not fit into a message
		for range 3000 {
			add(a(q.Name, here, 60))
		}
	case "zero":
		return add(a(q.Name, here, 0))
	case "forever":
		return add(a(q.Name, here, 1<<32-1))
	case "wrongname":
		return add(a("elsewhere.dns.test.", here, 60))
	case "cut":
		m.Truncated = true
	case "nodata", "garbage":
		m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{"no address"}})
	case "upper":
		return add(a(strings.ToUpper(q.Name), here, 60))
	case "otherid":
		m.Id++
		return add(a(q.Name, here, 60))
	default:
		return nil
	}
	return m
}

// aliases are a chain as long as the name says, all in one answer.
func aliases(name string, q dns.Question, m *dns.Msg, here net.IP) *dns.Msg {
	n := 0
	_, _ = fmt.Sscanf(name, "alias%d", &n)
	at := q.Name
	for i := range n {
		next := fmt.Sprintf("step%d.%s", i, q.Name)
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: at, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}, Target: next})
		at = next
	}
	if q.Qtype == dns.TypeA {
		m.Answer = append(m.Answer, a(at, here, 60))
	}
	return m
}
