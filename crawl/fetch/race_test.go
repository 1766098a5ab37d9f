package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// addresses is a resolver with one list for every name.
type addresses []netip.Addr

func (a addresses) Lookup(context.Context, string) ([]netip.Addr, error) { return a, nil }

// dials records when each address was dialled. Those of silent never answer, and those of refused
// refuse at once; another one answers after rtt.
type dials struct {
	silent, refused []string
	rtt             time.Duration

	mu    sync.Mutex
	begun time.Time
	at    map[string]time.Duration
}

func (d *dials) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.at[host] = time.Since(d.begun)
	d.mu.Unlock()
	switch {
	case slices.Contains(d.refused, host):
		return nil, errors.New("refused")
	case slices.Contains(d.silent, host):
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(d.rtt)
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		buf := make([]byte, 4096)
		if _, err := there.Read(buf); err == nil {
			_, _ = there.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))
		}
	}()
	return here, nil
}

// TestConnectRacesAddresses checks order and times of connection attempts (RFC 8305).
func TestConnectRacesAddresses(t *testing.T) {
	many := make([]string, 31)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}).String()
	}
	for name, tt := range map[string]struct {
		addrs []string
		d     *dials
		want  string        // address that answers
		after time.Duration // its start
	}{
		"one":                     {addrs: []string{"192.0.2.1"}, d: &dials{rtt: 400 * time.Millisecond}, want: "192.0.2.1"},
		"slow first":              {addrs: []string{"192.0.2.1", "192.0.2.2"}, d: &dials{rtt: 200 * time.Millisecond}, want: "192.0.2.1"},
		"silent first":            {addrs: []string{"192.0.2.1", "192.0.2.2"}, d: &dials{silent: []string{"192.0.2.1"}}, want: "192.0.2.2", after: 250 * time.Millisecond},
		"refused first":           {addrs: []string{"192.0.2.1", "192.0.2.2"}, d: &dials{refused: []string{"192.0.2.1"}}, want: "192.0.2.2"},
		"families alternate":      {addrs: []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"}, d: &dials{silent: []string{"192.0.2.1", "192.0.2.2"}}, want: "2001:db8::1", after: 250 * time.Millisecond},
		"last of thirty-two":      {addrs: append(slices.Clone(many), "192.0.2.1"), d: &dials{silent: many}, want: "192.0.2.1", after: 31 * 250 * time.Millisecond},
		"refused after a silence": {addrs: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, d: &dials{silent: []string{"192.0.2.1"}, refused: []string{"192.0.2.2"}}, want: "192.0.2.3", after: 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := tt.d
				d.begun, d.at = time.Now(), make(map[string]time.Duration)
				var list addresses
				for _, a := range tt.addrs {
					list = append(list, netip.MustParseAddr(a))
				}
				f := newFetcher(t, func(c *fetch.Config) { c.Resolver, c.Dial = list, d.dial })
				resp := get(t, f, "http://site.example/")
				if resp.Addr.Addr().String() != tt.want || resp.Connect != d.rtt || d.at[tt.want] != tt.after {
					t.Errorf("%s answered, dialled after %s, connected in %s; want %s, %s, %s", resp.Addr, d.at[tt.want], resp.Connect, tt.want, tt.after, d.rtt)
				}
				resp.Release()
				if rtt, at, err := f.Probe(t.Context(), "site.example", "http"); err != nil || at.String() != tt.want || rtt != d.rtt {
					t.Errorf("probe: %s, %s, %v; want %s, %s", rtt, at, err, d.rtt, tt.want)
				}
			})
		})
	}
}

// TestConnectReturnsFirstFailure checks that addresses that all fail take no longer than one.
func TestConnectReturnsFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := []string{"192.0.2.1", "2001:db8::1"}
		d := &dials{silent: addrs, begun: time.Now(), at: make(map[string]time.Duration)}
		f := newFetcher(t, func(c *fetch.Config) {
			c.Dial = d.dial
			c.Resolver = addresses{netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1])}
		})
		_, err := f.Get(t.Context(), &fetch.Request{URL: "http://site.example/"})
		wantOutcome(t, err, link.OutcomeTimeout)
		if took := time.Since(d.begun); took != 10*time.Second {
			t.Errorf("after %s, want the time to connect, 10s", took)
		}
	})
}

// TestHTTP2WithoutALPN checks a server that agrees on no protocol and speaks HTTP/2 alone: it
// closes the connection when it gets HTTP/1.1, or sends its settings first.
func TestHTTP2WithoutALPN(t *testing.T) {
	for name, answer := range map[string]string{"closes": "", "sends settings": "\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			server := newPriorKnowledge(t, answer)
			f := newFetcher(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true })
			permits := 0
			request := &fetch.Request{URL: server.url + "/page", Permit: func(netip.Addr) error { permits++; return nil }}
			for range 2 {
				resp, err := f.Get(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Status != http.StatusOK || string(resp.Body) != "/page" || resp.Proto != "HTTP/2.0" {
					t.Errorf("%d %s %q", resp.Status, resp.Proto, resp.Body)
				}
				resp.Release()
			}
			if permits != 3 || server.conns.Load() != 2 {
				t.Errorf("%d requests over %d connections, want 3 and 2", permits, server.conns.Load())
			}
			f.Close()

			// A polite request is not repeated within the exchange; the next one is HTTP/2.
			f = newFetcher(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true })
			request.Once = true
			if _, err := f.Get(t.Context(), request); !errors.Is(err, fetch.ErrStale) {
				t.Fatalf("%v, want ErrStale", err)
			}
			get(t, f, request.URL).Release()
		})
	}
}

// TestHangupWithoutALPN checks that a server that answers neither protocol is asked for HTTP/1.1
// again by the next request.
func TestHangupWithoutALPN(t *testing.T) {
	server := newPriorKnowledge(t, "")
	server.mute.Store(true)
	f := newFetcher(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true })
	for range 2 {
		_, err := f.Get(t.Context(), &fetch.Request{URL: server.url + "/"})
		wantOutcome(t, err, link.OutcomeHTTPError)
	}
	if n := server.conns.Load(); n != 4 {
		t.Errorf("%d connections, want two for each of two requests", n)
	}
}
