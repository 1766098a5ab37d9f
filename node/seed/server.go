package seed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

const (
	// tcpConns are open at once, tcpNetworkConns of them from one network; one more is closed at
	// once.
	tcpConns        = 256
	tcpNetworkConns = 16
	// tcpQueries are answered on a connection, which lasts tcpLife at most, whatever comes.
	tcpQueries = 16
	tcpLife    = 10 * time.Second
	// tcpIdle is how long a question, and the next one, may take.
	tcpIdle = 3 * time.Second
	// endTime is how long answers under way may take when the server ends.
	endTime = 2 * time.Second
)

// server answers questions over UDP and TCP.
type server struct {
	zone  *zone
	paces *paces
	count func(transport, result string)
	udp   net.PacketConn
	tcp   net.Listener
}

// listen opens the ports: both of one number.
func listen(ctx context.Context, addr string) (udp net.PacketConn, tcp net.Listener, err error) {
	var c net.ListenConfig
	if tcp, err = c.Listen(ctx, "tcp", addr); err != nil {
		return nil, nil, listenHint(addr, err)
	}
	host, _, _ := net.SplitHostPort(addr) // it was understood a line above
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	if udp, err = c.ListenPacket(ctx, "udp", net.JoinHostPort(host, port)); err != nil {
		_ = tcp.Close()
		return nil, nil, listenHint(addr, err)
	}
	return udp, tcp, nil
}

// listenHint says what to do where a port cannot be had.
func listenHint(addr string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: ports below 1024 need the right to them: sudo setcap cap_net_bind_service=+ep \"$(command -v apoidea)\", "+
			"or --listen :5353 and have the firewall redirect port 53, UDP and TCP, to it", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another name server has the port, often that of the system on loopback: --listen ADDRESS:53 takes the public address of this machine alone", err)
	default:
		return fmt.Errorf("listen %s: %w", addr, err)
	}
}

// run answers until ctx ends.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	idle := func() time.Duration { return tcpIdle }
	for _, d := range []*dns.Server{
		{PacketConn: s.udp, UDPSize: mostUDP, Handler: s.handler("udp")},
		{Listener: newDoor(s.tcp, func() { s.count("tcp", "full") }), Handler: s.handler("tcp"), ReadTimeout: tcpIdle, IdleTimeout: idle, MaxTCPQueries: tcpQueries},
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
			case <-started: // before that it could not be ended
			}
			<-ctx.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
			defer cancel()
			_ = d.ShutdownContext(end) // what is still under way then breaks off
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

// handler answers what comes over a transport.
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

// write sends an answer. Whoever asked is gone where it cannot be sent.
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
	at, _ := netip.ParseAddrPort(a.String()) // of a socket's peer
	return at.Addr()
}

// door lets connections in within bounds.
type door struct {
	net.Listener
	full func()

	mu   sync.Mutex // guards what follows
	open int
	from map[netip.Prefix]int
}

func newDoor(l net.Listener, full func()) *door {
	return &door{Listener: l, full: full, from: make(map[netip.Prefix]int)}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		network := clientNetwork(hostOf(c.RemoteAddr()))
		if !d.enter(network) {
			_ = c.Close()
			d.full()
			continue
		}
		g := &guest{Conn: c, until: time.Now().Add(tcpLife), leave: sync.OnceFunc(func() { d.left(network) })}
		_ = c.SetDeadline(g.until) // what cannot be set shows with the first read
		return g, nil
	}
}

func (d *door) enter(network netip.Prefix) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open >= tcpConns || d.from[network] >= tcpNetworkConns {
		return false
	}
	d.open++
	d.from[network]++
	return true
}

func (d *door) left(network netip.Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	if d.from[network]--; d.from[network] == 0 {
		delete(d.from, network)
	}
}

// guest is a connection with an end.
type guest struct {
	net.Conn
	until time.Time
	leave func()
}

// SetReadDeadline implements net.Conn: never beyond the end.
func (g *guest) SetReadDeadline(t time.Time) error {
	if t.After(g.until) {
		t = g.until
	}
	return g.Conn.SetReadDeadline(t)
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
