package fetch_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// onlyHTTP2 has a server refuse whoever does not speak HTTP/2.
func onlyHTTP2(srv *httptest.Server) { srv.EnableHTTP2, srv.TLS = true, http2Only() }

func http2Only() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			return nil, nil //nolint:nilnil // the configuration there is
		}
		return &tls.Config{NextProtos: []string{"another"}}, nil
	}}
}

// tlsServer serves h over TLS by HTTP/2 alone, and returns the URL by a name that its certificate
// is for, and a change that trusts it.
func tlsServer(t *testing.T, h http.HandlerFunc) (url string, trust func(*fetch.Config)) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	onlyHTTP2(srv)
	return startTLS(t, srv)
}

func startTLS(t *testing.T, srv *httptest.Server) (url string, trust func(*fetch.Config)) {
	t.Helper()
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return strings.Replace(srv.URL, "127.0.0.1", "example.com", 1), func(c *fetch.Config) { c.Lab().RootCAs = roots }
}

func TestHTTP2(t *testing.T) {
	var conns atomic.Int32
	var last atomic.Value
	page := markup(200_000)
	url, trust := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		if last.Swap(r.RemoteAddr) != r.RemoteAddr {
			conns.Add(1)
		}
		if r.ProtoMajor != 2 {
			t.Errorf("spoken %s", r.Proto)
		}
		w.Header().Set("X-Path", r.RequestURI)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(pack("gzip", page))
	})
	f := newFetcher(t, trust)
	for range 3 {
		resp := get(t, f, url+"//a%7cb?c=[d]")
		if resp.Proto != "HTTP/2.0" || string(resp.Body) != string(page) || resp.Header.Get("X-Path") != "//a%7cb?c=[d]" {
			t.Errorf("%s %q, %d bytes", resp.Proto, resp.Header.Get("X-Path"), len(resp.Body))
		}
		head := string(resp.ResponseHead)
		if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || !strings.Contains(head, "\r\nContent-Length: 200000\r\n") ||
			!strings.Contains(head, "\r\nX-Crawler-Content-Encoding: gzip\r\n") {
			t.Errorf("head %q", head)
		}
		if !strings.HasPrefix(string(resp.RequestHead), "GET //a%7cb?c=[d] HTTP/1.1\r\nHost: example.com:") {
			t.Errorf("request head %q", resp.RequestHead)
		}
		if resp.WireBytes < 1000 {
			t.Errorf("%d bytes on the wire", resp.WireBytes)
		}
		resp.Release()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestHTTP2Limits(t *testing.T) {
	url, trust := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = w.Write(make([]byte, 200_000))
		case "/head":
			w.Header().Set("A", strings.Repeat("a", 100_000))
		default:
			_, _ = io.WriteString(w, "fine")
		}
	})
	f := newFetcher(t, func(c *fetch.Config) { trust(c); c.MaxBody = 100_000 })
	for _, tt := range []struct {
		path string
		want link.Outcome
	}{
		{"/big", link.OutcomeTooLarge},
		{"/head", link.OutcomeHTTPError},
	} {
		t.Run(tt.path, func(t *testing.T) {
			_, err := f.Get(t.Context(), &fetch.Request{URL: url + tt.path})
			wantOutcome(t, err, tt.want)
		})
	}
	t.Run("cut", func(t *testing.T) {
		resp, err := f.Get(t.Context(), &fetch.Request{URL: url + "/big", Cut: true, MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Truncated != fetch.TruncatedLength || len(resp.Body) != 1000 {
			t.Errorf("%d bytes, truncated %q", len(resp.Body), resp.Truncated)
		}
		resp.Release()
	})
	t.Run("permit", func(t *testing.T) {
		_, err := f.Get(t.Context(), &fetch.Request{URL: url, Permit: func(netip.Addr) error { return errors.New("no") }})
		if !errors.Is(err, fetch.ErrNotPermitted) {
			t.Errorf("error %v", err)
		}
	})
	get(t, f, url).Release()
}

// TestHTTP2BoundsOnTime is TestBoundsOnTime and TestCancel for HTTP/2, whose streams have no
// deadlines.
func TestHTTP2BoundsOnTime(t *testing.T) {
	gone := errors.New("lease lapsed")
	wantGone := func(t *testing.T, _ *fetch.Response, err error) {
		if _, ok := errors.AsType[*fetch.Error](err); ok || !errors.Is(err, gone) {
			t.Errorf("error %v, want %v", err, gone)
		}
	}
	serve := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow-body" {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	for _, tt := range []struct {
		name, path string
		within     time.Duration // of the context; zero: no limit
		after      time.Duration
		check      func(t *testing.T, resp *fetch.Response, err error)
	}{
		{"slow head", "/slow-head", 0, 20 * time.Second, func(t *testing.T, _ *fetch.Response, err error) {
			wantOutcome(t, err, link.OutcomeTimeout)
			if e, _ := errors.AsType[*fetch.Error](err); e.Phase != fetch.PhaseHead {
				t.Errorf("in phase %s, want %s", e.Phase, fetch.PhaseHead)
			}
		}},
		{"slow body", "/slow-body", 0, 10 * time.Second, func(t *testing.T, resp *fetch.Response, err error) {
			if err != nil || resp.Truncated != fetch.TruncatedTime || string(resp.Body) != "begun" {
				t.Errorf("%v, want what arrived, truncated for time", err)
			}
		}},
		{"canceled in the head", "/slow-head", 3 * time.Second, 3 * time.Second, wantGone},
		{"canceled in the body", "/slow-body", 3 * time.Second, 3 * time.Second, wantGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true }, serve, func(t *testing.T, f *fetch.Fetcher) {
				ctx := t.Context()
				if tt.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeoutCause(ctx, tt.within, gone)
					defer cancel()
				}
				begun := time.Now()
				resp, err := f.Get(ctx, &fetch.Request{URL: "https://slow.example" + tt.path})
				if took := time.Since(begun); took < tt.after || took > tt.after+time.Second {
					t.Errorf("after %s, want %s", took, tt.after)
				}
				tt.check(t, resp, err)
			})
		})
	}
}

// A server that speaks both is spoken to in HTTP/1.1, over one connection.
func TestHTTP1OverTLS(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	url, trust := startTLS(t, srv)
	f := newFetcher(t, trust)
	for range 2 {
		resp := get(t, f, url)
		if string(resp.Body) != "HTTP/1.1" || resp.Proto != "HTTP/1.1" {
			t.Errorf("spoken %s", resp.Body)
		}
		resp.Release()
	}
}

func TestTLSFailures(t *testing.T) {
	url, trust := tlsServer(t, func(http.ResponseWriter, *http.Request) {})
	plain := raw(t, func(c net.Conn, _ int) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	hangsUp := raw(t, func(net.Conn, int) {})
	tests := []struct {
		name, url string
		change    func(*fetch.Config)
	}{
		{"unknown authority", url, nil},
		{"other name", strings.Replace(url, "example.com", "other.example", 1), trust},
		{"no TLS", strings.Replace(plain, "http:", "https:", 1), nil},
		{"hangs up", strings.Replace(hangsUp, "http:", "https:", 1), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newFetcher(t, tt.change).Get(t.Context(), &fetch.Request{URL: tt.url})
			wantOutcome(t, err, link.OutcomeTLS)
		})
	}
	t.Run("accepted where asked", func(t *testing.T) {
		get(t, newFetcher(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true }), url).Release()
	})
	t.Run("silent", func(t *testing.T) {
		silent := raw(t, func(c net.Conn, _ int) { _, _ = io.Copy(io.Discard, c) })
		f := newFetcher(t, func(c *fetch.Config) { c.Lab().TLSTimeout = 50 * time.Millisecond })
		_, err := f.Get(t.Context(), &fetch.Request{URL: strings.Replace(silent, "http:", "https:", 1)})
		wantOutcome(t, err, link.OutcomeTimeout)
	})
}

// TestLongChain: neither a connection nor a session is kept of a server that shows a great many
// certificates; of others both are.
func TestLongChain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		extra int
		conns int64
	}{{"one certificate", 0, 1}, {"a hundred", 100, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var conns, resumed atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.TLS.DidResume {
					resumed.Add(1)
				}
			}))
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			url, trust := startTLS(t, srv)
			cert := &srv.TLS.Certificates[0]
			for range tt.extra {
				cert.Certificate = append(cert.Certificate, cert.Certificate[0])
			}
			f := newFetcher(t, trust)
			for range 3 {
				get(t, f, url).Release()
			}
			if conns.Load() != tt.conns || resumed.Load() != 0 {
				t.Errorf("%d connections, %d resumed; want %d, and none", conns.Load(), resumed.Load(), tt.conns)
			}
		})
	}
}

// TestHTTP2NoStreams: a server that allows no request is not waited for.
func TestHTTP2NoStreams(t *testing.T) {
	told := make(chan struct{})
	srv := httptest.NewUnstartedServer(nil)
	onlyHTTP2(srv)
	srv.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			t.Error(err)
			return
		}
		fr := http2.NewFramer(c, c)
		if err := fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}); err != nil {
			t.Error(err)
			return
		}
		for {
			frame, err := fr.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if f.IsAck() {
					close(told)
				}
			case *http2.HeadersFrame:
				t.Error("a request that is not allowed")
			}
		}
	}}
	url, trust := startTLS(t, srv)
	f := newFetcher(t, func(c *fetch.Config) {
		trust(c)
		c.Lab().HeaderTimeout = 20 * time.Second
	})
	begun := time.Now()
	_, err := f.Get(t.Context(), &fetch.Request{URL: url + "/", Permit: func(netip.Addr) error {
		<-told
		return nil
	}})
	var fail *fetch.Error
	if !errors.As(err, &fail) || fail.Phase != fetch.PhaseHead || fail.Outcome == link.OutcomeTimeout {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// priorKnowledge is a TLS server that agrees on no protocol (ALPN) and speaks HTTP/2 alone.
type priorKnowledge struct {
	url   string
	conns atomic.Int32
	mute  atomic.Bool // it closes every connection
}

// newPriorKnowledge starts one that sends answer to anything but HTTP/2 and closes the connection.
func newPriorKnowledge(t *testing.T, answer string) *priorKnowledge {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: cert.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	s := &priorKnowledge{url: "https://" + ln.Addr().String()}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			serving.Go(func() { s.serve(c, answer) })
		}
	})
	return s
}

func (s *priorKnowledge) serve(c net.Conn, answer string) {
	defer c.Close()
	r := bufio.NewReader(c)
	if start, err := r.Peek(3); err != nil || string(start) != "PRI" || s.mute.Load() {
		_, _ = io.WriteString(c, answer)
		return
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	new(http2.Server).ServeConn(peeked{c, r}, &http2.ServeConnOpts{Handler: handler}) //nolint:staticcheck // net/http serves listeners only
}

// peeked is a connection of which a reader has read ahead.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }
