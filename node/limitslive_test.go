package node

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// TestPausedPeer: a paused peer keeps its part of the ring and fetches nothing, and the others do
// its part of the crawl. Its pause outlasts a restart.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestPausedPeer(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	peers := startRing(t, 2)
	l, err := peers[1].Pause(t.Context(), 0)
	if err != nil || !l.Paused {
		t.Fatalf("paused %+v, %v", l, err)
	}
	s, err := peers[1].Status(t.Context(), false)
	if err != nil || s.State != inspect.StatePaused || s.Holding == "" || !s.HoldingUntil.IsZero() {
		t.Errorf("status of a pause without end: state %q, holding %q until %v, %v", s.State, s.Holding, s.HoldingUntil, err)
	}
	crawlAll(t, peers[0], control.JobSpec{URLs: web.Seeds(web.port)[:2], Scope: []string{"*.web.localhost"}})
	truth := webtruth.Of(web, webtruth.Walk{Port: web.port, Seeds: []int{0, 1}, Everywhere: true, MaxDepth: -1})
	diff(t, fetchedURLs(t, peers[0]), truth.URLs)
	checkAudit(t, web, peers...)
	if w := peers[1].crawl.Worker.Stats(); w.Requests > 0 {
		t.Errorf("the paused peer made %d requests", w.Requests)
	}
	// How many that are is up to the peers' keys.
	part := make(map[string]bool)
	for _, u := range truth.URLs {
		if host := link.Host(u); peers[1].ring.dht.Serves(ring.HostKey(host)) {
			part[host] = true
		}
	}
	if s, err := peers[1].Status(t.Context(), false); err != nil || s.HostsOwned != int64(len(part)) {
		t.Errorf("the paused peer owns %d hosts, %v: its part are %d", s.HostsOwned, err, len(part))
	}

	dir := peers[1].cfg.DataDir
	if err := peers[1].stop(); err != nil {
		t.Fatal(err)
	}
	again := startPeer(t, filepath.Clean(dir), 2, peers[0].ring.net.Addrs()[0])
	settle(t, []*testPeer{peers[0], again})
	if l, err = again.Limits(t.Context()); err != nil || !l.Paused || l.Holds[0].Rule != volunteer.ByUser {
		t.Errorf("after a restart: %+v, %v", l, err)
	}
	if l, err = again.Pause(t.Context(), time.Hour); err != nil || l.Holds[0].Until.IsZero() {
		t.Errorf("a pause with an end: %+v, %v", l, err)
	}
	if l, err = again.Resume(t.Context()); err != nil || l.Paused {
		t.Errorf("resumed: %+v, %v", l, err)
	}
}

// TestLimitsActWhileCrawling: what is set holds at the limiters at once, and the bytes of the crawl
// are counted for the quotas.
func TestLimitsActWhileCrawling(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	p := startRing(t, 1)[0]
	if _, err := p.SetLimits(t.Context(), map[string]string{"bandwidth": "100MB", "bandwidth-up": "50MB"}); err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for !ok() {
			if err := loop.Sleep(ctx, 10*time.Millisecond); err != nil {
				t.Fatalf("%s: waited in vain", what)
			}
		}
	}
	await("the caps", func() bool { return p.line.Down.Rate() == 100e6 && p.line.Up.Rate() == 50e6 })
	crawlAll(t, p, control.JobSpec{URLs: web.Seeds(web.port)[:1], Scope: []string{"*.web.localhost"}})
	came := p.crawl.Worker.Stats().WireBytes
	await("the count of the day", func() bool {
		l := p.limits.View()
		return l.Used.Day > came && l.Used.Month == l.Used.Day // and what went
	})
	if _, err := p.SetLimits(t.Context(), map[string]string{"quota-day": "1kB"}); err != nil {
		t.Fatal(err)
	}
	if l, err := p.Limits(t.Context()); err != nil || !l.Paused || l.Holds[0].Rule != volunteer.KeyQuotaDay || l.Holds[0].Until.IsZero() {
		t.Errorf("with the day's quota used up: %+v, %v", l, err)
	}
}
