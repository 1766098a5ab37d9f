package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/http2"

	"github.com/apoidea/apoidea/scripts/harness"
)

// Names resolve to as many addresses of allowedPrefix as addresses says, so that politeness towards
// an address does not delay a crawl of many hosts. Peers may connect to allowedPrefix only.
const (
	allowedPrefix = "127.1.0.0/16"
	addresses     = 32
)

func allowedAddr(i uint64) net.IP { return net.IPv4(127, 1, 0, byte(1+i%addresses)) }

// forbiddenAddrs are where listeners record connections that must not come.
var forbiddenAddrs = []string{"127.0.0.1", "127.2.0.1", "::1"}

// world is the server of traps: listeners on many addresses of loopback, a DNS server and an audit.
type world struct {
	port    int
	dnsAddr string
	ca      *harness.HostCA
	// manyNames is a large certificate, made when it is first needed.
	manyNames func() []byte
	certs     sync.Map // *tls.Certificate by name
	audit     audit
	group     sync.WaitGroup

	ctx       context.Context // the life of the server; endless traps end with it
	questions counter         // of DNS, such as "A www.links.test."
	trespass  counter         // connections and requests that are not allowed
	h2        http2.Server    //nolint:staticcheck // net/http serves no connection that is there already
}

// counter counts events by key; it is for use by several goroutines.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[key]++
}

func (c *counter) get(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

// take returns all counts and resets them.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

// serveWorld starts all servers; they end with ctx.
func serveWorld(ctx context.Context, port int) (*world, error) {
	ca, err := harness.NewHostCA()
	if err != nil {
		return nil, err
	}
	w := &world{port: port, dnsAddr: fmt.Sprintf("127.0.0.1:%d", port+2), ca: ca, ctx: ctx, audit: audit{hosts: make(map[string]*hostAudit)}}
	w.manyNames = sync.OnceValue(func() []byte { return manyNames(ca) })
	if _, err := harness.ServeDNS(ctx, &w.group, w.dnsAddr, w.reply); err != nil {
		return nil, err
	}
	for i := range uint64(addresses) {
		if err := w.serveAt(allowedAddr(i).String()); err != nil {
			return nil, err
		}
	}
	for _, addr := range forbiddenAddrs {
		for _, port := range []int{w.port, w.port + 1} {
			if err := w.watchAt(addr, port); err != nil && addr != "::1" { // there may be no IPv6
				return nil, err
			}
		}
	}
	return w, nil
}

func (w *world) reply(q dns.Question, m *dns.Msg) *dns.Msg {
	f, name := split(q.Name)
	if f == nil {
		m.Rcode = dns.RcodeNameError
		return m
	}
	w.questions.add(dns.TypeToString[q.Qtype] + " " + strings.ToLower(q.Name))
	if f.resolve != nil && name != "good" {
		if m, handled := f.resolve(w, name, q, m); handled {
			return m
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

func (w *world) listen(addr string, port int) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(w.ctx, "tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
	if err == nil {
		context.AfterFunc(w.ctx, func() { ln.Close() })
	}
	return ln, err
}

// serveAt serves HTTP and HTTPS at an address.
func (w *world) serveAt(addr string) error {
	plain, err := w.listen(addr, w.port)
	if err != nil {
		return err
	}
	secure, err := w.listen(addr, w.port+1)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:     http.HandlerFunc(w.handle),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0),
		// Shorter than a crawler keeps idle connections, as with many servers.
		IdleTimeout:       20 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ReadHeaderTimeout: time.Minute,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": w.serveH2},
	}
	context.AfterFunc(w.ctx, func() { _ = srv.Close() })
	w.group.Go(func() { _ = srv.Serve(counted{plain}) })
	w.group.Go(func() { _ = srv.Serve(tls.NewListener(counted{secure}, w.tlsConfig())) })
	return nil
}

// watchAt accepts and records connections that must not come.
func (w *world) watchAt(addr string, port int) error {
	ln, err := w.listen(addr, port)
	if err != nil {
		return err
	}
	w.group.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.trespass.add(fmt.Sprintf("%s from %s", ln.Addr(), c.RemoteAddr()))
			c.Close()
		}
	})
	return nil
}

// tlsConfig makes handshakes as the family of the name wants them.
func (w *world) tlsConfig() *tls.Config {
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			f, name := split(hello.ServerName)
			if f != nil && f.hello != nil && name != "good" {
				if c, err := f.hello(w, hello, name); c != nil || err != nil {
					return c, err
				}
			}
			if f != nil && f.traps[name].h2 != nil && !slices.Contains(hello.SupportedProtos, "h2") {
				return &tls.Config{NextProtos: []string{"h2 alone"}}, nil // the handshake fails
			}
			host := strings.ToLower(hello.ServerName)
			if cert, ok := w.certs.Load(host); ok {
				return withCert(cert.(*tls.Certificate)), nil
			}
			cert, err := w.ca.Sign(host, nil)
			if err != nil {
				return nil, err
			}
			w.certs.Store(host, cert)
			return withCert(cert), nil
		},
	}
}

func withCert(cert *tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}}
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// unwrap returns the connection beneath TLS.
func unwrap(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	k, _ := c.(*conn)
	return k
}

// counted counts what the connections of a listener carry.
type counted struct{ net.Listener }

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn is one connection to the server, beneath TLS.
type conn struct {
	net.Conn
	written atomic.Int64 // Unix time of the last write, in nanoseconds
	bytes   atomic.Int64
	visit   atomic.Pointer[visit] // of the request that is being answered
}

func (c *conn) Write(p []byte) (int, error) {
	c.written.Store(time.Now().UnixNano())
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *conn) lastWrite() time.Time {
	if n := c.written.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// reset ends a connection with a TCP reset.
func reset(c net.Conn) {
	if k := unwrap(c); k != nil {
		if t, ok := k.Conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		k.Close()
	}
}

// split finds the family of a host and the name within it: a.b of a.b.links.test. Of
// n1-of-links.test, a registrable domain of its own, it is n1.
func split(host string) (f *family, name string) {
	host, _, _ = strings.Cut(host, ":")
	rest, ok := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".test")
	if !ok {
		return nil, ""
	}
	name, of := "", rest
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		name, of = rest[:i], rest[i+1:]
	}
	if own, family, ok := strings.Cut(of, "-of-"); ok {
		name, of = strings.TrimPrefix(name+"."+own, "."), family
	}
	return byName(of), name
}

// handle answers a request for any host.
func (w *world) handle(rw http.ResponseWriter, r *http.Request) {
	f, name := split(r.Host)
	if f == nil {
		w.trespass.add("request for the host " + clip(r.Host))
		http.Error(rw, "no such host", http.StatusMisdirectedRequest)
		return
	}
	v := w.begin(f, name, r)
	before := int64(0)
	if v.conn != nil {
		before = v.conn.bytes.Load()
	}
	gone := context.AfterFunc(r.Context(), func() { w.audit.end(v, true) })
	defer func() {
		gone()
		w.audit.end(v, r.Context().Err() != nil)
		if v.conn != nil {
			w.audit.sent(v, v.conn.bytes.Load()-before)
		}
	}()
	x := exchange{w: w, rw: rw, r: r, f: f, name: name}
	t := f.kind(name)
	robots := r.URL.Path == "/robots.txt"
	switch {
	case robots && (f.site != nil || t.robots == nil || name == "good"):
		x.write(plainType, defaultRobots)
	case robots:
		t.robots(x)
	case f.site != nil:
		x.site(f.site)
	case name == "good":
		goodSite(x)
	case t.serve == nil:
		http.NotFound(rw, r)
	default:
		t.serve(x)
	}
}

// begin records a request in the audit, and as that of its connection.
func (w *world) begin(f *family, name string, r *http.Request) *visit {
	forbidden := strings.HasPrefix(r.URL.Path, "/forbidden/") && name != ""
	if f.disallowed != nil && name != "good" {
		forbidden = f.disallowed(name, r.RequestURI)
	}
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	v := w.audit.begin(f, strings.ToLower(r.Host), r.RequestURI, unwrap(c), forbidden)
	if v.conn != nil {
		v.conn.visit.Store(v)
	}
	return v
}

// hijack takes over the connection of a request, for traps that net/http cannot express. The caller
// closes it.
func (x exchange) hijack() (net.Conn, *bufio.ReadWriter) {
	hj, ok := x.rw.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler) // HTTP/2: the trap is not for it
	}
	c, buf, err := hj.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return c, buf
}

// endVisit records that the answer on a hijacked connection is complete, or was dropped by the
// client.
func (w *world) endVisit(c net.Conn, dropped bool) {
	if k := unwrap(c); k != nil {
		if v := k.visit.Load(); v != nil {
			w.audit.end(v, dropped)
		}
	}
}

// drip writes a piece at a time, with a pause behind each, for a time or until the client closes
// the connection or the server ends.
func (w *world) drip(c net.Conn, piece string, every, until time.Duration) {
	end := time.Now().Add(until)
	for time.Now().Before(end) {
		if _, err := io.WriteString(c, piece); err != nil {
			w.endVisit(c, true)
			return
		}
		if !w.sleep(every) {
			return
		}
	}
}

// flood writes as fast as the client reads, up to a number of bytes.
func (w *world) flood(c net.Conn, piece string, most int) {
	for sent := 0; sent < most && w.ctx.Err() == nil; sent += len(piece) {
		if _, err := io.WriteString(c, piece); err != nil {
			w.endVisit(c, true)
			return
		}
	}
}

// hold keeps a connection open and silent until the client closes it, the time is up or the server
// ends.
func (w *world) hold(c net.Conn, d time.Duration) {
	stop := context.AfterFunc(w.ctx, func() { c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(d))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.endVisit(c, true)
	}
}

func (w *world) sleep(d time.Duration) bool { return harness.Sleep(w.ctx, d) == nil }

// pause waits; it reports false if the client drops the request or the server ends first.
func (x exchange) pause(d time.Duration) bool {
	select {
	case <-x.r.Context().Done():
		return false
	case <-x.w.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// nextRequest reads the next request of a hijacked connection, which is recorded and not answered.
func (w *world) nextRequest(c net.Conn, in *bufio.Reader) {
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if f, name := split(r.Host); f != nil {
		w.audit.end(w.begin(f, name, r.WithContext(context.WithValue(w.ctx, connKey{}, c))), false)
	}
}

// serveH2 serves a connection that speaks HTTP/2: by a flood, or by the library.
func (w *world) serveH2(srv *http.Server, c *tls.Conn, h http.Handler) {
	f, name := split(c.ConnectionState().ServerName)
	if f != nil && f.traps[name].h2 != nil {
		w.floodH2(c, f.traps[name].h2)
		return
	}
	//nolint:staticcheck // as above
	w.h2.ServeConn(c, &http2.ServeConnOpts{Context: context.WithValue(w.ctx, connKey{}, net.Conn(c)), BaseConfig: srv, Handler: h})
}

// introduce prints how a peer is started by hand against the server.
func (w *world) introduce(out io.Writer) {
	fmt.Fprintf(out, "SSL_CERT_FILE of the peer: the certificate below\n%s\n", w.ca.PEM)
	fmt.Fprintf(out, "apoidea run --allow-private=%s --dns-server %s --scope '*.test' SEED...\n", allowedPrefix, w.dnsAddr)
	for _, f := range families {
		fmt.Fprintf(out, "%s: %s\n  %s\n", f.name, f.does, strings.Join(f.seeds(w), "\n  "))
	}
}
