package node

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/dashboard"
)

// dashboardOff is the word for no page.
const dashboardOff = "off"

// openDashboard opens the address of the page, that of the last run if it is free and none is asked for.
func (n *Node) openDashboard(ctx context.Context) error {
	if n.cfg.Dashboard == "" || n.cfg.Dashboard == dashboardOff {
		return nil
	}
	last := ""
	if err := n.meta.GetJSON(metaDashboard, &last); err != nil {
		return err
	}
	ln, err := dashboard.Listen(ctx, n.cfg.Dashboard, last)
	if err != nil {
		return err
	}
	n.page = ln
	if addr := ln.Addr().String(); addr != last {
		return n.meta.PutJSON(metaDashboard, addr)
	}
	return nil
}

// furnishDashboard makes the page, once there is a peer to be shown.
func (n *Node) furnishDashboard() (err error) {
	if n.page == nil {
		return nil
	}
	n.dashboard, err = dashboard.New(dashboard.Config{DataDir: n.cfg.DataDir, Name: p2p.Short(n.room.net.Self())}, shown{n}, n.log)
	return err
}

// dashboardURL is where the page is, empty if there is none.
func (n *Node) dashboardURL() string {
	if n.page == nil {
		return ""
	}
	addr := n.page.Addr().(*net.TCPAddr) //nolint:forcetypeassert // of a listener on TCP
	if addr.IP.IsUnspecified() {
		return "http://" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}).String() + "/"
	}
	return "http://" + addr.String() + "/"
}

// Dashboard implements control.Backend.
func (n *Node) Dashboard(context.Context) (*control.Dashboard, error) {
	if n.dashboard == nil {
		return nil, control.Usage("this peer has no page: it runs with --dashboard off")
	}
	url := n.dashboardURL()
	return &control.Dashboard{URL: url, Login: n.dashboard.Link(url)}, nil
}

// shown is the peer as its page asks it.
type shown struct{ *Node }

var _ dashboard.Peer = shown{}

// Gauges implements dashboard.Peer.
func (n shown) Gauges(ctx context.Context) (dashboard.Gauges, error) {
	var totals owner.Totals
	if err := n.owners.Look(ctx, func(o *owner.Owner) { totals = o.Totals() }); err != nil {
		return dashboard.Gauges{}, err
	}
	w := n.crawl.Worker.Stats()
	g := dashboard.Gauges{Pages: w.Pages, Duplicates: w.Duplicates, SiteBytes: w.WireBytes, Queue: totals.URLsPending, CapBps: n.limits.BandwidthCap()}
	for _, s := range n.room.net.Stats().Services {
		g.PeerBytes += int64(s.BytesIn + s.BytesOut) //nolint:gosec // below 2^63 for any peer's life
	}
	return g, nil
}

// Circle implements dashboard.Peer.
func (n shown) Circle(ctx context.Context) (*dashboard.Circle, error) {
	d := n.room.dht
	self := d.Self()
	c := &dashboard.Circle{Size: d.Size(), Self: dashboard.Place{Peer: self.ID.String(), At: self.Key().Turns()}}
	if arc, ok := d.Arc(); ok {
		serving(&c.Self, arc)
	}
	delegated := make(map[string]int)
	if err := n.owners.Look(ctx, func(o *owner.Owner) { delegated = o.Delegated() }); err != nil {
		return nil, err
	}
	preds, succs := d.Leaves()
	leaves := d.LeafSet()
	for _, p := range d.Members() {
		place := n.place(p.ID, delegated)
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
		place.Side = strings.Join(side, ", ")
		c.Others = append(c.Others, place)
	}
	for _, p := range d.Attached() {
		c.Attached = append(c.Attached, n.place(p.ID, delegated))
	}
	if c.Open() {
		n.askArcs(ctx, c)
	}
	return c, nil
}

// askArcs asks the leaf set what each answers for, as `apoidea ring` does. After a death the successor's new arc comes round by itself too, but a peer that is not
// its neighbour hears of that up to twenty seconds later.
func (n shown) askArcs(ctx context.Context, c *dashboard.Circle) {
	ctx, cancel := context.WithTimeout(ctx, arcTime)
	defer cancel()
	var asked sync.WaitGroup
	for i := range c.Others {
		p := &c.Others[i]
		id, err := peer.Decode(p.Peer)
		if err != nil || !p.Leaf || p.Suspect {
			continue
		}
		asked.Go(func() {
			if arc, err := n.ArcOf(ctx, id); err == nil {
				serving(p, arc)
			}
		})
	}
	asked.Wait()
}

// arcTime is how long the page waits for that.
const arcTime = time.Second

// place is what can be said of a peer without asking it.
func (n shown) place(id peer.ID, delegated map[string]int) dashboard.Place {
	p := dashboard.Place{
		Peer: id.String(), RTTMs: float64(n.room.net.RoundTrip(id).Microseconds()) / 1000, Crawls: delegated[string(id)],
	}
	if addrs := n.room.net.AddrsOf(id); len(addrs) > 0 {
		p.Addr = addrs[0]
	}
	return p
}

func serving(p *dashboard.Place, arc ring.Arc) {
	p.Serves, p.Whole, p.ArcFrom, p.At = true, arc.Whole(), arc.Start.Turns(), arc.End.Turns()
}

// Crawled implements dashboard.Peer.
func (n shown) Crawled(ctx context.Context, limit int) (*dashboard.Crawled, error) {
	var leased []owner.Leased
	c := new(dashboard.Crawled)
	if err := n.owners.Look(ctx, func(o *owner.Owner) { leased, c.Total = o.Leases(limit) }); err != nil {
		return nil, err
	}
	for i := range leased {
		l := &leased[i]
		c.Hosts = append(c.Hosts, dashboard.Host{
			Name: l.Host, Worker: peer.ID(l.Worker).String(), At: l.Key.Turns(), RTT: time.Duration(l.RTTUs) * time.Microsecond,
			Pending: l.Pending + l.Leased, Pages: l.OK,
		})
	}
	self := n.room.net.Self()
	held := n.crawl.Worker.Held()
	c.Here = len(held)
	for _, h := range held {
		if h.Owner == string(self) {
			continue // listed above
		}
		c.Total++
		c.Hosts = append(c.Hosts, dashboard.Host{
			Name: h.Host, Worker: self.String(), Owner: peer.ID(h.Owner).String(), At: ring.HostKey(h.Host).Turns(), Pending: int64(h.URLs),
			RTT: n.placer.Measured(h.Host, h.Addr),
		})
	}
	slices.SortFunc(c.Hosts, func(a, b dashboard.Host) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), strings.Compare(a.Name, b.Name))
	})
	c.Hosts = c.Hosts[:min(limit, len(c.Hosts))]
	return c, nil
}
