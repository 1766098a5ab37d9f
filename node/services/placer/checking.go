package placer

import (
	"math/rand/v2"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/dht/ring"
)

// checker returns the worker that checks pages of a host: any candidate, so that the worker whose
// reports are checked cannot predict which, of another network if there is one.
func (pl *Placer) checker(p *owner.Place) owner.Placement {
	list := slices.DeleteFunc(pl.candidates(ring.HostKey(p.Host), p.Exclude), func(c placement.Candidate) bool {
		return slices.Contains(p.Exclude, c.Peer) || c.Self && pl.deps.Paused()
	})
	others := slices.DeleteFunc(slices.Clone(list), func(c placement.Candidate) bool {
		network := pl.deps.Origin(peer.ID(c.Peer))
		return slices.ContainsFunc(p.Exclude, func(id string) bool { return pl.deps.Origin(peer.ID(id)) == network })
	})
	if len(others) > 0 {
		list = others
	}
	if len(list) == 0 {
		return owner.Placement{}
	}
	return owner.Placement{Worker: list[rand.IntN(len(list))].Peer}
}
