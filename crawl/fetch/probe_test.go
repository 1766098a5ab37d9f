package fetch_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// siteOf is a server's host and port under a name that the tests' resolver knows.
func siteOf(srv *httptest.Server) string {
	_, at, _ := strings.Cut(srv.URL, "://")
	return strings.Replace(at, "127.0.0.1", "site.example", 1)
}

func TestLocate(t *testing.T) {
	f := newFetcher(t, nil)
	for host, want := range map[string]string{"site.example": "127.0.0.1:443", "site.example:8080": "127.0.0.1:8080", "192.0.2.1": "192.0.2.1:443"} {
		got, err := f.Locate(t.Context(), host, "https")
		if err != nil || len(got) != 1 || got[0] != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, %v; want %s", host, got, err, want)
		}
	}
	if _, err := newFetcher(t, func(c *fetch.Config) { c.AllowPrivate = false }).Locate(t.Context(), "site.example", "http"); err == nil {
		t.Error("the guard lets loopback pass")
	}
}

// TestProbeHead: one HEAD request on a connection of its own, timed from the request to the answer;
// also over TLS.
func TestProbeHead(t *testing.T) {
	const pause = 200 * time.Millisecond // of which a busy machine may take some before the clock begins
	asked := make(chan *http.Request, 8)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		time.Sleep(pause)
		w.WriteHeader(http.StatusTeapot)
	})
	for scheme, srv := range map[string]*httptest.Server{"http": httptest.NewServer(handler), "https": httptest.NewTLSServer(handler)} {
		t.Run(scheme, func(t *testing.T) {
			defer srv.Close()
			f := newFetcher(t, func(c *fetch.Config) { c.Lab().InsecureTLS = true })
			h, err := f.ProbeHead(t.Context(), siteOf(srv), scheme)
			if err != nil {
				t.Fatal(err)
			}
			if h.RTT < pause/2 || h.Status != http.StatusTeapot || h.Addr != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%+v", h)
			}
			r := <-asked
			if r.Method != http.MethodHead || r.URL.Path != "/" || r.Host != siteOf(srv) || r.UserAgent() == "" || r.ProtoMajor != 1 {
				t.Errorf("asked %s %s of %s as %q over %s", r.Method, r.URL, r.Host, r.UserAgent(), r.Proto)
			}
		})
	}
}

// answering serves one connection with what a site might say.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, answer)
	}()
	return l.Addr().String()
}

func TestProbeHeadRefusesWhatIsNoAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":     "",
		"no protocol": "SSH-2.0-server\r\n",
		"no status":   "HTTP/1.1 okay\r\n",
		"no end":      "HTTP/1.1 200 " + strings.Repeat("x", 1<<16),
		"cut short":   "HTTP/1.1 2",
	} {
		if h, err := newFetcher(t, nil).ProbeHead(t.Context(), answering(t, answer), "http"); err == nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestProbeHeadSendsNothingBehindItsTime(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFetcher(t, func(c *fetch.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			defer cancel() // the time is over when the connection stands
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	if _, err := f.ProbeHead(ctx, siteOf(srv), "http"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
