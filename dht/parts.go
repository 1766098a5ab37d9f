package dht

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/workers"
)

// parts are the components of a Ring. Each refers only to those above it. The Ring exports the
// methods of the embedded ones.
type parts struct {
	*step
	contacts   *contacts
	dead       tombstones
	resting    resting
	candidates *candidates
	reach      *workers.Reach
	attach     *workers.Attach
	guests     *workers.Guests
	pace       *pace
	*neighborhood
	*serving
	exchange   *exchange
	introducer *introducer
	*routes
	attacher  *attacher
	seeker    *seeker
	suspicion *suspicion
	listener  *listener
	roles     *roles
	rounds    *rounds
}

// newParts returns the parts of a joining peer's ring. cfg has its defaults, self its position and
// role.
func newParts(cfg Config, self Peer, table Table) parts {
	s := newStep(cfg, self)
	reach := workers.NewReach(cfg.Role, cfg.Promote, cfg.Demote)
	p := parts{
		step: s, contacts: &contacts{self: self.ID}, dead: tombstones{}, resting: resting{}, candidates: &candidates{},
		reach: &reach, attach: workers.NewAttach(self.Key()), guests: workers.NewGuests(),
	}
	p.pace = &pace{step: s, nearest: [2]ring.Key{self.Key(), self.Key()}}
	p.neighborhood = newNeighborhood(s, p.pace)
	p.serving = newServing(s, p.neighborhood, p.pace, p.candidates)
	p.exchange = &exchange{step: s, neighborhood: p.neighborhood, serving: p.serving}
	p.introducer = &introducer{
		step: s, candidates: p.candidates, dead: p.dead, attach: p.attach, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange,
		blamed: make(map[peer.ID]blame), silent: resting{},
	}
	p.routes = &routes{
		step: s, dead: p.dead, attach: p.attach, neighborhood: p.neighborhood, serving: p.serving, table: table,
		inTable: map[ring.Key]struct{}{}, learnt: ring.NewArcCache[Peer](cfg.ArcCache),
	}
	p.attacher = &attacher{step: s, contacts: p.contacts, attach: p.attach, pace: p.pace, serving: p.serving}
	p.seeker = &seeker{
		step: s, contacts: p.contacts, neighborhood: p.neighborhood, serving: p.serving, introducer: p.introducer, attacher: p.attacher, table: table,
	}
	p.suspicion = &suspicion{
		step: s, contacts: p.contacts, dead: p.dead, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange, introducer: p.introducer,
		routes: p.routes, seeker: p.seeker, resting: p.resting,
	}
	p.listener = &listener{
		step: s, dead: p.dead, candidates: p.candidates, attach: p.attach, guests: p.guests, neighborhood: p.neighborhood, serving: p.serving,
		exchange: p.exchange, introducer: p.introducer, suspicion: p.suspicion, resting: p.resting, detached: resting{},
	}
	p.roles = &roles{
		step: s, contacts: p.contacts, candidates: p.candidates, reach: p.reach, attach: p.attach, guests: p.guests, pace: p.pace,
		neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange, seeker: p.seeker,
	}
	p.rounds = &rounds{
		step: s, contacts: p.contacts, dead: p.dead, attach: p.attach, pace: p.pace, neighborhood: p.neighborhood, serving: p.serving, exchange: p.exchange,
		introducer: p.introducer, routes: p.routes, seeker: p.seeker,
	}
	return p
}
