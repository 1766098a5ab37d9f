package dht

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// neighbour is a peer of the leaf set.
type neighbour struct {
	peer     Peer
	said     *word            // nil until it spoke since we last began to join
	lists    *wire.Neighbours // its lists as it named them last, weighed against version weighed of the leaf set
	weighed  int
	holds    uint64 // the name of our lists that it holds, as it said last
	heard    time.Time
	asked    time.Time
	asking   bool // a stabilize call is on its way
	failures int  // since it last spoke
	// unanswered is when the second call was made that made it suspect
	unanswered time.Time
	retry      time.Time
	thirds     []peer.ID // who was asked about it since then
}

// word is what a neighbour said of itself last.
type word struct {
	state   State
	cleared bool
	serves  bool
	served  ring.Arc
	pred    ring.Key
	fence   time.Time
}

// candidate is a peer that would fit into the leaf set by hearsay.
type candidate struct {
	peer     Peer
	failures int
	retry    time.Time // zero while a call is on its way
}

// round is one round of stabilize: scan the routing table, speak with neighbours, look for our place while joining.
func (r *Ring) round(now time.Time) {
	if r.steady++; r.steady > 1 {
		r.interval = min(2*r.interval, r.cfg.MaxInterval)
	}
	if r.state == Leaving {
		r.nextRound = now.Add(r.cfg.MaxInterval)
		return
	}
	r.expire(now)
	if r.state == Worker {
		r.workerRound(now)
		return
	}
	r.scan(now)
	if r.state == Joining {
		r.interval = r.cfg.Interval / 2
		r.consider(now, r.contacts)
		if !r.located && r.search == nil {
			r.startSearch(now, r.contacts)
		}
	}
	if !now.Before(r.nextHeal) {
		r.heal(now)
	}
	for _, key := range r.partners(now) {
		r.ask(now, r.peers[key])
	}
	r.nextRound = now.Add(r.jitter(r.interval))
}

// partners says with whom to exchange lists in this round: both nearest and, in turn, one of the others; while joining, all
// whose word is missing or old.
func (r *Ring) partners(now time.Time) []ring.Key {
	members := r.leaves.Members()
	if len(members) <= 2 {
		return members
	}
	if r.state == Joining {
		near := [2]ring.Key{r.leaves.Predecessor(), r.leaves.Successor()}
		return slices.DeleteFunc(members, func(key ring.Key) bool {
			n := r.peers[key]
			return key != near[0] && key != near[1] && n.said != nil && now.Sub(n.asked) < 2*r.cfg.Interval
		})
	}
	r.turn++
	partners := []ring.Key{r.leaves.Successor()}
	for _, key := range []ring.Key{r.leaves.Predecessor(), members[r.turn%len(members)]} {
		if !slices.Contains(partners, key) {
			partners = append(partners, key)
		}
	}
	return partners
}

// scan looks through the routing table for peers that belong into the leaf set. Without it small rings that formed apart stay apart
// for good. Learnt arcs are cut at peers that are new in the table.
func (r *Ring) scan(now time.Time) {
	all := r.table.All()
	seen := make(map[ring.Key]struct{}, len(all))
	for i := range all {
		all[i].key = all[i].Key()
		seen[all[i].key] = struct{}{}
		if _, old := r.inTable[all[i].key]; !old {
			r.learnt.Split(all[i].key)
		}
	}
	r.inTable = seen
	r.consider(now, all)
}

// heal searches our own place through some peer far away, so that rings which lost sight of each other meet again.
func (r *Ring) heal(now time.Time) {
	r.nextHeal = now.Add(r.jitter(healEvery))
	if !r.lastDeath.IsZero() && now.Sub(r.lastDeath) < healSoonFor {
		r.nextHeal = now.Add(r.jitter(healSoon))
	}
	far := append(r.table.All(), r.contacts...)
	far = slices.DeleteFunc(far, func(p Peer) bool { return r.leaves.Contains(p.Key()) })
	if r.search == nil && len(far) > 0 {
		p := far[r.rnd.IntN(len(far))]
		r.search = newSearch(r.self.ID, after(r.self.key), []Peer{p}, r.cfg.LookupCalls)
		r.pump(now)
	}
}

// startSearch looks for the peer behind our own position, which is our successor.
func (r *Ring) startSearch(now time.Time, seeds []Peer) {
	seeds = slices.Concat(seeds, r.table.Nearest(r.self.key, nearestAsked), r.standing(r.leaves.Members()))
	r.search = newSearch(r.self.ID, after(r.self.key), seeds, r.cfg.LookupCalls)
	r.pump(now)
}

// pump sends what the search wants to ask, and takes its finding.
func (r *Ring) pump(now time.Time) {
	for r.search != nil {
		to, ok := r.search.Ask(now)
		if !ok {
			break
		}
		r.call(to, nextHopRequest(r.search.key), inFlight{kind: callSearch, search: r.search})
	}
	if r.search == nil || !r.search.Done() {
		return
	}
	found, err := r.search.Lookup()
	met := r.search.met()
	r.search = nil
	if err == nil {
		r.located = true
		r.consider(now, append([]Peer{found.Owner}, met...))
	}
	if r.state == Worker {
		r.attach.Hear(met...)
		r.sendAttach(now)
	}
}

// Handle answers a request of from. A ping with a target is not answered here: ask Relay.
// The answer is never nil.
func (r *Ring) Handle(now time.Time, from peer.ID, req *wire.Message) *wire.Message {
	r.begin(now)
	defer r.finish(now)
	switch body := req.GetBody().(type) {
	case *wire.Message_StabilizeRequest:
		if peer.ID(body.StabilizeRequest.GetSender().GetSelf().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		r.hear(now, body.StabilizeRequest.GetSender(), r.doubted == 0)
		return stabilizeResponse(r.neighboursTo(now, ring.PeerKey([]byte(from))))
	case *wire.Message_LeaveRequest:
		if peer.ID(body.LeaveRequest.GetSender().GetSelf().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		r.hear(now, body.LeaveRequest.GetSender(), r.doubted == 0)
		return leaveResponse()
	case *wire.Message_AttachRequest:
		if peer.ID(body.AttachRequest.GetSender().GetId()) != from {
			return refusal(wire.Reason_REASON_INVALID, "the sender is not who it says")
		}
		return r.attached(now, body.AttachRequest)
	case *wire.Message_NextHopRequest:
		return nextHopResponse(r.NextHop(ring.Key(body.NextHopRequest.GetKey())))
	case *wire.Message_EntryRequest:
		return entryResponse(r.entry(from))
	case *wire.Message_PingRequest:
		return pingResponse(true)
	default:
		return refusal(wire.Reason_REASON_INVALID, "not a request")
	}
}

// Relay says whom to ping for somebody who cannot reach target; false when target is no peer we know.
func (r *Ring) Relay(target peer.ID) (Peer, bool) {
	if n := r.peers[ring.PeerKey([]byte(target))]; n != nil {
		return n.peer, true
	}
	return Peer{}, false
}

// Result takes the answer to a call, or why there is none. A refusal counts as an answer of a live peer that will not serve us.
func (r *Ring) Result(now time.Time, id uint64, answer *wire.Message, err error) {
	fl, ok := r.calls[id]
	if !ok {
		return
	}
	delete(r.calls, id)
	r.begin(now)
	switch fl.kind {
	case callStabilize:
		r.stabilized(now, fl.to, answer.GetStabilizeResponse().GetSender(), id > r.doubted, err)
	case callVouch:
		r.vouched(now, fl, answer, err)
	case callAttach:
		r.attachAnswered(now, fl.to, answer.GetAttachResponse(), err)
	case callSearch:
		fl.search.Answer(now, fl.to, answer, err)
		if fl.search == r.search {
			r.pump(now)
		}
	}
	r.finish(now)
}

// stabilized takes the answer to an introduction or to one of the rounds.
func (r *Ring) stabilized(now time.Time, to Peer, said *wire.Neighbours, fresh bool, err error) {
	if n := r.peers[to.key]; n != nil {
		n.asking = false
	}
	if err != nil || said == nil || peer.ID(said.GetSelf().GetId()) != to.ID {
		r.failed(now, to)
		return
	}
	r.hear(now, said, fresh)
}

// hear takes what a live peer says of itself, in a request or in an answer. What comes to a peer that was suspended may have waited
// for it all the while: not fresh, it says that the peer lives, and nothing by which a joining peer could begin to serve.
func (r *Ring) hear(now time.Time, said *wire.Neighbours, fresh bool) {
	p := peerOf(said.GetSelf())
	if p.ID == r.self.ID {
		return
	}
	r.dropCandidate(p.key)
	said, whole := r.completed(p.key, said)
	if r.state == Worker { // whoever spoke to us took us for a ring peer
		r.attach.Hear(append(listed(said), p)...)
		return
	}
	if said.GetState() == wire.State_STATE_WORKER {
		r.left(now, p)
		r.setTombstone(now, p, r.cfg.DeadFor)
		return
	}
	if r.guests.Drop(p.ID) { // it speaks as a ring peer now
		r.tell(AttachedChanged{})
	}
	if said.GetState() == wire.State_STATE_LEAVING {
		r.left(now, p)
		r.consider(now, listed(said))
		return
	}
	if r.firstContact.IsZero() {
		r.firstContact = now
	}
	r.dropTombstone(p)
	delete(r.fences, p.ID)
	if r.leaves.Insert(p.key) {
		r.peers[p.key] = &neighbour{peer: p}
		r.changed(now)
		r.tell(PeerUp{p})
	}
	if n := r.peers[p.key]; n != nil {
		if n.peer.Incarnation != p.Incarnation || !slices.EqualFunc(n.peer.Addrs, p.Addrs, bytes.Equal) {
			r.told = nil
		}
		n.peer, n.heard, n.failures, n.retry, n.thirds = p, now, 0, time.Time{}, nil
		n.holds = said.GetKnown()
		if !whole {
			return // it lives; the rest it says once it knows that we do not hold its lists
		}
		if fresh || r.state != Joining {
			n.said = wordOf(now, p, said)
		}
		quiet := n.weighed == r.version && sameLists(n.lists, said)
		n.lists, n.weighed = said, r.version
		if quiet {
			return // a quiet ring says the same again and again
		}
	}
	r.missing(now, p.key, said)
	r.consider(now, listed(said))
}

// completed puts the lists that a peer left out into what it says; false when they are not the ones that we hold.
func (r *Ring) completed(key ring.Key, said *wire.Neighbours) (*wire.Neighbours, bool) {
	if said.GetLists() == 0 || len(said.GetPredecessors())+len(said.GetSuccessors()) > 0 {
		return said, true
	}
	n := r.peers[key]
	if n == nil || n.lists.GetLists() != said.GetLists() {
		return said, said.GetLists() == listsName(nil, nil)
	}
	return &wire.Neighbours{
		Self: said.GetSelf(), State: said.GetState(), Predecessors: n.lists.GetPredecessors(), Successors: n.lists.GetSuccessors(),
		ServedStart: said.GetServedStart(), FenceMs: said.GetFenceMs(), Cleared: said.GetCleared(), Lists: said.GetLists(), Known: said.GetKnown(),
	}, true
}

// listsName names two lists by what stands in them.
func listsName(preds, succs []*wire.Peer) uint64 {
	h := fnv.New64a()
	number := func(v uint64) { h.Write(binary.BigEndian.AppendUint64(nil, v)) }
	text := func(b []byte) {
		number(uint64(len(b)))
		h.Write(b)
	}
	for _, list := range [][]*wire.Peer{preds, succs} {
		number(uint64(len(list)))
		for _, p := range list {
			text(p.GetId())
			number(uint64(len(p.GetAddrs())))
			for _, addr := range p.GetAddrs() {
				text(addr)
			}
			number(p.GetIncarnation())
			number(uint64(p.GetRole()))
		}
	}
	return max(h.Sum64(), 1) // 0 means none
}

func listed(said *wire.Neighbours) []Peer {
	return peersOf(slices.Concat(said.GetPredecessors(), said.GetSuccessors()))
}

func sameLists(a, b *wire.Neighbours) bool {
	same := func(p, q *wire.Peer) bool { return bytes.Equal(p.GetId(), q.GetId()) }
	return slices.EqualFunc(a.GetPredecessors(), b.GetPredecessors(), same) && slices.EqualFunc(a.GetSuccessors(), b.GetSuccessors(), same)
}

func wordOf(now time.Time, p Peer, said *wire.Neighbours) *word {
	w := &word{cleared: said.GetCleared(), fence: now.Add(time.Duration(said.GetFenceMs()) * time.Millisecond), pred: p.key}
	if said.GetState() == wire.State_STATE_SERVING {
		w.state = Serving
	}
	if start := said.GetServedStart(); len(start) > 0 && w.state == Serving {
		w.serves, w.served = true, ring.Arc{Start: ring.Key(start), End: p.key}
	}
	if preds := said.GetPredecessors(); len(preds) > 0 {
		w.pred = ring.PeerKey(preds[0].GetId())
	}
	return w
}

// changed tells that the leaf set is another one: who was pushed out is forgotten, and rounds come quickly again.
func (r *Ring) changed(now time.Time) {
	for key := range r.peers {
		if !r.leaves.Contains(key) {
			delete(r.peers, key)
		}
	}
	if nearest := [2]ring.Key{r.leaves.Predecessor(), r.leaves.Successor()}; r.nearest != nearest {
		r.nearest, r.steady = nearest, 0
	}
	r.version++
	r.told = nil
	r.interval = r.cfg.Interval
	if soon := now.Add(r.jitter(r.interval)); soon.Before(r.nextRound) {
		r.nextRound = soon
	}
	r.tell(LeavesChanged{})
}

// missing probes leaf peers that we have not heard lately and that a live peer should have in its lists and has not: it may know
// that they are dead. So news of
// a death spreads at the speed of the exchange, not of our own turn around the leaf set.
func (r *Ring) missing(now time.Time, speaker ring.Key, said *wire.Neighbours) {
	named := map[ring.Key]bool{speaker: true}
	first, last := speaker, speaker
	for _, p := range said.GetPredecessors() {
		first = ring.PeerKey(p.GetId())
		named[first] = true
	}
	for _, p := range said.GetSuccessors() {
		last = ring.PeerKey(p.GetId())
		named[last] = true
	}
	for _, key := range r.leaves.Members() {
		if !named[key] && (ring.Between(first, key, speaker) || ring.Between(speaker, key, last)) {
			if n := r.peers[key]; now.Sub(n.heard) >= 2*r.cfg.Interval && now.Sub(n.asked) >= r.cfg.Interval {
				r.ask(now, n)
			}
		}
	}
}

// consider introduces us to those of the peers that would stand in the leaf set if all of them lived.
func (r *Ring) consider(now time.Time, peers []Peer) {
	if r.state == Worker {
		r.attach.Hear(peers...)
		return
	}
	var fresh []Peer
	for _, p := range peers {
		p.key = p.Key()
		if p.ID != r.self.ID && p.ID != "" && p.Role == RoleMember && r.leaves.Fits(p.key) && !r.hasTombstone(p) && !r.isCandidate(p.key) {
			fresh = appendPeer(fresh, p, 4*maxCandidates)
		}
	}
	if len(fresh) == 0 {
		if len(r.candidates) == 0 {
			r.moveUp(now, peers)
		}
		return
	}
	then := r.leaves.Clone()
	for _, c := range r.candidates {
		then.Insert(c.peer.key)
	}
	for _, p := range fresh {
		then.Insert(p.key)
	}
	for _, p := range fresh {
		if then.Contains(p.key) && len(r.candidates) < maxCandidates {
			r.candidates = append(r.candidates, &candidate{peer: p})
			r.call(p, stabilizeRequest(r.neighboursTo(now, p.key)), inFlight{kind: callStabilize})
		}
	}
}

// moveUp lets leaf peers that stand on one side only take a free place on the other, once nobody nearer is in sight: in a ring of few
// peers everybody stands on both.
func (r *Ring) moveUp(now time.Time, peers []Peer) {
	moved := false
	for _, p := range peers {
		if key := p.Key(); r.leaves.Contains(key) && r.leaves.Insert(key) {
			moved = true
		}
	}
	if moved {
		r.changed(now)
	}
}

func (r *Ring) isCandidate(key ring.Key) bool {
	return slices.ContainsFunc(r.candidates, func(c *candidate) bool { return c.peer.key == key })
}

func (r *Ring) dropCandidate(key ring.Key) {
	r.candidates = slices.DeleteFunc(r.candidates, func(c *candidate) bool { return c.peer.key == key })
}

// ask exchanges lists with a leaf peer, one call at a time.
func (r *Ring) ask(now time.Time, n *neighbour) {
	if n == nil || n.asking {
		return
	}
	n.asking, n.asked = true, now
	r.call(n.peer, stabilizeRequest(r.neighboursTo(now, n.peer.key)), inFlight{kind: callStabilize})
}

// neighboursTo is what this peer says of itself to another: without its lists where that one holds them. In a quiet ring they would be nine
// tenths of all traffic.
func (r *Ring) neighboursTo(now time.Time, to ring.Key) *wire.Neighbours {
	said := r.neighbours(now)
	if n := r.peers[to]; n != nil {
		said.Known = n.lists.GetLists()
		if n.holds == said.Lists {
			said.Predecessors, said.Successors = nil, nil
		}
	}
	return said
}

// neighbours is what this peer says of itself, whole.
func (r *Ring) neighbours(now time.Time) *wire.Neighbours {
	if r.told == nil {
		preds, succs := r.Leaves()
		r.told = &wire.Neighbours{Self: r.self.wire(), Predecessors: wirePeers(preds), Successors: wirePeers(succs)}
		r.told.Lists = listsName(r.told.Predecessors, r.told.Successors)
	}
	said := &wire.Neighbours{
		Self: r.told.Self, State: r.state.wire(), Predecessors: r.told.Predecessors, Successors: r.told.Successors, Lists: r.told.Lists,
		Cleared: r.state == Joining && r.cleared(now),
	}
	if r.serves {
		said.ServedStart = bytes.Clone(r.served.Start[:]) // the message outlives the arc
	}
	if left := r.fence(now).Sub(now); left > 0 {
		said.FenceMs = uint32(min(left.Milliseconds()+1, wire.MaxFenceMillis))
	}
	return said
}
