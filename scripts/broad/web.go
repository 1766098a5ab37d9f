//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// domain is what the names of hosts end in: each is a registrable domain of its own.
const domain = "test"

// serve serves a web at all addresses of the loopback device, and its names, until ctx ends; the
// group waits for the end. A web of https has its pages compressed, and env is what clients need to
// trust its certificate.
func (b *bench) serve(ctx context.Context, group *sync.WaitGroup, cfg webgen.Config) (web *harness.Web, names string, env []string, err error) {
	ln, names, err := listen(ctx, group)
	switch {
	case err != nil:
	case cfg.HTTPS:
		web, env, err = b.serveWild(ctx, group, ln, cfg)
	default:
		web = harness.ServeWebOn(ctx, group, ln, cfg)
	}
	return web, names, env, err
}

// listen listens at all addresses of the loopback device, and has a name server tell the address of
// each host until ctx ends.
func listen(ctx context.Context, group *sync.WaitGroup) (ln net.Listener, names string, err error) {
	loopback := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), "lo") })
		if err == nil {
			err = failed
		}
		return err
	}}
	if ln, err = loopback.Listen(ctx, "tcp4", ":0"); err != nil {
		return nil, "", fmt.Errorf("web server: %w", err)
	}
	pc, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		_ = ln.Close()
		return nil, "", fmt.Errorf("name server: %w", err)
	}
	srv := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(tell)}
	group.Go(func() { _ = srv.ActivateAndServe() })
	context.AfterFunc(ctx, func() { _ = pc.Close() })
	return ln, pc.LocalAddr().String(), nil
}

// tell tells the address of h0.test, h1.test and so on.
func tell(rw dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	name := q.Question[0].Name
	label, rest, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(strings.TrimPrefix(label, "h"), 10, 22)
	switch {
	case err != nil || rest != domain+".":
		m.Rcode = dns.RcodeNameError
	case q.Question[0].Qtype == dns.TypeA:
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600},
			A:   net.IPv4(127, byte(64+n>>16), byte(n>>8), byte(n)),
		})
	}
	_ = rw.WriteMsg(m)
}
