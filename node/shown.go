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
	"github.com/apoidea/apoidea/dht"
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
	Ring interface { // as this peer sees it: dht.DHT
		Self() dht.Peer
		Size() int
		Arc() (ring.Arc, bool)
		Leaves() (preds, succs []dht.Peer)
		LeafSet() []dht.Leaf
		Members() []dht.Peer
		Attached() []dht.Peer
		Attachments() []dht.Peer
	}
	Net interface { // p2p.Net
		Stats() calls.Stats
		RoundTrip(id peer.ID) time.Duration
		AddrsOf(id peer.ID) []string
	}
	Worker interface { // this peer's own: worker.Worker
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

// Circle implements dashboard.Peer.
func (s *shown) Circle(ctx context.Context) (*dashboard.Circle, error) {
	d := s.deps.Ring
	self := d.Self()
	c := &dashboard.Circle{Size: d.Size(), Self: dashboard.Place{Peer: self.ID.String(), At: self.Key().Turns()}}
	if arc, ok := d.Arc(); ok {
		serving(&c.Self, arc)
	}
	delegated := make(map[string]int)
	if err := s.deps.Look(ctx, func(o *owner.Owner) { delegated = o.Delegated() }); err != nil {
		return nil, err
	}
	preds, succs := d.Leaves()
	leaves, attachments := d.LeafSet(), d.Attachments()
	for _, p := range d.Members() {
		place := s.place(p.ID, delegated)
		place.At = p.Key().Turns()
		for i := range leaves {
			if leaves[i].Peer.ID != p.ID {
				continue
			}
			place.Leaf, place.Suspect = true, leaves[i].Suspect
			if leaves[i].Serves {
				serving(&place, leaves[i].Arc)
			}
		}
		var side []string
		if len(preds) > 0 && preds[0].ID == p.ID {
			side = append(side, "predecessor")
		}
		if len(succs) > 0 && succs[0].ID == p.ID {
			side = append(side, "successor")
		}
		if slices.ContainsFunc(attachments, func(a dht.Peer) bool { return a.ID == p.ID }) {
			side = append(side, "attached")
		}
		place.Side = strings.Join(side, ", ")
		c.Others = append(c.Others, place)
	}
	for _, p := range d.Attached() {
		c.Attached = append(c.Attached, s.place(p.ID, delegated))
	}
	return c, nil
}

// place returns what is known of a peer without a call.
func (s *shown) place(id peer.ID, delegated map[string]int) dashboard.Place {
	p := dashboard.Place{
		Peer: id.String(), Name: s.PeerName(id.String()), RTTMs: float64(s.deps.Net.RoundTrip(id).Microseconds()) / 1000, Crawls: delegated[string(id)],
	}
	if addrs := s.deps.Net.AddrsOf(id); len(addrs) > 0 {
		p.Addr = addrs[0]
	}
	return p
}

func serving(p *dashboard.Place, arc ring.Arc) {
	p.Serves, p.Whole, p.ArcFrom, p.At = true, arc.Whole(), arc.Start.Turns(), arc.End.Turns()
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
		c.Hosts = append(c.Hosts, dashboard.Host{
			Name: l.Host, Worker: peer.ID(l.Worker).String(), At: l.Key.Turns(), RTT: time.Duration(l.WorkerRTTUs) * time.Microsecond,
			Least:   time.Duration(l.LeastRTTUs) * time.Microsecond,
			Pending: l.Pending + l.Leased, Pages: l.OK,
		})
	}
	self := s.deps.Ring.Self().ID
	held := s.deps.Worker.Held()
	c.Here = len(held)
	for _, h := range held {
		if h.Owner == string(self) {
			continue // listed above
		}
		c.Total++
		c.Hosts = append(c.Hosts, dashboard.Host{
			Name: h.Host, Worker: self.String(), Owner: peer.ID(h.Owner).String(), At: ring.HostKey(h.Host).Turns(), Pending: int64(h.URLs),
			RTT: s.deps.Measured(h.Host, h.Addr),
		})
	}
	slices.SortFunc(c.Hosts, func(a, b dashboard.Host) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), strings.Compare(a.Name, b.Name))
	})
	c.Hosts = c.Hosts[:min(limit, len(c.Hosts))]
	return c, nil
}
