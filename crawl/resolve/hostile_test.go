package resolve_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/crawl/resolve"
)

// send writes an answer that must not be lost.
func send(w dns.ResponseWriter, m *dns.Msg) bool {
	_ = w.WriteMsg(m)
	return true
}

// TestOddAnswers: what a server sends that is no answer to the question is waited past, or counts
// as its failure, which may pass; never as word that a name does not exist.
func TestOddAnswers(t *testing.T) {
	a := func(name string, last int) dns.RR {
		rr, err := dns.NewRR(fmt.Sprintf("%s 300 IN A 192.0.%d.%d", name, last>>8, last&255))
		if err != nil {
			panic(err)
		}
		return rr
	}
	for _, tt := range []struct {
		name   string
		answer func(w dns.ResponseWriter, q, reply *dns.Msg) bool
		addrs  int
		kind   resolve.Kind
	}{
		{"a forged one first, under another ID", func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
			forged := reply.Copy()
			forged.Id++
			forged.Answer = append(forged.Answer, a("four.test.", 66), a("four.test.", 67))
			send(w, forged)
			return false
		}, 1, 0},
		{"the question itself", func(w dns.ResponseWriter, q, _ *dns.Msg) bool { return send(w, q) }, 0, resolve.ServerFailure},
		{"a referral", func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
			rr, err := dns.NewRR("test. 300 IN NS ns.elsewhere.")
			if err != nil {
				panic(err)
			}
			reply.Ns, reply.RecursionAvailable = append(reply.Ns, rr), false
			return send(w, reply)
		}, 0, resolve.ServerFailure},
		{"refusal", func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
			reply.Rcode = dns.RcodeRefused
			return send(w, reply)
		}, 0, resolve.ServerFailure},
		{"a code that nobody knows", func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
			reply.Rcode = 14
			return send(w, reply)
		}, 0, resolve.ServerFailure},
		{"cut short over TCP as well", func(w dns.ResponseWriter, _, reply *dns.Msg) bool {
			reply.Truncated = true
			return send(w, reply)
		}, 0, resolve.ServerFailure},
		{"thousands of addresses", func(w dns.ResponseWriter, q, reply *dns.Msg) bool {
			if w.RemoteAddr().Network() == "udp" {
				reply.Truncated = true
				return send(w, reply)
			}
			if q.Question[0].Qtype == dns.TypeA {
				for i := range 3000 {
					reply.Answer = append(reply.Answer, a("four.test.", i))
				}
			}
			reply.Compress = true
			return send(w, reply)
		}, 32, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z := serve(t, testZone)
			z.setAnswer(tt.answer)
			addrs, err := newResolver(z.addr).Lookup(t.Context(), "four.test")
			if tt.kind != 0 {
				wantKind(t, err, tt.kind)
				return
			}
			if err != nil || len(addrs) != tt.addrs || tt.addrs == 1 && addrs[0] != netip.MustParseAddr("192.0.2.4") {
				t.Errorf("%v, %v", addrs, err)
			}
		})
	}
}
