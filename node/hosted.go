package node

import (
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
)

// hosting returns the configuration of the owner of hosts.
func (n *Node) hosting() owner.Config {
	c := owner.DefaultConfig(string(n.ring.net.Self()))
	placing := n.cfg.placing()
	c.TTL, c.Delay, c.SeenBloom, c.Settled = n.cfg.LeaseTTL, n.cfg.Delay, n.cfg.Seen == "bloom", n.keeping.Settled
	c.Fetched, c.RequestTime = n.placer.Observe, placing.RequestTime()
	c.Admission, c.OptOuts = n.cfg.DomainHosts > 0, n.optOuts
	c.MaxRequests, c.PageHosts = int64(n.cfg.MaxRequestsPerHost), n.cfg.PageHosts
	c.MaxHostBytes, c.Near = n.cfg.MaxBytesPerHost, n.authorizer.near
	return c
}

// hosted returns its dependencies.
func (n *Node) hosted() hosts.Deps {
	return hosts.Deps{
		Self: n.ring.net.Self(), Router: n.router, Store: n.ship.Space(storage.KeyspaceHosts), Now: n.clock.Now, Jobs: n.registry,
		Place: n.placer.Place, OfferOwn: n.crawl.OfferOwn, ToWorker: n.ring.toWorker, SetLoad: n.placer.SetLoad, Declined: n.placer.Declined,
		Unasked: n.authorizer.unasked,
		Admit:   func(list []owner.Admission) { n.domains.Inquire(list, n.owners.Admitted) }, Log: n.log,
		LeasesEnd: hosts.LeasesEnd(n.ring.watch.LeftAgo, n.cfg.LeaseTTL, n.clock.Now),
	}
}

// ownersService answers workers, senders of links, and opt-outs of hosts.
func (n *Node) ownersService() rpc.Service {
	return rpc.Together(n.owners.Service(), n.wishes.HostsService(n.owners))
}
