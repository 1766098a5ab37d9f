package node

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/dashboard"
)

// browse gets a page of a peer.
func browse(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s, %v", url, res.Status, raw, err)
	}
	return string(raw)
}

// A peer shows itself and its ring; its link logs in, and its port and its logins survive a
// restart.
func TestDashboard(t *testing.T) {
	ring := ringOf(t, 2, func(_ int, c *Config) {
		// On 127.0.0.1 a connection of any process may take the port while the peer restarts, as its
		// own end. No other test uses this address.
		c.Dashboard = "127.0.7.1:0"
	})
	a, b := ring[0], ring[1]
	d, err := a.Dashboard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Timeout: patience}
	if page := browse(t, browser, d.URL); strings.Contains(page, "<button") || !strings.Contains(page, member.Short(b.ring.net.Self())) {
		t.Error("the page does not know the other peer, or has buttons for everybody")
	}
	if page := browse(t, browser, d.Login); !strings.Contains(page, "<button") {
		t.Error("the link gives no buttons")
	}
	if s, err := a.Status(t.Context(), false); err != nil || s.Dashboard != d.URL {
		t.Errorf("status says %q, %v", s.Dashboard, err)
	}
	browser.CloseIdleConnections()
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	again := startWith(t, a.cfg)
	settle(t, []*testPeer{again, b})
	if url := again.url(); url != d.URL {
		t.Errorf("after a restart the page is at %s, was at %s", url, d.URL)
	}
	if page := browse(t, browser, again.url()); !strings.Contains(page, "<button") {
		t.Error("a restart ends the login")
	}
}

// What is crawled is shown with the way to the site, and what was fetched is counted.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestDashboardOfACrawl(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	p := startRing(t, 1)[0]
	if _, err := p.Post(t.Context(), control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen *dashboard.Crawled
	for seen == nil {
		c, err := p.shown().Crawled(ctx, 3)
		if err != nil {
			t.Fatal(err)
		}
		if c.Total > 0 {
			seen = c
		} else if err := loop.Sleep(ctx, 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if h := seen.Hosts[0]; len(seen.Hosts) > 3 || h.Worker != p.ring.net.Self().String() || !strings.HasSuffix(h.Host, ".web.localhost:"+strconv.Itoa(web.port)) {
		t.Errorf("%+v", seen)
	}
	waitIdle(t, p)
	if g, err := p.shown().Gauges(ctx); err != nil || g.Pages == 0 || g.SiteBytes == 0 || g.Queue != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestNoDashboard(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig(t.TempDir(), ProfileLab)
	cfg.Dashboard = "off"
	p := startWith(t, cfg)
	if _, err := p.Dashboard(t.Context()); control.KindOf(err) != control.KindUsage || p.url() != "" {
		t.Errorf("a page at %q, %v", p.url(), err)
	}
	cfg.DataDir, cfg.Dashboard = t.TempDir(), "example.org:80"
	if _, err := New(t.Context(), cfg, quietLog); control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), `dashboard "example.org:80"`) {
		t.Errorf("a page under a name: %v", err)
	}
}
