package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// dnsState remembers how often a name was asked for, for answers that change.
type dnsState struct {
	mu    sync.Mutex
	asked map[string]int
}

// maxAsked bounds the names that are remembered.
const maxAsked = 100_000

// count returns how often the question was asked, this time included.
func (s *dnsState) count(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]int)
	}
	key := dns.TypeToString[qtype] + " " + name
	if _, known := s.asked[key]; known || len(s.asked) < maxAsked {
		s.asked[key]++
	}
	return s.asked[key]
}

func (s *dnsState) times(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dns.TypeToString[qtype]+" "+name]
}

func (s *dnsState) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
}

// serveDNS answers over UDP and TCP, at the port behind those of HTTP.
func (w *world) serveDNS(ctx context.Context) error {
	w.dnsAddr = fmt.Sprintf("127.0.0.1:%d", w.port+2)
	pc, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", w.dnsAddr)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", w.dnsAddr)
	if err != nil {
		_ = pc.Close()
		return err
	}
	h := dns.HandlerFunc(w.answerDNS)
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: ln, Handler: h}} {
		w.group.Go(func() { _ = srv.ActivateAndServe() })
		context.AfterFunc(ctx, func() { _ = srv.Shutdown() })
	}
	return nil
}

func (w *world) answerDNS(rw dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		_ = rw.WriteMsg(m)
		return
	}
	if m = w.reply(q.Question[0], m); m == silence {
		return
	}
	if rw.RemoteAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(int(o.UDPSize()), size)
		}
		m.Truncate(size)
	}
	_ = rw.WriteMsg(m)
}

// silence is the answer that is none.
var silence = new(dns.Msg)

func (w *world) reply(q dns.Question, m *dns.Msg) *dns.Msg {
	f, name := split(q.Name)
	if f == nil {
		m.Rcode = dns.RcodeNameError
		return m
	}
	w.dns.count(strings.ToLower(q.Name), q.Qtype)
	if f.resolve != nil && name != "good" {
		if a := f.resolve(w, name, q, m); a != nil {
			return a
		}
	}
	if q.Qtype == dns.TypeA {
		m.Answer = append(m.Answer, a(q.Name, allowedAddr(hashOf(strings.ToLower(strings.TrimSuffix(q.Name, ".")))), 60))
	}
	return m
}

// a is an address record.
func a(name string, ip net.IP, ttl uint32) dns.RR {
	return &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: ip}
}
