package node

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/metrics"
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
		Stalls:      n.stalls.Times(),
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
