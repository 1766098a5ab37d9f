package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/dashboard"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/node/ops/metrics"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/storage"
)

// reading reads the figures of a scrape.
func (n *Node) reading(ctx context.Context) (*metrics.Reading, error) {
	m, err := n.Here(ctx)
	if err != nil {
		return nil, err
	}
	r := &metrics.Reading{
		Member: *m, Profile: string(n.cfg.Profile), Work: n.crawl.Worker.Stats(),
		Connections: n.ring.net.Connections(), DiskFree: -1, DiskReserve: n.limits.Reserve(),
	}
	r.Services = make(map[string]metrics.Service)
	peers := n.ring.net.Stats()
	for name, s := range peers.Services {
		r.Services[name] = metrics.Service{CallsOut: s.CallsOut, CallsIn: s.CallsIn, BytesOut: s.BytesOut, BytesIn: s.BytesIn}
	}
	r.SitesDown, r.SitesUp = n.line.Down.Used(bandwidth.Sites), n.line.Up.Used(bandwidth.Sites)
	r.PeersDown, r.PeersUp = n.line.Down.Used(bandwidth.Peers), n.line.Up.Used(bandwidth.Peers)
	r.ReplicasLevel, r.Replicas = n.ship.Level()
	limits := n.limits.View()
	r.Caps, r.Used, r.Holds = limits.Caps, limits.Used, len(limits.Holds)
	if free, err := storage.Free(n.cfg.DataDir); err == nil {
		r.DiskFree = int64(min(free, math.MaxInt64)) // bounded
	}
	return r, nil
}

// timedRing records the duration of lookups.
type timedRing struct {
	*dht.DHT
	metrics *metrics.Metrics
}

// Lookup implements rpc.Ring.
func (t timedRing) Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error) {
	begin := time.Now()
	l, err := t.DHT.Lookup(ctx, key)
	if err == nil {
		t.metrics.LookedUp(time.Since(begin), l.Calls)
	}
	return l, err
}

// readToken reads or generates the token, if a listener requires one.
func (n *Node) readToken() (err error) {
	wanted := control.WantsToken(n.api)
	for _, d := range n.debug {
		wanted = wanted || !control.IsLoopback(d.listener)
	}
	if !wanted {
		return nil
	}
	if n.token, err = datadir.DrawToken(n.cfg.DataDir, n.cfg.TokenFile); err != nil {
		return fmt.Errorf("token of the API: %w", err)
	}
	return nil
}

// debugServer is a listener of --metrics or --pprof with its handlers.
type debugServer struct {
	name     string
	listener net.Listener
	handler  *http.ServeMux
}

// listenDebug opens the addresses of --metrics and --pprof, one listener if they are equal.
func (n *Node) listenDebug(ctx context.Context) (open []debugServer, err error) {
	byAddr := make(map[string]*http.ServeMux)
	serve := func(name, addr string, routes func(mux *http.ServeMux)) {
		if addr == "" || err != nil {
			return
		}
		mux := byAddr[addr]
		if mux == nil {
			mux = http.NewServeMux()
			var ln net.Listener
			if ln, err = control.ListenTCP(ctx, name, addr, n.cfg.APIRemote && name == "metrics"); err != nil {
				return
			}
			n.log.Info("serving", "what", name, "addr", ln.Addr().String())
			byAddr[addr] = mux
			open = append(open, debugServer{name, ln, mux})
		}
		routes(mux)
	}
	serve("metrics", n.cfg.Metrics, func(mux *http.ServeMux) { mux.Handle("GET /metrics", n.metrics.Handler(n.log)) })
	serve("pprof", n.cfg.Pprof, func(mux *http.ServeMux) {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	})
	return open, err
}

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

// dashboardOff is the value that disables the dashboard.
const dashboardOff = "off"

// page is the dashboard's listener, and the dashboard once the peer exists; nil without one.
type page struct {
	listener net.Listener
	server   *dashboard.Server
}

// openPage opens the address of the dashboard, by default that of the last run if it is free.
func openPage(ctx context.Context, addr string, kept meta) (*page, error) {
	if addr == "" || addr == dashboardOff {
		return nil, nil
	}
	last := ""
	if err := kept.GetJSON(metaDashboard, &last); err != nil {
		return nil, err
	}
	ln, err := dashboard.Listen(ctx, addr, last)
	if err != nil {
		return nil, err
	}
	if addr := ln.Addr().String(); addr != last {
		err = kept.PutJSON(metaDashboard, addr)
	}
	return &page{listener: ln}, err
}

// show creates the dashboard of a peer with that configuration.
func (p *page) show(cfg *Config, peer *shown, log *slog.Logger) (err error) {
	if p != nil {
		c := dashboard.Config{DataDir: cfg.DataDir, Name: member.Short(peer.deps.Self), Login: cfg.DashboardLogin}
		p.server, err = dashboard.New(c, peer, log)
	}
	return err
}

// url returns the URL of the dashboard, empty if there is none.
func (p *page) url() string {
	if p == nil {
		return ""
	}
	addr := p.listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // of a listener on TCP
	if addr.IP.IsUnspecified() {
		return "http://" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}).String() + "/"
	}
	return "http://" + addr.String() + "/"
}

// Dashboard implements control.Backend.
func (p *page) Dashboard(context.Context) (*control.Dashboard, error) {
	if p == nil {
		return nil, control.Usage("this peer has no dashboard: it runs with --dashboard off")
	}
	url := p.url()
	return &control.Dashboard{URL: url, Login: p.server.Link(url)}, nil
}

// close closes the listener, if the dashboard was not served.
func (p *page) close() error {
	if p == nil {
		return nil
	}
	return closeListener(p.listener)
}
