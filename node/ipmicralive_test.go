package node

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/latency"
)

// farApart are three peers and two rows of sites, of which the first is near the first peer and the second near the second.
type farApart struct{}

func (farApart) Size() int { return 5 }

func (farApart) RTT(i, j int) time.Duration {
	i, j = min(i, j), max(i, j)
	switch {
	case j < 3:
		return time.Millisecond
	case j-3 == i:
		return 2 * time.Millisecond
	default:
		return 90 * time.Millisecond
	}
}

// TestSubnetsOfRealPeers (papers, 2.5): the first host of a subnet is probed by candidates of its owner and goes to the one that is near; the second, which
// another peer owns, goes to it as well, and nobody probes it.
func TestSubnetsOfRealPeers(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) { c.Hosts, c.PagesPerHost = 40, 12 })
	dir := t.TempDir()
	var peers []*testPeer
	var plan *latency.Plan
	for i := range 3 {
		cfg := DefaultConfig(filepath.Join(dir, fmt.Sprint(i)), ProfileLab)
		cfg.AllowPrivate, cfg.Delay, cfg.Network, cfg.LeaseTTL, cfg.Placement = true, 0, "subnets", 2*time.Second, placeIPMicra
		cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})
		var err error
		if plan, err = latency.New(farApart{}, i, 3); err != nil {
			t.Fatal(err)
		}
		cfg.Latency = plan
		if i > 0 {
			cfg.Bootstrap = []string{peers[0].room.net.Addrs()[0]}
		}
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	urls := make(map[string][]string) // by host
	for _, u := range web.Truth(webgen.Walk{Port: web.port, Everywhere: true, MaxDepth: -1}).URLs {
		urls[link.Host(u)] = append(urls[link.Host(u)], u)
	}
	for row := range 2 {
		hosts := ofTwoOwners(t, peers[0], plan, row+3, urls)
		near := peers[row].room.net.Self().String()
		for i, host := range hosts {
			var depth uint32
			crawlAll(t, peers[0], control.JobSpec{URLs: urls[host], Scope: []string{"*.web.localhost"}, MaxDepth: &depth})
			h, err := peers[2].Host(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			subnet := fmt.Sprintf("127.128.%d.0/24 is delegated to it", row+3)
			if h.PlacedAt != near || !strings.Contains(h.PlacedWhy, subnet) || (len(h.Placement) > 0) != (i == 0) {
				t.Errorf("row %d, host %d: crawled by %s after %d probes, %q; want %s and %q", row+3, i, h.PlacedAt, len(h.Placement), h.PlacedWhy, near, subnet)
			}
		}
	}
}

// ofTwoOwners finds two hosts of a row with enough URLs to be probed that belong to different peers.
func ofTwoOwners(t *testing.T, p *testPeer, plan *latency.Plan, row int, urls map[string][]string) []string {
	t.Helper()
	first, owner := "", ""
	for host, list := range urls {
		name, _, _ := strings.Cut(host, ":")
		if plan.SiteOf(name) != row || len(list) < 9 {
			continue
		}
		l, err := p.Lookup(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first, owner = host, l.Owner
		} else if l.Owner != owner {
			return []string{first, host}
		}
	}
	t.Fatalf("one peer owns all hosts of row %d", row)
	return nil
}
