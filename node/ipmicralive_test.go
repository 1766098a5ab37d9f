package node

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/latency"
)

// farApart are three peers and two rows of sites, of which the first is near the first peer and the
// second near the second; the others are so far that what a loaded machine adds makes no
// difference.
type farApart struct{}

func (farApart) Size() int { return 5 }

func (farApart) RTT(i, j int) time.Duration {
	i, j = min(i, j), max(i, j)
	switch {
	case j < 3:
		return time.Millisecond
	case j-3 == i:
		return 10 * time.Millisecond
	default:
		return 1500 * time.Millisecond
	}
}

// TestSubnetsOfRealPeers (papers 2.5): the first host of a subnet is probed by candidates of its
// owner, one of which takes the subnet; the second host, which another peer owns, goes to that one
// as well, and nobody probes it.
func TestSubnetsOfRealPeers(t *testing.T) {
	fullOnly(t)
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) {
		c.Hosts, c.PagesPerHost = 40, 12
		c.SitemapShare, c.RedirectShare, c.ErrorShare = 0, 0, 0
	})
	dir := t.TempDir()
	var peers []*testPeer
	var plan *latency.Plan
	for i := range 3 {
		cfg := DefaultConfig(filepath.Join(dir, fmt.Sprint(i)), ProfileLab)
		cfg.AllowPrivate, cfg.Delay, cfg.Network, cfg.LeaseTTL, cfg.Placement = true, 0, "subnets", 30*time.Second, "ipmicra"
		cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})
		var err error
		if plan, err = latency.New(farApart{}, i, 3); err != nil {
			t.Fatal(err)
		}
		cfg.Latency = plan
		if i > 0 {
			cfg.Bootstrap = []string{peers[0].ring.net.Addrs()[0]}
		}
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	urls := make(map[string][]string) // by host
	for _, u := range webtruth.Of(web, webtruth.Walk{Port: web.port, Everywhere: true, MaxDepth: -1}).URLs {
		urls[link.Host(u)] = append(urls[link.Host(u)], u)
	}
	for row := range 2 {
		first, others := ofTwoOwners(t, peers, plan, row+3, urls)
		subnet := fmt.Sprintf("127.128.%d.0/24 is delegated to it", row+3)
		worker, unprobed := "", false
		for _, host := range append([]string{first}, others...) {
			var depth uint32
			crawlAll(t, peers[0], control.JobSpec{URLs: urls[host], Scope: []string{"*.web.localhost"}, MaxDepth: &depth})
			h, err := peers[2].Host(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d probes, at %s, %s", host, len(h.Placement), h.PlacedAt, h.PlacedWhy)
			// A host whose downloads grow slower, as on a busy machine, is placed anew with what is
			// left of it.
			anew := len(h.Placement) > 0 && strings.HasPrefix(h.PlacedWhy, "few URLs")
			if host == first && len(h.Placement) == 0 || !anew && !strings.Contains(h.PlacedWhy, subnet) {
				t.Errorf("row %d: crawled by %s after %d probes, %q; want %q", row+3, h.PlacedAt, len(h.Placement), h.PlacedWhy, subnet)
			}
			if unprobed = len(h.Placement) == 0 && h.PlacedAt == worker; unprobed {
				break // on a machine where everything takes seconds it may be a later one, as the ring did not answer in time
			}
			worker = h.PlacedAt
		}
		if !unprobed {
			t.Errorf("row %d: all of %v were probed after %s", row+3, others, first)
		}
	}
}

// ofTwoOwners finds hosts of a row with enough URLs to be probed: one, and some that belong to
// other peers.
func ofTwoOwners(t *testing.T, peers []*testPeer, plan *latency.Plan, row int, urls map[string][]string) (first string, others []string) {
	t.Helper()
	var owner *testPeer
	for host, list := range urls {
		name, _, _ := strings.Cut(host, ":")
		if plan.SiteOf(name) != row || len(list) < 9 {
			continue
		}
		serves := func(p *testPeer) bool { return p.ring.dht.Serves(ring.HostKey(host)) }
		of := peers[max(0, slices.IndexFunc(peers, serves))]
		if first == "" {
			first, owner = host, of
		} else if of != owner && len(others) < 4 {
			others = append(others, host)
		}
	}
	if len(others) == 0 {
		t.Fatalf("one peer owns all hosts of row %d", row)
	}
	return first, others
}
