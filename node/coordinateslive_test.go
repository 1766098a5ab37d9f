package node

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/latency"
	"github.com/apoidea/apoidea/node/loop"
)

// star are points behind lines of so many ms to one place between them. Three peers can tell no
// other world from one such, as heights alone explain any three distances.
type star []int

func (s star) Size() int { return len(s) }

func (s star) RTT(i, j int) time.Duration {
	if i == j {
		return 0
	}
	return time.Duration(s[i]+s[j]) * time.Millisecond
}

// TestTurnsOfEstimators: a host is placed by coordinates among three real peers with distances
// between them and the site. Estimators take their turns at it, so it has never two workers; each
// page is fetched once, and the host ends at the peer that is nearest (papers 3.4 and 5).
func TestTurnsOfEstimators(t *testing.T) {
	fullOnly(t)
	t.Parallel()
	const nearest = 2
	at := star{80, 130, 15, 10} // the last is the site; so far apart that what a loaded machine adds to a page makes no difference
	web := serveWeb(t, func(c *webgen.Config) {
		c.Hosts, c.PagesPerHost, c.Links, c.PageBytes, c.Latency = 1, 40, 20, 2000, 40*time.Millisecond
		c.CrossHostShare, c.ErrorShare, c.RedirectShare, c.NofollowShare, c.SitemapShare = 0, 0, 0, 0, 0
	})
	const delay = 10 * time.Millisecond
	ring := startDistant(t, at, 3, delay)
	waitLocated(t, ring)
	pages := webtruth.Of(web, webtruth.Walk{Port: web.port, Everywhere: true, MaxDepth: -1}).URLs
	crawlAll(t, ring[0], control.JobSpec{URLs: pages, Scope: []string{"*.web.localhost"}}) // all at once, as a host with few URLs is not placed so

	diff(t, fetchedURLs(t, ring[0]), pages)
	seen := checkAudit(t, web, ring...).Hosts[0]
	if len(seen.Workers) != 3 {
		t.Errorf("workers %v, want all three in turn", seen.Workers)
	}
	for _, gap := range []*float64{seen.SmallestGapMS, seen.SmallestGapWithinMS} {
		if gap == nil || *gap < float64(delay)/1e6 {
			t.Errorf("gaps of %v and %v ms between requests, want at least %v", value(seen.SmallestGapMS), value(seen.SmallestGapWithinMS), delay)
		}
	}

	h, err := ring[0].Host(t.Context(), web.Seeds(web.port)[0])
	if err != nil {
		t.Fatal(err)
	}
	if h.PlacedAt != ring[nearest].ring.net.Self().String() {
		t.Errorf("placed at %s: %s; coordinate %+v; want %s", h.PlacedAt, h.PlacedWhy, h.Coordinate, ring[nearest].ring.net.Self())
	}
	c := h.Coordinate
	if c == nil || c.Updates == 0 || len(c.Estimators) != 3 {
		t.Fatalf("coordinate %+v, want one by three estimators", c)
	}
	chosen := 0
	for _, e := range c.Estimators {
		if e.Samples == 0 || e.ExpectedMs <= 0 {
			t.Errorf("estimator %+v", e)
		}
		if e.Chosen {
			chosen++
		}
	}
	if chosen != 1 {
		t.Errorf("%d estimators chosen of %+v", chosen, c.Estimators)
	}
	lines, err := ring[0].Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if l.CoordinateMs == nil || *l.CoordinateMs <= 0 {
			t.Errorf("neighbour without a place: %+v", l)
		}
	}
}

func value(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}

// startDistant runs peers with distances between them, which place by coordinates.
func startDistant(t *testing.T, at latency.Distances, peers int, delay time.Duration) []*testPeer {
	t.Helper()
	dir := t.TempDir()
	var ring []*testPeer
	for i := range peers {
		plan, err := latency.New(at, i, peers)
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig(filepath.Join(dir, fmt.Sprint("peer", i)), ProfileLab)
		cfg.AllowPrivate, cfg.Delay, cfg.Network, cfg.LeaseTTL = true, delay, "test", 30*time.Second
		cfg.Placement, cfg.Latency = "coordinates", plan
		cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}) // a small number
		if i > 0 {
			cfg.Bootstrap = ring[0].ring.net.Addrs()[:1]
		}
		ring = append(ring, startWith(t, cfg))
	}
	settle(t, ring)
	return ring
}

// waitLocated returns when every peer knows where it and the others stand.
func waitLocated(t *testing.T, ring []*testPeer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, p := range ring {
		for _, other := range ring {
			for {
				if _, relative := p.placer.Distance(other.ring.net.Self()); relative != nil && *relative < 0.2 {
					break
				}
				if err := loop.Sleep(ctx, 10*time.Millisecond); err != nil {
					t.Fatalf("no place for %s at %s", other.ring.net.Self(), p.ring.net.Self())
				}
			}
		}
	}
}
