package dht

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/workers"
)

// rounds runs the periodic tasks of a peer.
type rounds struct {
	*step
	neighborhood *neighborhood
	pace         *pace
	serving      *serving
	exchange     *exchange
	introducer   *introducer
	seeker       *seeker
	routes       *routes
	contacts     *contacts
	dead         tombstones
	attach       *workers.Attach

	turn int // index of the next of the farther leaf peers
}

// round runs one stabilize round: scan the routing table, call neighbors, search for our position
// while joining.
func (o *rounds) round(now time.Time) {
	o.pace.round()
	if o.serving.state == Leaving {
		o.pace.next = now.Add(o.cfg.MaxInterval)
		return
	}
	o.dead.expire(now)
	if o.serving.state == Worker {
		o.worker(now)
		return
	}
	o.introducer.consider(now, "", o.routes.scan())
	if o.serving.state == Joining {
		o.pace.interval = o.cfg.Interval / 2
		o.introducer.consider(now, "", o.contacts.list)
		if !o.seeker.located {
			o.seeker.start(now)
		}
	}
	o.seeker.heal(now)
	for _, key := range o.partners(now) {
		o.exchange.ask(now, o.neighborhood.peers[key])
	}
	o.pace.rest(now)
}

// partners returns the peers to exchange lists with in this round: both nearest and, in turn, one
// of the others; while joining, all whose announcement is missing or old.
func (o *rounds) partners(now time.Time) []ring.Key {
	members := o.neighborhood.leaves.Members()
	if len(members) <= 2 {
		return members
	}
	if o.serving.state == Joining {
		near := [2]ring.Key{o.neighborhood.leaves.Predecessor(), o.neighborhood.leaves.Successor()}
		return slices.DeleteFunc(members, func(key ring.Key) bool {
			n := o.neighborhood.peers[key]
			return key != near[0] && key != near[1] && n.last != nil && now.Sub(n.asked) < 2*o.cfg.Interval
		})
	}
	o.turn++
	partners := []ring.Key{o.neighborhood.leaves.Successor()}
	for _, key := range []ring.Key{o.neighborhood.leaves.Predecessor(), members[o.turn%len(members)]} {
		if !slices.Contains(partners, key) {
			partners = append(partners, key)
		}
	}
	return partners
}

// worker searches for ring peers around our position, while attachments are missing.
func (o *rounds) worker(now time.Time) {
	o.attach.AddCandidates(o.contacts.list...)
	o.attach.AddCandidates(o.routes.table.Nearest(o.self.Key(), nearestAsked)...)
	if !o.attach.Full() {
		o.seeker.start(now)
	}
	o.pace.rest(now)
}
