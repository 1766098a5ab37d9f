package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// newFetcher returns a Fetcher that may dial this machine; change adapts its Config.
func newFetcher(t *testing.T, change func(*fetch.Config)) *fetch.Fetcher {
	t.Helper()
	config := fetch.Config{UserAgent: "apoidea/test (+https://crawler.example/)", Resolver: loopback{}, AllowPrivate: true}
	if change != nil {
		change(&config)
	}
	f, err := fetch.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// patient raises the timeouts of a Fetcher, for tests of something else whose servers use so much
// processor time that a busy machine may exceed the default ones.
func patient(c *fetch.Config) {
	c.Lab().TLSTimeout, c.Lab().HeaderTimeout, c.Lab().TotalTimeout, c.Lab().MinRate = time.Hour, time.Hour, time.Hour, -1
}

func get(t *testing.T, f *fetch.Fetcher, url string) *fetch.Response {
	t.Helper()
	resp, err := f.Get(t.Context(), &fetch.Request{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// wantOutcome checks that err is an *Error with this outcome.
func wantOutcome(t *testing.T, err error, want link.Outcome) {
	t.Helper()
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		t.Fatalf("error %v (%T), want outcome %s", err, err, want)
	}
	if e.Outcome != want {
		t.Fatalf("outcome %s (%v), want %s", e.Outcome, err, want)
	}
}

// raw serves whatever serve writes, one connection after another, and returns the base URL.
func raw(t *testing.T, serve func(c net.Conn, n int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c, n)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// readRequest reads up to the end of one request head.
func readRequest(c net.Conn) string {
	var got []byte
	buf := make([]byte, 1)
	for !strings.HasSuffix(string(got), "\r\n\r\n") {
		if _, err := c.Read(buf); err != nil {
			break
		}
		got = append(got, buf...)
	}
	return string(got)
}

// answer serves one canned response a connection and then closes it.
func answer(t *testing.T, response string) string {
	return raw(t, func(c net.Conn, _ int) {
		readRequest(c)
		_, _ = io.WriteString(c, response)
	})
}

func TestExchange(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"a"`)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, r.Header.Get("If-None-Match"))
	}))
	defer srv.Close()
	f := newFetcher(t, func(c *fetch.Config) { c.From = "bees@crawler.example" })
	resp, err := f.Get(t.Context(), &fetch.Request{
		URL:    srv.URL + "/a%zz|b?q=1#fragment",
		Header: http.Header{"If-None-Match": {`"b"`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Release()
	if got, want := string(resp.Body), `GET /a%zz|b?q=1 "b"`; got != want && resp.Status == 200 {
		t.Errorf("body %q, want %q", got, want)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	wantHead := "GET /a%zz|b?q=1 HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: apoidea/test (+https://crawler.example/)\r\n" +
		"From: bees@crawler.example\r\nAccept-Encoding: gzip, br, zstd\r\nAccept: " + fetch.DefaultAccept + "\r\nIf-None-Match: \"b\"\r\n\r\n"
	if got := string(resp.RequestHead); got != wantHead {
		t.Errorf("request head\n%s\nwant\n%s", got, wantHead)
	}
	if resp.Addr.String() != host {
		t.Errorf("addr %s, want %s", resp.Addr, host)
	}
	if resp.WireBytes < int64(len(resp.Body)) || resp.Duration < resp.TTFB || resp.Start.IsZero() {
		t.Errorf("wire %d, TTFB %s, duration %s", resp.WireBytes, resp.TTFB, resp.Duration)
	}
}

func TestKeepAlive(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, r.RemoteAddr)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	f := newFetcher(t, nil)
	var connect time.Duration
	for i, path := range []string{"/", "/chunked", "/chunked", "/"} {
		resp := get(t, f, srv.URL+path)
		if i == 0 {
			connect = resp.Connect
		}
		if connect <= 0 || resp.Connect != connect {
			t.Errorf("exchange %d: the connection took %v, the first one %v", i, resp.Connect, connect)
		}
		resp.Release()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for four exchanges, want 1", n)
	}
	srv.CloseClientConnections()
	get(t, f, srv.URL+"/").Release()
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections after the server hung up, want 2", n)
	}
}

// A connection made under a wider cap, or under none, would bring its kernel's buffer unasked: it
// is replaced. One made under a narrower cap is kept.
func TestOutgrownConnection(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	line := bandwidth.NewLine(0)
	f := newFetcher(t, func(c *fetch.Config) { c.Line = line })
	for i, step := range []struct {
		rate  int64
		conns int32
	}{{0, 1}, {4 << 20, 2}, {4 << 20, 2}, {1 << 20, 3}, {2 << 20, 3}, {2 << 20, 3}, {0, 3}} {
		line.SetRate(step.rate)
		get(t, f, srv.URL+"/").Release()
		if n := conns.Load(); n != step.conns {
			t.Errorf("step %d, a cap of %d: %d connections so far, want %d", i, step.rate, n, step.conns)
		}
	}
}

// A connection that dies when it is used again costs one more try, one that dies in use does not.
func TestStaleConnection(t *testing.T) {
	url := raw(t, func(c net.Conn, n int) {
		readRequest(c)
		if n < 2 {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			readRequest(c)
		}
	})
	f := newFetcher(t, nil)
	permits := 0
	req := &fetch.Request{URL: url, Permit: func(netip.Addr) error { permits++; return nil }}
	for i := range 2 {
		resp, err := f.Get(t.Context(), req)
		if err != nil {
			t.Fatalf("exchange %d: %v", i, err)
		}
		resp.Release()
	}
	if permits != 3 {
		t.Errorf("permit asked %d times, want 3: it is asked before each writing", permits)
	}
	_, err := f.Get(t.Context(), req)
	wantOutcome(t, err, link.OutcomeHTTPError)
}

// What comes on a connection that rests belongs to no request: a site would else answer for pages
// that were not asked for yet.
func TestUnaskedAnswer(t *testing.T) {
	rests, sent := make(chan struct{}), make(chan struct{})
	url := raw(t, func(c net.Conn, n int) {
		readRequest(c)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntrue%d", n)
		if n == 0 {
			<-rests
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake")
			close(sent)
			readRequest(c) // its end, or the next request
		}
	})
	f := newFetcher(t, nil)
	get(t, f, url+"/0").Release()
	close(rests)
	<-sent
	resp := get(t, f, url+"/1")
	defer resp.Release()
	if string(resp.Body) != "true1" {
		t.Errorf("the answer is %q, want that of a new connection", resp.Body)
	}
}

// A connection that the server has closed meanwhile is not written to: the request would be made
// twice.
func TestClosedWhileIdle(t *testing.T) {
	closed := make(chan struct{})
	url := raw(t, func(c net.Conn, n int) {
		readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		c.Close()
		if n == 0 {
			close(closed)
		}
	})
	f := newFetcher(t, nil)
	permits := 0
	req := &fetch.Request{URL: url, Permit: func(netip.Addr) error { permits++; return nil }}
	for range 2 {
		resp, err := f.Get(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
		<-closed
	}
	if permits != 2 {
		t.Errorf("permit asked %d times, want 2", permits)
	}
}

func TestOneAtATime(t *testing.T) {
	var now, most atomic.Int32
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/canceled" { // the server may not notice its end before the next request
			<-release
			return
		}
		most.Store(max(most.Load(), now.Add(1)))
		<-release
		now.Add(-1)
	}))
	defer srv.Close()
	f := newFetcher(t, nil)
	errs := make(chan error, 4)
	for range 4 {
		go func() {
			_, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL})
			errs <- err
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := f.Get(ctx, &fetch.Request{URL: srv.URL + "/canceled"})
		errs <- err
	}()
	release <- struct{}{}
	cancel()
	for range 3 {
		release <- struct{}{}
	}
	cancelled := 0
	for range 5 {
		select {
		case err := <-errs:
			if errors.Is(err, context.Canceled) {
				cancelled++
			} else if err != nil {
				t.Error(err)
			}
		case release <- struct{}{}: // the one to be cancelled had its turn
		}
	}
	if most.Load() != 1 || cancelled > 1 {
		t.Errorf("%d at once, %d cancelled; want 1 and at most 1", most.Load(), cancelled)
	}
}

func TestRedirectIsAResponse(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.Header.Get("Cookie") != "" {
			t.Error("a cookie was sent")
		}
		http.Redirect(w, r, "/there?x=%20", http.StatusFound)
	}))
	defer srv.Close()
	f := newFetcher(t, nil)
	for range 2 {
		resp := get(t, f, srv.URL)
		if resp.Status != http.StatusFound || resp.Location() != "/there?x=%20" {
			t.Errorf("status %d, location %q", resp.Status, resp.Location())
		}
		resp.Release()
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestPermitRefused(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer srv.Close()
	f := newFetcher(t, nil)
	lapsed := errors.New("lease lapsed")
	_, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL, Permit: func(netip.Addr) error { return lapsed }})
	if !errors.Is(err, lapsed) || !errors.Is(err, fetch.ErrNotPermitted) {
		t.Errorf("error %v", err)
	}
	if _, ok := errors.AsType[*fetch.Error](err); ok {
		t.Error("a refused permit is no outcome of the URL")
	}
	get(t, f, srv.URL).Release()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests reached the server, want 1", n)
	}
}

func TestSourceAddress(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }))
	defer srv.Close()
	f := newFetcher(t, func(c *fetch.Config) { c.LocalAddr = netip.MustParseAddr("127.0.1.7") })
	resp := get(t, f, srv.URL)
	defer resp.Release()
	if !strings.HasPrefix(string(resp.Body), "127.0.1.7:") {
		t.Errorf("seen as %s", resp.Body)
	}
	_, err := f.Get(t.Context(), &fetch.Request{URL: "http://[::1]/"})
	wantOutcome(t, err, link.OutcomeConnect)
}

func TestProbe(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a probe sent a request") }))
	defer srv.Close()
	host := strings.Replace(strings.TrimPrefix(srv.URL, "http://"), "127.0.0.1", "site.example", 1)
	rtt, addr, err := newFetcher(t, nil).Probe(t.Context(), host, "http")
	if err != nil || rtt <= 0 || addr != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("probe: %s, %s, %v", rtt, addr, err)
	}
	guarded := newFetcher(t, func(c *fetch.Config) { c.AllowPrivate = false })
	_, _, err = guarded.Probe(t.Context(), host, "http")
	wantOutcome(t, err, link.OutcomeBlockedAddress)
}

func TestRefusedRequests(t *testing.T) {
	f := newFetcher(t, nil)
	tests := []struct {
		name string
		req  fetch.Request
	}{
		{"no scheme", fetch.Request{URL: "site.example/"}},
		{"other scheme", fetch.Request{URL: "ftp://site.example/"}},
		{"line break in path", fetch.Request{URL: "http://site.example/a\r\nX: y"}},
		{"space in path", fetch.Request{URL: "http://site.example/a b"}},
		{"no host", fetch.Request{URL: "http:///a"}},
		{"user", fetch.Request{URL: "http://user:pass@site.example/"}},
		{"port of letters", fetch.Request{URL: "http://site.example:http/"}},
		{"port zero", fetch.Request{URL: "http://site.example:0/"}},
		{"own Host", fetch.Request{URL: "http://site.example/", Header: http.Header{"host": {"other.example"}}}},
		{"broken value", fetch.Request{URL: "http://site.example/", Header: http.Header{"X-A": {"b\r\nc: d"}}}},
		{"endless", fetch.Request{URL: "http://site.example/" + strings.Repeat("a", 20_000)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.Get(t.Context(), &tt.req)
			wantOutcome(t, err, link.OutcomeOutOfScope)
		})
	}
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []fetch.Config{
		{Resolver: loopback{}},
		{UserAgent: "a\r\nb", Resolver: loopback{}},
		{UserAgent: "a"},
		{UserAgent: "a", Resolver: loopback{}, From: "\n"},
		{UserAgent: "a", Resolver: loopback{}, MaxBody: -1},
		{UserAgent: "a", Resolver: loopback{}, MaxIdleConns: -1},
	} {
		if _, err := fetch.New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
