package node

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/resolve"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/ops/dashboard"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/placer"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage/warc"
)

// productToken is the crawler's name in robots.txt.
const productToken = "apoidea"

// fetching returns the configuration of fetches.
func (c *Config) fetching() fetch.Config {
	resolver := resolve.Config{NoIPv6: c.FetchFrom.Is4()}
	if c.DNSServer != "" {
		resolver.Servers = []string{c.ResolverAddr()}
	}
	f := fetch.Config{
		UserAgent: c.UserAgent(), Resolver: resolve.New(resolver), AllowPrivate: c.AllowPrivate, AllowPrefixes: c.AllowPrefixes, LocalAddr: c.FetchFrom,
		HostFields: c.HostFields, ArchiveHostFields: c.ArchiveHostFields,
		MaxBody: c.MaxBody, From: cmp.Or(c.From, mailOf(c.Contact)), MaxIdleConns: idleConns(machine.OpenFiles(), uint64(c.Descriptors())),
	}
	c.distant(&f)
	if c.Proxy != nil {
		f.Dial = fetch.ViaProxy(c.Proxy, c.dialer())
	}
	return f
}

// unusedProxy returns the name of a set environment variable that other programs use for a proxy;
// empty if none is set.
func unusedProxy(lookup func(string) (string, bool)) string {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		if value, ok := lookup(name); ok && value != "" {
			return name
		}
	}
	return ""
}

// idleConns returns the number of idle connections to sites: fetch's default, if the file limit
// leaves space beside twice the connections of a busy peer. A limit of 0 means none.
func idleConns(limit, busy uint64) int {
	const least = 64
	most := uint64(fetch.DefaultIdleConns)
	if limit == 0 || limit >= 2*busy+most {
		return int(most)
	}
	return int(max(limit, 2*busy+least) - 2*busy)
}

// crawling returns the configuration of the worker.
func (n *Node) crawling() crawling.Config {
	w := worker.DefaultConfig(n.cfg.Fetchers)
	w.Sessions.Incarnation, w.Sessions.TTL = n.incarnation, n.cfg.LeaseTTL
	w.Agent, w.NoCookies = productToken, n.cfg.Cookies == "off"
	w.Politeness = frontier.Config{Delay: n.cfg.Delay, GroupDelay: n.cfg.DomainDelay}
	w.Pages.DuplicatesDrop, w.Pages.ArchiveNoIndex = n.cfg.Duplicates == "drop", n.cfg.ArchiveNoIndex
	w.Pages.MaxMemory = cmp.Or(crawling.PageMemory(n.cfg.Limits.Memory), w.Pages.MaxMemory)
	w.PermitLimit, w.PermitChunk = n.cfg.IPPermits, n.cfg.PermitChunk
	w.Governor, w.MaxDepth = cmp.Or(n.cfg.Governor, w.Governor), cmp.Or(n.cfg.MaxDepth, w.MaxDepth)
	w.Alone = func() bool { return n.cfg.OwnProcess && n.Alone() }
	hostname, _ := os.Hostname() // unknown: omitted
	c := crawling.Config{
		DataDir: n.cfg.DataDir, Fetch: n.cfg.fetching(), Holidays: n.cfg.Holidays, Worker: w,
		Archive: warc.Config{
			Compression: warc.Compression(n.cfg.Archive), Peer: member.Short(n.ring.net.Self()),
			Software: "apoidea/" + n.cfg.Version, Operator: n.cfg.Contact, Hostname: hostname, UserAgent: n.cfg.UserAgent(),
		},
	}
	c.Fetch.Line, c.Fetch.Refused = n.line.Line, n.optOuts.Refused
	return c
}

// crawled returns the worker's dependencies. Owners and limits are set later.
func (n *Node) crawled() crawling.Deps {
	return crawling.Deps{
		Self: n.ring.net.Self(), Signed: n.ring.net.Signed, Router: n.router, Send: n.sendSession, Content: n.contents, Bodies: n.bodies, Jobs: jobs.Worked{Registry: n.registry}, OptOuts: n.optOuts, Permits: n.permits, Clock: n.clock.clock,
		Fetched: n.metrics.Fetched, Outcome: n.outcome, Log: n.log,
		Paused: func() bool { return n.limits.Paused() },
	}
}

// outcome passes the outcome of a URL to the dashboard.
func (n *Node) outcome(e worker.Event) {
	n.recent.Note(dashboard.Outcome{
		At: time.Now(), URL: e.URL, Result: e.Outcome.String(), Status: e.Status, Detail: e.Detail, Failed: e.Outcome.IsError(),
	})
}

// sendSession sends a message of the worker to an owner; the local owner is called without the
// network.
func (n *Node) sendSession(ctx context.Context, to peer.ID, m *wire.Session) (*wire.SessionReply, error) {
	if to == n.ring.net.Self() {
		return n.owners.Session(ctx, to, m)
	}
	return hosts.SessionMethod.Call(ctx, n.router, to, m)
}

// workerService answers owners: offers of hosts, and probes of sites.
func (n *Node) workerService() rpc.Service {
	return rpc.Together(hosts.OfferMethod.Handle(rpc.Members("that the caller owns the hosts, as seen from here"), n.crawl.Offered), n.placer.ProbeService())
}

func withPort(server string) string {
	if _, err := netip.ParseAddrPort(server); err == nil {
		return server
	}
	if a, err := netip.ParseAddr(server); err == nil {
		return netip.AddrPortFrom(a, 53).String()
	}
	return server
}

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
		Records: n.subnets, Net: rpc.CallerFunc(n.ring.call), Addrs: n.ring.addrsOf, Origin: n.ring.net.Origin, Where: n.ring.standsAt, Paused: n.limits.Paused, OptedOut: n.optOuts.Host,
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
	addr := member.FirstIP(r.net.Addrs())
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

// standing returns the listen addresses of a peer with emulated latency, so that others derive the
// latency from its address: the previous ones, or any port of its emulated host. QUIC is not
// delayed, so it is not offered. Without emulation it returns before.
func (c *Config) standing(before []string) []string {
	if c.Latency == nil {
		return before
	}
	stand := "/ip4/" + c.Latency.Listen().String() + "/tcp/"
	if len(before) == 1 && strings.HasPrefix(before[0], stand) {
		return before
	}
	return []string{stand + "0"}
}

// dialer returns a dialer from the source address of fetches.
func (c *Config) dialer() *net.Dialer {
	dialer := &net.Dialer{KeepAlive: -1}
	if c.FetchFrom.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: c.FetchFrom.AsSlice(), Zone: c.FetchFrom.Zone()}
	}
	return dialer
}

// distant adds the emulated latency, if any, between a fetcher and the sites.
func (c *Config) distant(f *fetch.Config) {
	if c.Latency == nil {
		return
	}
	dialer := c.dialer()
	f.Resolver = c.Latency.Names(f.Resolver)
	f.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.Latency.Dial(ctx, network, address, dialer.DialContext)
	}
}
