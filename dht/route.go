package dht

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// entryPeers is how many live peers an entry peer names to a newcomer, chosen at random so that newcomers spread (Apoidea 2.2).
const entryPeers = 8

// Guess names the peer believed to own key, without asking anybody: from our own arc, the leaf set, or the learnt arcs. It is false when
// none of them tells; then Lookup finds out. The receiver confirms: who is asked for keys that are not its own answers with
// hints for Learn.
func (r *Ring) Guess(key ring.Key) (Peer, bool) {
	if _, owner, ok := r.believed(key); ok {
		return owner, true
	}
	return Peer{}, false
}

// Hint is the best known owner of key with its arc, to be sent to a peer that asked us for a key which is not ours; nil when no
// owner is known.
func (r *Ring) Hint(key ring.Key) *wire.Hint {
	arc, owner, ok := r.believed(key)
	if !ok {
		return nil
	}
	return &wire.Hint{Owner: owner.wire(), Start: arc.Start[:], End: arc.End[:]}
}

// Learn takes hints that other peers gave. They must have passed Validate. They are believed only for Guess: what stands in our
// leaf set is known better here.
func (r *Ring) Learn(hints ...*wire.Hint) {
	for _, hint := range hints {
		owner := peerOf(hint.GetOwner())
		if owner.ID == r.self.ID || r.leaves.Covers(owner.key) || r.hasTombstone(owner) {
			continue
		}
		r.learnt.Add(hint.Arc(), owner)
	}
}

// believed finds the arc that key lies in and its owner.
func (r *Ring) believed(key ring.Key) (ring.Arc, Peer, bool) {
	if arc, ok := r.leaves.Owner(key); ok && (r.placed() || r.state == Leaving) {
		switch {
		case arc.End != r.self.key:
			return arc, r.peers[arc.End].peer, true
		case r.state != Leaving:
			return arc, r.self, true
		case r.leaves.Len() > 0: // what was ours is our successor's
			arc.End = r.leaves.Successor()
			return arc, r.peers[arc.End].peer, true
		}
	}
	return r.learnt.Find(key)
}

// placed says whether the leaf set is worth believing: that of a peer which just began to join has holes.
func (r *Ring) placed() bool {
	return r.state == Serving || r.state == Joining && r.leaves.Len() > 0 && r.steady >= 2 && r.acknowledged()
}

// Search starts a lookup of the owner of key. It is done at once when we are the owner.
func (r *Ring) Search(key ring.Key) *Search {
	s := newSearch(r.self.ID, key, nil, r.cfg.LookupCalls)
	arc, owner, ok := r.believed(key)
	if ok && owner.ID == r.self.ID {
		s.found = &Lookup{Key: key, Owner: owner, Arc: arc, Serving: r.Serves(key)}
		return s
	}
	if ok {
		s.hear(owner, true)
	}
	for _, p := range r.closest(key, nearestAsked) {
		s.hear(p, false)
	}
	return s
}

// Found takes the outcome of a search: the arc is learnt, peers that did not answer are not guessed again for a while.
func (r *Ring) Found(l Lookup) {
	if l.Owner.ID != "" && l.Owner.ID != r.self.ID && !r.leaves.Covers(l.Owner.Key()) {
		r.learnt.Add(l.Arc, l.Owner)
	}
}

// NextHop answers where to go for key: here, to the owner by our leaf set, or to peers that are nearer.
func (r *Ring) NextHop(key ring.Key) *wire.NextHopResponse {
	answer := &wire.NextHopResponse{Hint: r.Hint(key), Known: r.leaves.Covers(key) && r.placed()}
	if answer.Hint != nil && peer.ID(answer.Hint.GetOwner().GetId()) == r.self.ID {
		answer.Final, answer.Serving = true, r.Serves(key)
		return answer
	}
	answer.Closer = wirePeers(r.closest(key, closerSent))
	return answer
}

// closest returns the n known peers nearest to key on the circle, the nearest first, from the leaf set and the routing table.
func (r *Ring) closest(key ring.Key, n int) []Peer {
	near := append(r.standing(r.leaves.Members()), r.attach.Peers()...)
	for _, p := range r.table.Nearest(key, nearestAsked) {
		if p.ID != r.self.ID && !r.hasTombstone(p) {
			p.key = p.Key()
			near = append(near, p)
		}
	}
	slices.SortFunc(near, func(a, b Peer) int {
		return cmp.Or(ring.Near(a.key, key).Compare(ring.Near(b.key, key)), cmp.Compare(a.ID, b.ID))
	})
	near = slices.CompactFunc(near, func(a, b Peer) bool { return a.ID == b.ID })
	return near[:min(n, len(near))]
}

// entry answers a newcomer with live peers chosen at random.
func (r *Ring) entry(from peer.ID) *wire.EntryResponse {
	members := slices.DeleteFunc(r.Members(), func(p Peer) bool { return p.ID == from })
	shuffle(r.rnd, members)
	return &wire.EntryResponse{
		Self: r.self.wire(), State: r.state.wire(), Peers: wirePeers(members[:min(entryPeers, len(members))]),
	}
}

func shuffle(rnd *rand.Rand, peers []Peer) {
	rnd.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
}
