package resolve

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// Whatever message a server sends, reading it ends, and what comes of it is within bounds.
func FuzzAnswer(f *testing.F) {
	for _, records := range [][]string{
		{"a.test. 60 IN A 192.0.2.1"},
		{"a.test. 60 IN CNAME b.test.", "b.test. 60 IN CNAME a.test."},
		{"a.test. 60 IN CNAME a.test.", "a.test. 0 IN A 192.0.2.1"},
	} {
		msg := new(dns.Msg).SetQuestion("a.test.", dns.TypeA)
		for _, r := range records {
			rr, err := dns.NewRR(r)
			if err != nil {
				f.Fatal(err)
			}
			msg.Answer = append(msg.Answer, rr)
		}
		packed, err := msg.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var msg dns.Msg
		if msg.Unpack(data) != nil {
			return
		}
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			c := follow(&msg, "a.test.", qtype, maxChain)
			if len(c.addrs) > maxAddrs || c.links > maxChain+1 || c.ttl < 0 {
				t.Errorf("%d addresses, %d aliases, TTL %s", len(c.addrs), c.links, c.ttl)
			}
			for _, a := range c.addrs {
				if !a.IsValid() || a.Is4() != (qtype == dns.TypeA) && !a.Is4In6() {
					t.Errorf("address %s of type %d", a, qtype)
				}
			}
		}
	})
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost # x\n::1 a b\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		for name, addrs := range parseHosts(strings.NewReader(text)) {
			if name != strings.ToLower(name) || len(addrs) == 0 {
				t.Errorf("%q: %v", name, addrs)
			}
		}
	})
}
