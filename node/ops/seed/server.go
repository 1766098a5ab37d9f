package seed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/node/loop"
)

const (
	// tcpConns limits open connections; more wait to be accepted.
	tcpConns = 256
	// tcpQueries limits the queries on a connection, tcpLife its lifetime.
	tcpQueries = 16
	tcpLife    = 10 * time.Second
	// tcpIdle is the timeout for each query.
	tcpIdle = 3 * time.Second
	// endTime is the shutdown timeout for running queries.
	endTime = 2 * time.Second
)

// server serves queries over UDP and TCP.
type server struct {
	zone  *zone
	paces *paces
	count func(transport, result string)
	udp   net.PacketConn
	tcp   net.Listener
}

// listen opens UDP and TCP on the same port.
func listen(ctx context.Context, addr string) (udp net.PacketConn, tcp net.Listener, err error) {
	var c net.ListenConfig
	if tcp, err = c.Listen(ctx, "tcp", addr); err != nil {
		return nil, nil, listenHint(addr, err)
	}
	host, _, _ := net.SplitHostPort(addr) // valid: parsed above
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	if udp, err = c.ListenPacket(ctx, "udp", net.JoinHostPort(host, port)); err != nil {
		_ = tcp.Close()
		return nil, nil, listenHint(addr, err)
	}
	return udp, tcp, nil
}

// listenHint adds the fix to an error of listen.
func listenHint(addr string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: ports below 1024 need a capability: sudo setcap cap_net_bind_service=+ep \"$(command -v apoidea)\", "+
			"or use --listen :5353 and redirect port 53, UDP and TCP, to it in the firewall", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another name server uses the port, often the system's on loopback: use --listen ADDRESS:53 with the public address of this machine", err)
	default:
		return fmt.Errorf("listen %s: %w", addr, err)
	}
}

// run serves queries until ctx ends.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	idle := func() time.Duration { return tcpIdle }
	for _, d := range []*dns.Server{
		{PacketConn: s.udp, UDPSize: mostUDP, Handler: s.handler("udp")},
		{Listener: netutil.LimitListener(lifeLimiter{s.tcp}, tcpConns), Handler: s.handler("tcp"), ReadTimeout: tcpIdle, IdleTimeout: idle, MaxTCPQueries: tcpQueries},
	} {
		d.MsgAcceptFunc = accept
		d.MsgInvalidFunc = func([]byte, error) { s.count(transport(d), "malformed") }
		started := make(chan struct{})
		d.NotifyStartedFunc = func() { close(started) }
		ended := make(chan struct{})
		group.Go(func() error {
			defer close(ended)
			if err := d.ActivateAndServe(); err != nil {
				return fmt.Errorf("name server: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			select {
			case <-ended:
				return nil
			case <-started: // Shutdown fails before the start
			}
			<-ctx.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
			defer cancel()
			_ = d.ShutdownContext(end) // then running queries are aborted
			return nil
		})
	}
	return group.Wait()
}

func transport(d *dns.Server) string {
	if d.PacketConn != nil {
		return "udp"
	}
	return "tcp"
}

// handler returns the handler of a transport.
func (s *server) handler(transport string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, req *dns.Msg) {
		if transport == "tcp" {
			s.write(w, transport, s.zone.answer(req, dns.MaxMsgSize))
			return
		}
		switch s.paces.take(time.Now(), hostOf(w.RemoteAddr())) {
		case send:
			s.write(w, transport, s.zone.answer(req, size(req)))
		case slip:
			m := new(dns.Msg).SetReply(req)
			m.Truncated = true
			_ = w.WriteMsg(m)
			s.count(transport, "slipped")
		case drop:
			s.count(transport, "dropped")
		}
	}
}

// write sends a response. An error means that the client is gone.
func (s *server) write(w dns.ResponseWriter, transport string, m *dns.Msg) {
	_ = w.WriteMsg(m)
	result := "answered"
	switch {
	case m.Rcode == dns.RcodeNameError:
		result = "no_such_name"
	case m.Rcode != dns.RcodeSuccess:
		result = "refused"
	case len(m.Answer) == 0:
		result = "no_data"
	}
	s.count(transport, result)
}

func hostOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String()) // valid: from a socket
	return at.Addr()
}

// lifeLimiter is a listener of connections with a maximum lifetime.
type lifeLimiter struct{ net.Listener }

// Accept implements net.Listener.
func (l lifeLimiter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: c, until: time.Now().Add(tcpLife)}
	_ = c.SetDeadline(g.until) // an error shows at the first read
	return g, nil
}

// guest is a connection with a maximum lifetime.
type guest struct {
	net.Conn
	until time.Time
}

// SetReadDeadline implements net.Conn, limited by the lifetime.
func (g *guest) SetReadDeadline(t time.Time) error {
	if t.After(g.until) {
		t = g.until
	}
	return g.Conn.SetReadDeadline(t)
}

const (
	// maxNetworks is the number of networks with a limiter; the least recently used is dropped.
	maxNetworks = 1 << 14
	// burst is the burst size in seconds of the rate.
	burst = 2
	// The prefix lengths of networks that share a rate.
	clientBits4 = 24
	clientBits6 = 56
)

// paces limits the rate of responses to each network, because source addresses may be forged.
type paces struct {
	networks *loop.Paces
	over     atomic.Uint64 // responses above the rate
}

func newPaces(perSecond int) *paces {
	return &paces{networks: loop.NewPaces(rate.Limit(perSecond), burst*perSecond, maxNetworks)}
}

// verdict is the decision on a response.
type verdict uint8

const (
	send verdict = iota
	// slip: send a truncated response, so that a real client retries over TCP.
	slip
	drop
)

// take returns the decision on a response to an address: above the rate every second one slips.
func (p *paces) take(now time.Time, to netip.Addr) verdict {
	switch {
	case p.networks.Allow(now, clientNetwork(to).String(), 1):
		return send
	case p.over.Add(1)%2 == 1:
		return slip
	default:
		return drop
	}
}

// clientNetwork returns the network in which one client can easily use all addresses.
func clientNetwork(a netip.Addr) netip.Prefix {
	bits := clientBits6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = clientBits4
	}
	network, _ := a.Prefix(bits) // fails for bits beyond the address only
	return network
}
