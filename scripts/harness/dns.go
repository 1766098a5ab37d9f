package harness

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// ServeDNS answers questions over UDP and TCP at an address until ctx ends, and returns the address
// with its port; the group waits for both servers. Reply completes the answer that it is given and
// returns it; it may run in several goroutines at once. Nothing is sent if it returns nil.
func ServeDNS(ctx context.Context, group *sync.WaitGroup, listen string, reply func(q dns.Question, m *dns.Msg) *dns.Msg) (addr string, err error) {
	pc, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", listen)
	if err != nil {
		return "", err
	}
	addr = pc.LocalAddr().String()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		_ = pc.Close()
		return "", err
	}
	h := dns.HandlerFunc(func(rw dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		if len(q.Question) != 1 {
			m.Rcode = dns.RcodeFormatError
		} else if m = reply(q.Question[0], m); m == nil {
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
	})
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: ln, Handler: h}} {
		group.Go(func() { _ = srv.ActivateAndServe() })
		context.AfterFunc(ctx, func() { _ = srv.Shutdown() })
	}
	return addr, nil
}

// Addresses returns a reply for ServeDNS with the IPv4 address of each name; one for which addr
// returns nil does not exist.
func Addresses(addr func(name string) net.IP) func(q dns.Question, m *dns.Msg) *dns.Msg {
	return func(q dns.Question, m *dns.Msg) *dns.Msg {
		ip := addr(strings.TrimSuffix(q.Name, "."))
		switch {
		case ip == nil:
			m.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}
			m.Answer = append(m.Answer, &dns.A{Hdr: header, A: ip})
		}
		return m
	}
}
