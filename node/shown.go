package node

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/dashboard"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/node/services/jobs"
)

// shown implements dashboard.Peer.
type shown struct {
	*inspect.View
	limits.Commands
	*jobs.Poster
	deps shownDeps
}

var _ dashboard.Peer = (*shown)(nil)

// shownDeps are its dependencies beyond those of the inspection API.
type shownDeps struct {
	Self   peer.ID
	Net    interface{ Stats() calls.Stats } // p2p.Net
	Worker interface {                      // this peer's own: worker.Worker
		Stats() worker.Stats
		Held() []worker.Held
	}
	Recent       *dashboard.Recent
	Refused      func() map[peer.ID]control.Refusals              // recent rejections by this peer
	Look         inspect.Question                                 // queries the owner of hosts
	BandwidthCap func() int64                                     // in bytes per second, 0: none
	Measured     func(host string, addr netip.Addr) time.Duration // RTT to a site, 0: unknown
}

// Lately implements dashboard.Peer.
func (s *shown) Lately() (all, failed []dashboard.Outcome) { return s.deps.Recent.Lately() }

// Refused implements dashboard.Peer.
func (s *shown) Refused() (list []dashboard.Refused) {
	for id, r := range s.deps.Refused() {
		list = append(list, dashboard.Refused{Peer: id.String(), Refusals: r})
	}
	slices.SortFunc(list, func(a, b dashboard.Refused) int {
		return cmp.Or(cmp.Compare(a.AgoMS, b.AgoMS), cmp.Compare(a.Peer, b.Peer))
	})
	return list
}

// Gauges implements dashboard.Peer.
func (s *shown) Gauges(ctx context.Context) (dashboard.Gauges, error) {
	var totals owner.Totals
	if err := s.deps.Look(ctx, func(o *owner.Owner) { totals = o.Totals() }); err != nil {
		return dashboard.Gauges{}, err
	}
	w := s.deps.Worker.Stats()
	g := dashboard.Gauges{Pages: w.Pages, Duplicates: w.Duplicates, SiteBytes: w.WireBytes, Queue: totals.URLsPending, CapBps: s.deps.BandwidthCap()}
	for _, c := range s.deps.Net.Stats().Services {
		g.PeerBytes += int64(c.BytesIn + c.BytesOut) // below 2^63 for any peer's life
	}
	return g, nil
}

// Crawled implements dashboard.Peer.
func (s *shown) Crawled(ctx context.Context, limit int) (*dashboard.Crawled, error) {
	var leased []owner.HostSummary
	c := new(dashboard.Crawled)
	if err := s.deps.Look(ctx, func(o *owner.Owner) { leased, c.Total = o.Leases(limit) }); err != nil {
		return nil, err
	}
	for i := range leased {
		l := &leased[i]
		line := s.HostLine(l)
		line.Pending += l.Leased
		c.Hosts = append(c.Hosts, line)
	}
	held := s.deps.Worker.Held()
	c.Here = len(held)
	for _, h := range held {
		if h.Owner == string(s.deps.Self) {
			continue // listed above
		}
		c.Total++
		c.Hosts = append(c.Hosts, control.HostLine{
			Host: h.Host, Key: ring.HostKey(h.Host).Hex(), Owner: peer.ID(h.Owner).String(), Worker: s.deps.Self.String(), Pending: int64(h.URLs),
			RTTMs: float64(s.deps.Measured(h.Host, h.Addr).Microseconds()) / 1000,
		})
	}
	slices.SortFunc(c.Hosts, func(a, b control.HostLine) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), strings.Compare(a.Host, b.Host))
	})
	c.Hosts = c.Hosts[:min(limit, len(c.Hosts))]
	return c, nil
}
