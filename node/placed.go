package node

import (
	"context"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/services/placer"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// placing returns the configuration of placement.
func (c *Config) placing() placer.Config {
	return placer.Config{
		Strategy: c.Placement, Probe: c.Probe, GeoIP: c.GeoIP, Hierarchy: c.Hierarchy, Delay: c.Delay,
	}
}

// placed returns the dependencies of placement. Owners are set later.
func (n *Node) placed() placer.Deps {
	return placer.Deps{
		Self: n.ring.net.Self(), Incarnation: n.incarnation, Now: n.clock.Now, Ring: n.ring.dht, Worker: n.crawl.Worker, Sites: n.crawl.Fetcher,
		Records: n.subnets, Net: rpc.CallerFunc(n.ring.call), Addrs: n.ring.addrsOf, Where: n.ring.standsAt, Paused: n.limits.Paused, OptedOut: n.optOuts.Host,
		Robots: func(ctx context.Context, host, scheme string) robots.State {
			var d owner.HostDetail
			if err := n.owners.Look(ctx, func(o *owner.Owner) { d, _ = o.Host(host) }); err != nil {
				return robots.State{}
			}
			return d.Robots[scheme+"://"+host]
		},
		Log: n.log,
	}
}

// standsAt returns this peer's address as seen by sites, if known: a public one, or its emulated
// one.
func (r *ringServices) standsAt() netip.Addr {
	if r.cfg.Latency != nil {
		return r.cfg.Latency.Listen()
	}
	addr := p2p.FirstIP(r.net.Addrs())
	if m, err := manet.FromIP(addr.AsSlice()); err != nil || !manet.IsPublicAddr(m) {
		return netip.Addr{}
	}
	return addr
}

// addrsOf returns the addresses of a peer, which may be this one.
func (r *ringServices) addrsOf(id peer.ID) []string {
	if id == r.net.Self() {
		return r.net.Addrs()
	}
	return r.net.AddrsOf(id)
}

// call calls a peer, which may be an attached worker.
func (r *ringServices) call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	return r.net.Call(r.toWorker(ctx, to), to, service, req)
}
