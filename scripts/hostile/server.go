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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/apoidea/apoidea/scripts/harness"
)

// The addresses of the world. Names lead to allowed ones, as many as addresses, so that politeness
// towards an address does not hold up a crawl of many hosts; the peers are told that they may
// connect to allowedPrefix and nowhere else.
const (
	allowedPrefix = "127.1.0.0/16"
	addresses     = 32
)

func allowedAddr(i uint64) net.IP { return net.IPv4(127, 1, 0, byte(1+i%addresses)) }

// forbiddenAddrs are where listeners wait for connections that must not come.
var forbiddenAddrs = []string{"127.0.0.1", "127.2.0.1", "::1"}

// world is the server of traps: listeners on many addresses of loopback, a DNS server and an audit.
type world struct {
	port    int
	dnsAddr string
	ca      *authority
	audit   *audit
	group   sync.WaitGroup

	ctx      context.Context // the life of the server, by which traps end that would not
	dns      dnsState
	trespass trespass
	h2       http2.Server //nolint:staticcheck // net/http serves no connection that is there already
}

// trespass notes connections to addresses that are not allowed.
type trespass struct {
	mu   sync.Mutex
	seen map[string]int
}

func (t *trespass) note(to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = make(map[string]int)
	}
	t.seen[to]++
}

// take returns what came since it was called last.
func (t *trespass) take() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = nil
	return seen
}

// serveWorld starts all servers; they end with ctx.
func serveWorld(ctx context.Context, o *options) (*world, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	w := &world{port: o.port, ca: ca, ctx: ctx, audit: &audit{hosts: make(map[string]*hostAudit)}}
	if err := w.serveDNS(ctx); err != nil {
		return nil, err
	}
	for i := range uint64(addresses) {
		if err := w.serveAt(ctx, allowedAddr(i).String()); err != nil {
			return nil, err
		}
	}
	for _, addr := range forbiddenAddrs {
		for _, port := range []int{w.port, w.port + 1} {
			if err := w.watchAt(ctx, addr, port); err != nil && addr != "::1" { // there may be no IPv6
				return nil, err
			}
		}
	}
	return w, nil
}

func (w *world) wait() { w.group.Wait() }

func (w *world) listen(ctx context.Context, addr string, port int) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
	if err == nil {
		context.AfterFunc(ctx, func() { ln.Close() })
	}
	return ln, err
}

// serveAt serves HTTP and HTTPS at an address.
func (w *world) serveAt(ctx context.Context, addr string) error {
	plain, err := w.listen(ctx, addr, w.port)
	if err != nil {
		return err
	}
	secure, err := w.listen(ctx, addr, w.port+1)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:     http.HandlerFunc(w.handle),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0),
		// An idle connection is closed sooner than a crawler would mind, as many servers do.
		IdleTimeout:       20 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ReadHeaderTimeout: time.Minute,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": w.serveH2},
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	w.group.Go(func() { _ = srv.Serve(counted{plain}) })
	w.group.Go(func() { _ = srv.Serve(tls.NewListener(counted{secure}, w.tlsConfig())) })
	return nil
}

// watchAt accepts and notes connections that must not come.
func (w *world) watchAt(ctx context.Context, addr string, port int) error {
	ln, err := w.listen(ctx, addr, port)
	if err != nil {
		return err
	}
	w.group.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.trespass.note(fmt.Sprintf("%s from %s", ln.Addr(), c.RemoteAddr()))
			c.Close()
		}
	})
	return nil
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// connOf is the connection that a request came on.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return unwrap(c)
}

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
	written atomic.Int64 // moment of the last write, in nanoseconds
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

// reset has the connection end with a TCP reset.
func (c *conn) reset() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
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
		w.trespass.note("request for the host " + clip(r.Host))
		http.Error(rw, "no such host", http.StatusMisdirectedRequest)
		return
	}
	c := connOf(r)
	v := w.begin(f, name, r)
	before := int64(0)
	if c != nil {
		before = c.bytes.Load()
		c.visit.Store(v)
	}
	gone := context.AfterFunc(r.Context(), func() { w.audit.end(v, true) })
	defer func() {
		gone()
		w.audit.end(v, r.Context().Err() != nil)
		if c != nil {
			w.audit.sent(v, c.bytes.Load()-before)
		}
	}()
	w.answer(f, name, rw, r)
}

// begin notes a request in the audit.
func (w *world) begin(f *family, name string, r *http.Request) *visit {
	path := r.RequestURI
	forbidden := strings.HasPrefix(r.URL.Path, "/forbidden/") && name != ""
	if f.disallowed != nil && name != "good" {
		forbidden = f.disallowed(name, path)
	}
	return w.audit.begin(f, strings.ToLower(r.Host), path, connOf(r), forbidden)
}

func (w *world) answer(f *family, name string, rw http.ResponseWriter, r *http.Request) {
	switch {
	case name == "good" && r.URL.Path != "/robots.txt":
		goodSite(rw, r)
	case r.URL.Path == "/robots.txt" && (name == "good" || !f.ownRobots):
		text := ""
		if f.robots != nil && name != "good" {
			text = f.robots(w, name)
		}
		if text == "" {
			text = defaultRobots
		}
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(rw, text)
	default:
		f.serve(w, rw, r, name)
	}
}

// hijack takes the connection of a request, for traps that HTTP's library would not let one build.
// Who takes it closes it.
func hijack(rw http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	hj, ok := rw.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler) // HTTP/2: the trap is not for it
	}
	c, buf, err := hj.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return c, buf
}

// answered says that the answer on a connection that a trap has taken is whole; gone, that the
// client went away before.
func (w *world) answered(c net.Conn) { w.endVisit(c, false) }
func (w *world) gone(c net.Conn)     { w.endVisit(c, true) }

func (w *world) endVisit(c net.Conn, dropped bool) {
	if k := unwrap(c); k != nil {
		if v := k.visit.Load(); v != nil {
			w.audit.end(v, dropped)
		}
	}
}

// drip writes the text again and again, a piece at a time with a pause before each, until the
// client goes away or the server ends.
func (w *world) drip(c net.Conn, piece string, every time.Duration, until time.Duration) {
	end := time.Now().Add(until)
	for time.Now().Before(end) {
		if _, err := io.WriteString(c, piece); err != nil {
			w.gone(c)
			return
		}
		if !w.sleep(every) {
			return
		}
	}
}

// hold keeps a connection open and silent until the client goes away, the time is up or the server
// ends.
func (w *world) hold(c net.Conn, d time.Duration) {
	stop := context.AfterFunc(w.ctx, func() { c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(d))
	var b [512]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				w.gone(c)
			}
			return
		}
	}
}

func (w *world) sleep(d time.Duration) bool {
	return harness.Sleep(w.ctx, d) == nil
}

// serveRaw reads further requests of a connection that a trap has taken, notes them, and has them
// answered; until fn says no or the client goes away.
func (w *world) serveRaw(c net.Conn, in *bufio.Reader, fn func(r *http.Request) bool) {
	stop := context.AfterFunc(w.ctx, func() { c.Close() })
	defer stop()
	for {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		f, name := split(r.Host)
		if f == nil {
			return
		}
		ctx := context.WithValue(w.ctx, connKey{}, c)
		r = r.WithContext(ctx)
		v := w.begin(f, name, r)
		if k := unwrap(c); k != nil {
			k.visit.Store(v)
		}
		on := fn(r)
		w.audit.end(v, false)
		if !on {
			return
		}
	}
}

// serveH2 serves a connection that speaks HTTP/2: by the family's own hand, or the library's.
func (w *world) serveH2(srv *http.Server, c *tls.Conn, h http.Handler) {
	f, name := split(c.ConnectionState().ServerName)
	if f != nil && f.h2 != nil && name != "good" {
		w.rawH2(f, name, c)
		return
	}
	//nolint:staticcheck // as above
	w.h2.ServeConn(c, &http2.ServeConnOpts{Context: context.WithValue(w.ctx, connKey{}, net.Conn(c)), BaseConfig: srv, Handler: h})
}

// introduce tells how a peer is started by hand against the server.
func (w *world) introduce(out io.Writer) {
	fmt.Fprintf(out, "SSL_CERT_FILE of the peer: the certificate below\n%s\n", w.ca.pem)
	fmt.Fprintf(out, "apoidea run --allow-private=%s --dns-server %s --scope '*.test' SEED...\n", allowedPrefix, w.dnsAddr)
	for _, f := range families {
		fmt.Fprintf(out, "%s: %s\n", f.name, f.does)
		for _, s := range w.seedsOf(f) {
			fmt.Fprintf(out, "  %s\n", s)
		}
	}
}

// seedsOf are the seeds of a family, the good site first.
func (w *world) seedsOf(f *family) []string {
	return append([]string{w.url(f.name, "good", "/")}, f.seeds(w)...)
}
