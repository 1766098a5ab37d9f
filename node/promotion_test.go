package node

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// TestWorkerEarnsMembership: in a ring by invitation, a worker crawls, another one checks its
// pages, and the founder invites it once it has served, without an operator.
//
// Slow: three real peers that join and crawl.
func TestWorkerEarnsMembership(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) { c.Hosts, c.PagesPerHost = 20, 12 }) // so that each worker gets hosts
	cfg := testConfig(t.TempDir(), 1)
	cfg.Admission, cfg.Promote, cfg.CheckRate, cfg.Placement = "invite", time.Second, 1, "random"
	founder := startWith(t, cfg)
	entry := founder.ring.net.Addrs()[0]
	workers := []*testPeer{startWith(t, testConfig(t.TempDir(), 2, entry)), startWith(t, testConfig(t.TempDir(), 3, entry))}
	until(t, "two workers", func(context.Context) bool { return len(founder.ring.dht.Attached()) == 2 })
	if _, err := founder.Pause(t.Context(), 0); err != nil { // it leaves the crawl to the workers
		t.Fatal(err)
	}
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
	for _, w := range workers {
		if pages := receipts(t, w, founder); pages < 10 {
			t.Errorf("receipts for %d pages", pages)
		}
	}
}

// receipts returns the number of pages in a worker's archive for which there are receipts, whose
// signatures it verifies.
func receipts(t *testing.T, p, owner *testPeer) (pages int) {
	t.Helper()
	if err := p.crawl.Flush(); err != nil {
		t.Fatal(err)
	}
	files, err := warc.Files(p.archiveDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	self := p.ring.net.Self()
	for _, name := range files {
		if err := eachRecord(name, func(rec *warc.Record) {
			block, err := io.ReadAll(rec)
			if rec.Type != warc.TypeMetadata || !bytes.HasPrefix(block, []byte("receiptOwner: ")) || err != nil {
				return
			}
			var lines, signature []byte
			for line := range strings.Lines(string(block)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch name {
				case "receiptOwner", "receiptWorker":
					if want := map[string]peer.ID{"receiptOwner": owner.ring.net.Self(), "receiptWorker": self}[name]; value != want.String() {
						t.Errorf("%s: %s", name, value)
					}
				case "receiptSignature":
					signature, _ = hex.DecodeString(value)
				case "receiptPage":
					pages++
					lines = append(lines, value+"\n"...)
				}
			}
			if !member.Signed(owner.ring.net.Self(), append(wire.SignedReceipt(string(self), lines), "test"...), signature) {
				t.Errorf("the signature of a receipt does not match: %s", block)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	return pages
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
