package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/loop"
)

// promoteEvery is the maximum interval between two searches for workers to invite.
const promoteEvery = time.Minute

// promote invites workers that have earned it, until ctx ends: attached to this peer, at work for
// Config.Promote, ten checks of their pages agreed and none lost, open to connections, and in a
// network (/24, /48) of no other member. So each membership costs verified work.
func (n *Node) promote(ctx context.Context) error {
	if n.cfg.Promote == 0 {
		return nil
	}
	for loop.Sleep(ctx, min(promoteEvery, n.cfg.Promote)) == nil {
		a := n.ring.standing()
		if a == nil || a.Founder == "" || !a.Member {
			continue
		}
		var workers map[string]trust.Worker
		if err := n.owners.Look(ctx, func(o *owner.Owner) { workers = o.Workers() }); err != nil {
			continue // the owner stops, or is busy
		}
		for _, p := range n.ring.dht.Attached() {
			w := workers[string(p.ID)]
			served := time.Since(time.Unix(int64(min(w.Since, 1<<40)), 0)) //nolint:gosec // bounded
			revoked := false
			n.ring.dht.Admission(func(b *admission.Book, _ time.Time) { revoked = b.Revoked(p.ID) })
			if revoked || w.Lost > 0 || w.Agreed < trust.First || served < n.cfg.Promote || !n.ring.aloneInNetwork(p) || !n.ring.dialable(ctx, p) {
				continue
			}
			if inv, err := n.invite(ctx, p.ID, admission.DefaultValidity); err == nil && inv.Delivered {
				n.log.Info("worker invited, as it has served and all checks agreed", "peer", p.ID, "checks", w.Agreed)
			}
		}
	}
	return nil
}

// aloneInNetwork reports whether no known member has an address in a worker's network. Loopback
// and private addresses belong to no network.
func (r *ringServices) aloneInNetwork(p dht.Peer) bool {
	own := networkOf(r.net.AddrsOf(p.ID))
	if !own.IsValid() {
		return true
	}
	if networkOf(r.net.Addrs()) == own {
		return false
	}
	for _, m := range r.dht.Members() {
		if networkOf(r.net.AddrsOf(m.ID)) == own {
			return false
		}
	}
	return true
}

// networkOf returns the network (/24, /48) of the first public address; invalid without one.
func networkOf(addrs []string) netip.Prefix {
	ip := member.FirstIP(addrs)
	if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return netip.Prefix{}
	}
	return placement.RangeOf(ip)
}

// dialable reports whether a worker can be dialed, from a temporary identity.
func (r *ringServices) dialable(ctx context.Context, p dht.Peer) bool {
	scout, err := r.temporary()
	if err != nil {
		return false
	}
	defer func() { _ = scout.Close() }()
	v, _ := scout.Visit(ctx, p.AddrInfo()) // a worker answers no question about the ring
	return v.Address != nil
}
