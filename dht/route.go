package dht

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// entryPeers is the number of live peers that an entry peer names to a joining peer, chosen at
// random to spread the load (Apoidea 2.2).
const entryPeers = 8

// nearestAsked is the number of peers nearest by XOR that are considered: the 20 nearest included
// the successor or predecessor of the key in each of 10,000 cases in rings of up to 100,000 peers.
const nearestAsked = 20

// routes finds paths to a key from its own arc, the leaf set, cached arcs, and the routing table.
type routes struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	dead         tombstones
	attach       *workers.Attach
	table        Table

	inTable map[ring.Key]struct{} // the peers of the table at the last scan
	learnt  *ring.ArcCache[Peer]
}

// Guess returns the likely owner of key without network calls: from our own arc, the leaf set, or
// cached arcs. It is false if none has it; then use Lookup. The receiver must confirm: a peer that
// does not own the key answers with hints for Learn.
func (t *routes) Guess(key ring.Key) (Peer, bool) {
	if _, owner, ok := t.believed(key); ok {
		return owner, true
	}
	return Peer{}, false
}

// Hint returns the best known owner of key with its arc, for a peer that sent us a request for key;
// nil if none is known.
func (t *routes) Hint(key ring.Key) *wire.Hint {
	arc, owner, ok := t.believed(key)
	if !ok {
		return nil
	}
	return &wire.Hint{Owner: owner.Wire(), Start: arc.Start[:], End: arc.End[:]}
}

// Learn caches hints of other peers, which must have passed Validate. They are used only by Guess,
// and the leaf set takes precedence.
func (t *routes) Learn(hints ...*wire.Hint) {
	for _, hint := range hints {
		owner := member.Of(hint.GetOwner())
		if owner.ID == t.self.ID || t.covers(owner.Key()) || t.dead.has(owner) {
			continue
		}
		t.learnt.Add(hint.Arc(), owner)
	}
}

// believed returns the arc that contains key, and its likely owner.
func (t *routes) believed(key ring.Key) (ring.Arc, Peer, bool) {
	if arc, ok := t.neighborhood.leaves.Owner(key); ok && t.stands() {
		switch {
		case arc.End != t.self.Key():
			return arc, t.neighborhood.peers[arc.End].peer, true
		case t.serving.state != Leaving:
			return arc, t.self, true
		case t.neighborhood.leaves.Len() > 0: // our own arc falls to our successor
			arc.End = t.neighborhood.leaves.Successor()
			return arc, t.neighborhood.peers[arc.End].peer, true
		}
	}
	arc, owner, ok := t.learnt.Find(key)
	return arc, owner, ok && t.book.Valid(t.now, owner.ID)
}

// stands reports whether the leaf set is valid for ownership: that of a worker or a joining peer is
// empty.
func (t *routes) stands() bool { return t.serving.placed() || t.serving.state == Leaving }

// covers reports whether the leaf set determines the owner of key.
func (t *routes) covers(key ring.Key) bool { return t.stands() && t.neighborhood.leaves.Covers(key) }

// beyond returns the arc that contains key, and its owner, from the lists of the outermost leaf
// peers. It is unconfirmed, a start for a search.
func (t *routes) beyond(key ring.Key) (arc ring.Arc, owner Peer, ok bool) {
	preds, succs := t.neighborhood.leaves.Predecessors(), t.neighborhood.leaves.Successors()
	if !t.stands() || len(succs) == 0 {
		return arc, owner, false
	}
	last := t.neighborhood.peers[succs[len(succs)-1]]
	arc.Start = last.peer.Key()
	for _, p := range member.List(last.lists.GetSuccessors()) {
		if arc.End = p.Key(); ring.Between(arc.Start, key, arc.End) {
			return arc, p, p.ID != t.self.ID && !t.dead.has(p)
		}
		arc.Start = arc.End
	}
	last = t.neighborhood.peers[preds[len(preds)-1]]
	owner = last.peer
	for _, p := range member.List(last.lists.GetPredecessors()) {
		if arc = (ring.Arc{Start: p.Key(), End: owner.Key()}); ring.Between(arc.Start, key, arc.End) {
			return arc, owner, owner.ID != t.self.ID && !t.dead.has(owner)
		}
		owner = p
	}
	return arc, owner, false
}

// knows reports whether a peer is a ring member: in the leaf set, or found to own an arc.
func (t *routes) knows(p Peer) bool {
	if t.neighborhood.peers[p.Key()] != nil {
		return true
	}
	arc, owner, ok := t.learnt.Find(p.Key())
	return ok && owner.ID == p.ID && arc.End == p.Key()
}

// Search starts a lookup of the owner of key. It is done at once if this peer is the owner.
func (t *routes) Search(key ring.Key) *lookup.Search {
	arc, owner, ok := t.believed(key)
	if ok && owner.ID == t.self.ID {
		return lookup.Known(Lookup{Key: key, Owner: owner, Arc: arc, Serving: t.serving.Serves(key)})
	}
	s := lookup.New(t.self.ID, key, nil, lookup.DefaultCalls).Admit(t.Admits)
	if !ok {
		arc, owner, ok = t.beyond(key)
	}
	if ok {
		s.Name(owner, arc)
	}
	near := t.closest(key, nearestAsked)
	for _, p := range near {
		if t.knows(p) {
			s.Know(p)
		}
	}
	s.Add(near...)
	return s
}

// Admits returns an error unless a peer that answered a lookup may be a member. One that may not is
// ignored in the routing table for a while.
func (t *routes) Admits(now time.Time, from peer.ID, answer *wire.NextHopResponse) error {
	err := t.book.Admit(now, from, answer.GetAdmission())
	if err != nil {
		t.dead.set(now, Peer{ID: from}, deadFor)
	}
	return err
}

// Found takes the result of a search: it caches the arc; peers that did not answer are not guessed
// for a while.
func (t *routes) Found(l Lookup) {
	if l.Owner.ID != "" && l.Owner.ID != t.self.ID && !l.Doubtful && !t.covers(l.Owner.Key()) {
		t.learnt.Add(l.Arc, l.Owner)
	}
}

// NextHop answers a routing request for key: this peer, the owner by our leaf set, or nearer peers.
func (t *routes) NextHop(key ring.Key) *wire.NextHopResponse {
	answer := &wire.NextHopResponse{Hint: t.Hint(key), Known: t.neighborhood.leaves.Covers(key) && t.serving.placed(), Admission: t.book.Admission()}
	if answer.Hint != nil && peer.ID(answer.Hint.GetOwner().GetId()) == t.self.ID {
		answer.Final, answer.Serving = true, t.serving.Serves(key)
		return answer
	}
	answer.Closer = member.Wire(t.closest(key, lookup.Closer))
	return answer
}

// closest returns the n known peers nearest to key on the circle, nearest first, from the leaf set
// and the routing table.
func (t *routes) closest(key ring.Key, n int) []Peer {
	near := append(t.neighborhood.members(), t.attach.Peers()...)
	for _, p := range t.table.Nearest(key, nearestAsked) {
		if p.ID != t.self.ID && !t.dead.has(p) {
			p = p.Placed()
			near = append(near, p)
		}
	}
	slices.SortFunc(near, func(a, b Peer) int {
		return cmp.Or(ring.Near(a.Key(), key).Compare(ring.Near(b.Key(), key)), cmp.Compare(a.ID, b.ID))
	})
	near = slices.CompactFunc(near, func(a, b Peer) bool { return a.ID == b.ID })
	return near[:min(n, len(near))]
}

// entry answers a joining peer with random live peers.
func (t *routes) entry(from peer.ID) *wire.EntryResponse {
	members := slices.DeleteFunc(t.Members(), func(p Peer) bool { return p.ID == from })
	t.rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return &wire.EntryResponse{
		Self: t.self.Wire(), State: t.serving.state.wire(), Peers: member.Wire(members[:min(entryPeers, len(members))]),
		Admission: t.book.Admission(),
	}
}

// scan searches the routing table for peers that belong in the leaf set. Without it small rings
// that formed apart never merge. Cached arcs are cut at peers that are new in the table.
func (t *routes) scan() []Peer {
	all := t.table.All()
	seen := make(map[ring.Key]struct{}, len(all))
	for i := range all {
		all[i] = all[i].Placed()
		seen[all[i].Key()] = struct{}{}
		if _, old := t.inTable[all[i].Key()]; !old {
			t.learnt.Split(all[i].Key())
		}
	}
	t.inTable = seen
	return all
}

// Members returns the known ring peers: the leaf set, the peers that a worker is attached to and
// the routing table, clockwise from this peer, without it.
func (t *routes) Members() []Peer {
	members := append(t.neighborhood.members(), t.attach.Peers()...)
	for _, p := range t.table.All() {
		if p.ID != t.self.ID && !t.neighborhood.leaves.Contains(p.Key()) && !t.dead.has(p) && t.book.Valid(t.now, p.ID) {
			members = append(members, p)
		}
	}
	slices.SortFunc(members, func(a, b Peer) int {
		return a.Key().Sub(t.self.Key()).Compare(b.Key().Sub(t.self.Key()))
	})
	return slices.CompactFunc(members, func(a, b Peer) bool { return a.ID == b.ID })
}

// Size returns the number of peers in the ring: exact while the leaf set is the whole ring, else an
// estimate from its density. A worker counts the ring peers that it knows.
func (t *routes) Size() int {
	if t.serving.state == Worker {
		return len(t.Members())
	}
	return t.neighborhood.leaves.Estimate()
}
