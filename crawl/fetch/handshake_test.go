package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// chainServer shows its certificate and as many copies of it more.
func chainServer(t *testing.T, copies int) (url string, trust func(*fetch.Config)) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "page") }))
	url, trust = startTLS(t, srv)
	cert := &srv.TLS.Certificates[0]
	for range copies {
		cert.Certificate = append(cert.Certificate, cert.Certificate[0])
	}
	return url, trust
}

// TestLongHandshake: a chain of certificates beyond the bound is the end of the handshake, for a
// page and for a probe; one below it is counted as memory of the exchange, and waits for that where
// there is none.
func TestLongHandshake(t *testing.T) {
	url, trust := chainServer(t, 200)
	f := newFetcher(t, trust)
	_, err := f.Get(t.Context(), &fetch.Request{URL: url})
	wantOutcome(t, err, link.OutcomeTLS)
	if !strings.Contains(err.Error(), "handshake") {
		t.Errorf("error %v", err)
	}
	_, err = f.ProbeHead(t.Context(), strings.TrimPrefix(url, "https://"), "https")
	wantOutcome(t, err, link.OutcomeTLS)

	for _, tt := range []struct {
		name   string
		copies int
		memory int64
		counts bool
		waits  int
	}{
		{"usual", 1, 0, false, 0},
		{"long", 100, 8 << 20, true, 0},
		{"long without memory", 100, 0, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, trust := chainServer(t, tt.copies)
			room := &testRoom{memory: tt.memory}
			resp, err := newFetcher(t, trust).Get(t.Context(), &fetch.Request{URL: url, Room: room})
			if err != nil {
				t.Fatal(err)
			}
			resp.Release()
			if counts := room.granted > 100*500; counts != tt.counts || len(room.waits) != tt.waits {
				t.Errorf("%d bytes counted, waited for %v", room.granted, room.waits)
			}
		})
	}
}

// TestLargeHandshakesTakeTurns: of servers that send much in a handshake and do not end it, a few
// are read from at once; another one waits for its turn, and an ordinary one does not.
func TestLargeHandshakesTakeTurns(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const turns, more = 4, 3
		record := append([]byte{22, 3, 3, 0x40, 0, 2, 0, 0xea, 0x60}, make([]byte, 16<<10-4)...) // of the beginning of a message of 60,000 bytes
		var taken atomic.Int32
		servers := make(chan net.Conn, turns+more)
		f := newFetcher(t, func(c *fetch.Config) {
			c.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, server) }()
				go func() {
					if strings.HasSuffix(address, ":80") {
						_, _ = io.WriteString(server, "This is no HTTPS\r\n")
						return
					}
					servers <- server
					for range 2 {
						if _, err := server.Write(record); err != nil {
							return
						}
					}
					taken.Add(1)
				}()
				return client, nil
			}
		})
		var group sync.WaitGroup
		errs := make([]error, turns+more)
		ask := func(from, to int) {
			for i := from; i < to; i++ {
				group.Go(func() { _, errs[i] = f.Get(t.Context(), &fetch.Request{URL: fmt.Sprintf("https://n%d.example/", i)}) })
			}
			synctest.Wait()
		}
		ask(0, turns)
		time.Sleep(5 * time.Second)
		ask(turns, turns+more)
		if n := taken.Load(); n != turns {
			t.Errorf("%d large handshakes go on, want %d", n, turns)
		}
		_, err := f.Get(t.Context(), &fetch.Request{URL: "https://usual.example:80/"})
		wantOutcome(t, err, link.OutcomeTLS)
		group.Wait()
		if n := taken.Load(); n != turns+more {
			t.Errorf("%d large handshakes went on in the end, want %d", n, turns+more)
		}
		for _, err := range errs {
			wantOutcome(t, err, link.OutcomeTimeout)
		}
		close(servers)
		for s := range servers {
			s.Close()
		}
	})
}

// TestClosedConnectionIsForgotten: neither a response that is still worked on nor HTTP/2, which
// minds its connections for five seconds more, holds what a server with a long chain has shown.
func TestClosedConnectionIsForgotten(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("http2 ", http2), func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "page") }))
			if http2 {
				onlyHTTP2(srv)
			}
			url, trust := startTLS(t, srv)
			cert := &srv.TLS.Certificates[0]
			for range 60 {
				cert.Certificate = append(cert.Certificate, cert.Certificate[0])
			}
			type dialled struct{ net.Conn }
			var made weak.Pointer[dialled]
			f := newFetcher(t, func(c *fetch.Config) {
				trust(c)
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, address)
					d := &dialled{nc}
					made = weak.Make(d)
					return d, err
				}
			})
			resp := get(t, f, url)
			begun := time.Now()
			for made.Value() != nil && time.Since(begun) < 3*time.Second {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			if made.Value() != nil {
				t.Error("the connection is still held")
			}
			if string(resp.Body) != "page" {
				t.Errorf("body %q", resp.Body)
			}
			resp.Release()
		})
	}
}
