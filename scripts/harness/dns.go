package harness

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// ServeDNS answers queries for IPv4 addresses over UDP until ctx ends, and returns the address with
// its port; the group waits for the end. A name for which addr returns nil does not exist.
func ServeDNS(ctx context.Context, group *sync.WaitGroup, listen string, addr func(name string) net.IP) (string, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", listen)
	if err != nil {
		return "", fmt.Errorf("name server: %w", err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(rw dns.ResponseWriter, query *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(query)
		q := query.Question[0]
		ip := addr(strings.TrimSuffix(q.Name, "."))
		switch {
		case ip == nil:
			m.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}
			m.Answer = append(m.Answer, &dns.A{Hdr: header, A: ip})
		}
		_ = rw.WriteMsg(m)
	})}
	group.Go(func() { _ = server.ActivateAndServe() })
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn.LocalAddr().String(), nil
}
