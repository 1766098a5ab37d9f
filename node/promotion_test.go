package node

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/control"
)

// TestWorkerEarnsMembership: in a ring by invitation, a worker crawls, another one checks its
// pages, and the founder invites it once it has served, without an operator.
//
// Slow: three real peers that join and crawl.
func TestWorkerEarnsMembership(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	cfg := testConfig(t.TempDir(), 1)
	cfg.Admission, cfg.Promote, cfg.CheckRate, cfg.Placement = "invite", time.Second, 1, "random"
	founder := startWith(t, cfg)
	entry := founder.ring.net.Addrs()[0]
	workers := []*testPeer{startWith(t, testConfig(t.TempDir(), 2, entry)), startWith(t, testConfig(t.TempDir(), 3, entry))}
	until(t, "two workers", func(context.Context) bool { return len(founder.ring.dht.Attached()) == 2 })
	crawlAll(t, founder, control.JobSpec{URLs: web.Seeds(web.port)})
	for _, w := range workers {
		until(t, "worker is invited", func(context.Context) bool { return w.ring.dht.State() == dht.Serving })
	}
	peers, err := founder.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range peers {
		if tr := p.Trust; tr != nil && tr.Agreed >= 10 && tr.Lost == 0 && tr.Agreed+tr.Unclear == tr.Checked {
			checked++
		}
	}
	if checked != 2 {
		t.Errorf("%d workers with agreed checks: %+v", checked, peers)
	}
}

func TestNetworkOf(t *testing.T) {
	for _, tt := range []struct {
		addr, want string
	}{
		{"/ip4/5.0.0.11/tcp/1", "5.0.0.0/24"},
		{"/ip6/2001:db8:1:2::3/tcp/1", "2001:db8:1::/48"},
		{"/ip4/127.0.0.1/tcp/1", ""},
		{"/ip4/10.0.0.1/tcp/1", ""},
	} {
		want := netip.Prefix{}
		if tt.want != "" {
			want = netip.MustParsePrefix(tt.want)
		}
		if got := networkOf([]string{tt.addr}); got != want {
			t.Errorf("%s: %v, want %v", tt.addr, got, want)
		}
	}
}
