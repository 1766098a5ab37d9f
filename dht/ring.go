package dht

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Ring is a peer's place in the ring as a plain state machine. Drive it so:
//
//	r := NewRing(config, self, table)
//	at each moment r.Next(), and at the start:   r.Tick(now)
//	a request comes:                             answer = r.Handle(now, from, request)
//	a connection drops:                          r.Disconnected(now, peer)
//	after each of these:                         r.Ready() says which calls to make and what happened
//	a call has its answer, or failed:            r.Result(now, id, answer, err)
//
// Ring starts no goroutine and reads no clock; its table must answer without the network. It is not safe for concurrent use. With
// the same seed and the same inputs it does the same.
//
// The rules: who is only heard of is introduced by a call of our own before it enters the leaf set, so gossip raises no dead. A
// peer serves only what its predecessor's death, departure or arrival has made its own: an arc shrinks at once and grows after
// TakeOver (serve.go). A peer is given up after two failures and the word of a third (suspicion.go).
type Ring struct {
	cfg   Config
	self  Peer
	table Table
	rnd   *rand.Rand

	leaves     *ring.LeafSet
	peers      map[ring.Key]*neighbour // who stands in leaves
	version    int                     // of the leaf set: grows with each change
	told       *wire.Neighbours        // our lists in wire form; nil after a change
	candidates []*candidate            // heard of and fitting, not yet introduced; ordered by when they came
	tombstones map[peer.ID]tombstone
	contacts   []Peer // entry peers, remembered ones and former neighbours: ways back into the ring
	inTable    map[ring.Key]struct{}
	learnt     *ring.ArcCache[Peer]

	state        State
	serves       bool
	served       ring.Arc // meaningful while serves
	fences       map[peer.ID]time.Time
	memory       *Memory
	firstContact time.Time // zero before any peer answered
	resumed      time.Time // when a pause was noticed that interrupted serving; zero unless one was

	reach  Reach
	cutOff bool    // CutOff was told
	attach *Attach // while a worker
	guests *Guests

	interval  time.Duration
	nextRound time.Time
	nextHeal  time.Time
	lastDeath time.Time // of a leaf peer; zero before any
	wake      time.Time
	nearest   [2]ring.Key // predecessor and successor
	steady    int         // rounds begun since they changed
	turn      int         // whose turn it is among the farther leaf peers
	search    *Search     // for our own position
	located   bool
	doubted   uint64 // answers to calls up to this one may be from before a pause

	calls    map[uint64]inFlight
	lastCall uint64
	out      []Call
	events   []Event
}

// Call is a request that the driver must send; Result takes its answer under the same ID, exactly once.
type Call struct {
	ID      uint64
	To      Peer
	Request *wire.Message
	Timeout time.Duration
}

// Ready is what a Ring wants done, in order.
type Ready struct {
	Calls  []Call
	Events []Event
}

type inFlight struct {
	to     Peer
	kind   callKind
	target ring.Key // whom a vouch is about
	search *Search
}

type callKind uint8

const (
	callStabilize callKind = iota
	callVouch
	callSearch
	callAttach
	callFarewell // whatever comes of it
)

const (
	// maxContacts bounds the remembered ways back into the ring.
	maxContacts = 32
	// maxCandidates bounds the introductions in progress: four leaf sets.
	maxCandidates = 64
	// maxTombstones bounds what is remembered of the dead; the oldest is forgotten first.
	maxTombstones = 1024
	// healEvery is the time between two searches for our own position through a peer chosen at random: it finds a ring that split
	// from ours and no longer shows in the routing table. Two calls or so each.
	healEvery = 30 * time.Second
	// healSoon is that time for healSoonFor after a leaf peer was given up: what looked like its death may have been a partition, and
	// in a ring of two nobody else looks. The halves of a ring of 16 are one 9 s after they meet again.
	healSoon    = 5 * time.Second
	healSoonFor = 10 * time.Minute
)

// NewRing returns the ring as a joining peer knows it: itself. It panics when the config is not valid.
func NewRing(config Config, self Peer, table Table) *Ring {
	if err := config.Validate(); err != nil {
		panic("dht: " + err.Error())
	}
	cfg := config.withDefaults()
	key := self.Key()
	self.key = key
	if self.Incarnation == 0 {
		self.Incarnation = 1
		if cfg.Memory != nil {
			self.Incarnation = cfg.Memory.Incarnation + 1
		}
	}
	r := &Ring{
		cfg: cfg, self: self, table: table, memory: cfg.Memory,
		rnd:    rand.New(rand.NewPCG(cfg.Seed, be64(key))),
		leaves: ring.NewLeafSet(key, cfg.R), peers: map[ring.Key]*neighbour{}, tombstones: map[peer.ID]tombstone{},
		fences: map[peer.ID]time.Time{}, calls: map[uint64]inFlight{}, inTable: map[ring.Key]struct{}{},
		learnt: ring.NewArcCache[Peer](cfg.ArcCache), nearest: [2]ring.Key{key, key},
	}
	r.reach, r.attach, r.guests = NewReach(cfg.Role, cfg.Promote, cfg.Demote), NewAttach(key), NewGuests()
	r.self.Role = cfg.Role
	if cfg.Role == RoleWorker {
		r.state = Worker
	}
	if r.memory != nil {
		r.remember(r.memory.Peers...)
	}
	return r
}

func be64(k ring.Key) uint64 {
	var v uint64
	for _, b := range k[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}

// Tick tells the time. Call it first of all, and then at every Next.
func (r *Ring) Tick(now time.Time) {
	r.begin(now)
	r.takeRole(now)
	if !now.Before(r.nextRound) {
		r.round(now)
	}
	if r.state == Worker {
		r.sendAttach(now)
	}
	if r.guests.Expire(now) {
		r.tell(AttachedChanged{})
	}
	r.retry(now)
	r.finish(now)
}

// Next is when Tick wants to be called again.
func (r *Ring) Next() time.Time { return r.wake }

// Ready returns what is to be done since the last Ready.
func (r *Ring) Ready() Ready {
	ready := Ready{Calls: r.out, Events: r.events}
	r.out, r.events = nil, nil
	return ready
}

// Join names peers through which the ring can be reached. It may be called at any time, also to join another ring to ours.
func (r *Ring) Join(now time.Time, entries ...Peer) {
	r.begin(now)
	r.remember(entries...)
	if r.state == Joining || r.state == Worker {
		r.nextRound = now
		r.located = false
		if r.search != nil {
			r.search.Add(entries...)
			r.pump(now)
		}
	} else {
		r.startSearch(now, entries)
	}
	r.finish(now)
}

// Leave gives up the arc and returns the goodbyes to send; what is served is handed over before. The peer goes on answering where
// the keys went.
func (r *Ring) Leave(now time.Time) []Call {
	r.begin(now)
	r.setState(Leaving)
	r.serve(false, ring.Arc{})
	calls := r.goodbyes(now)
	r.finish(now)
	return calls
}

// goodbyes are the farewells to the leaf set, or to whom a worker is attached. Workers attached to us find out when they ask again.
func (r *Ring) goodbyes(now time.Time) []Call {
	r.guests = NewGuests()
	var calls []Call
	for _, p := range r.standing(r.leaves.Members()) {
		calls = append(calls, Call{To: p, Timeout: r.cfg.CallTimeout, Request: leaveRequest(r.neighbours(now))})
	}
	for _, p := range r.attach.Clear() {
		calls = append(calls, Call{To: p, Timeout: r.cfg.CallTimeout, Request: attachRequest(r.self, true)})
	}
	return calls
}

// Self is this peer, with its incarnation.
func (r *Ring) Self() Peer { return r.self }

// SetAddrs replaces the addresses under which this peer tells others to reach it.
func (r *Ring) SetAddrs(addrs [][]byte) { r.self.Addrs, r.told = addrs, nil }

// State is where the peer stands in its life.
func (r *Ring) State() State { return r.state }

// Arc is the arc served; false when none is.
func (r *Ring) Arc() (ring.Arc, bool) { return r.served, r.serves }

// Serves says whether this peer answers for key now.
func (r *Ring) Serves(key ring.Key) bool { return r.serves && r.served.Contains(key) }

// Leaves returns the leaf peers, nearest first. In a small ring a peer is on both sides.
func (r *Ring) Leaves() (preds, succs []Peer) {
	return r.standing(r.leaves.Predecessors()), r.standing(r.leaves.Successors())
}

// Leaf is a peer of the leaf set as this one sees it.
type Leaf struct {
	Peer Peer
	// Arc is what it said last that it serves, if Serves.
	Arc    ring.Arc
	Serves bool
	// Suspect says that it left a call unanswered and has not been heard since.
	Suspect bool
}

// LeafSet returns the leaf peers, in clockwise order from this one.
func (r *Ring) LeafSet() []Leaf {
	var set []Leaf
	for _, key := range r.leaves.Members() {
		n := r.peers[key]
		l := Leaf{Peer: n.peer, Suspect: n.failures > 0}
		if n.said != nil {
			l.Arc, l.Serves = n.said.served, n.said.serves
		}
		set = append(set, l)
	}
	slices.SortFunc(set, func(a, b Leaf) int {
		return a.Peer.Key().Sub(r.self.key).Compare(b.Peer.Key().Sub(r.self.key))
	})
	return set
}

// Size is the number of peers in the ring: exact while the leaf set is the whole ring, else an estimate from its density. A worker,
// which is none of them, counts those it knows.
func (r *Ring) Size() int {
	if r.state == Worker {
		return len(r.Members())
	}
	return r.leaves.Estimate()
}

// Suspect says whether a leaf peer has not answered since it last spoke.
func (r *Ring) Suspect(id peer.ID) bool {
	n := r.peers[ring.PeerKey([]byte(id))]
	return n != nil && n.failures > 0
}

// Stable says whether the nearest neighbours have been the same for two rounds and nobody is suspect or being introduced.
func (r *Ring) Stable() bool {
	for _, n := range r.peers {
		if n.failures > 0 {
			return false
		}
	}
	return r.steady >= 2 && len(r.candidates) == 0
}

// Members returns the ring peers known: the leaf set, those that a worker is attached to and the routing table, in clockwise order from
// this peer, without it.
func (r *Ring) Members() []Peer {
	members := append(r.standing(r.leaves.Members()), r.attach.Peers()...)
	for _, p := range r.table.All() {
		if p.ID != r.self.ID && !r.leaves.Contains(p.Key()) && !r.hasTombstone(p) {
			members = append(members, p)
		}
	}
	slices.SortFunc(members, func(a, b Peer) int {
		return a.Key().Sub(r.self.key).Compare(b.Key().Sub(r.self.key))
	})
	return slices.CompactFunc(members, func(a, b Peer) bool { return a.ID == b.ID })
}

// Snapshot is what the peer should find again after a restart. Store it whenever LeavesChanged, ArcChanged or StateChanged
// tells of a change, and once before the first Tick, which keeps incarnations apart.
func (r *Ring) Snapshot() *Memory {
	m := &Memory{Incarnation: r.self.Incarnation, Role: r.self.Role}
	switch {
	case r.serves:
		m.Alone, m.Predecessor, m.HasPredecessor = r.served.Whole(), r.served.Start, true
	case r.memory != nil:
		m.Alone, m.Predecessor, m.HasPredecessor = r.memory.Alone, r.memory.Predecessor, r.memory.HasPredecessor
	}
	preds, succs := r.Leaves()
	for i := range max(len(preds), len(succs)) {
		for _, side := range [][]Peer{succs, preds} {
			if i < len(side) {
				m.Peers = appendPeer(m.Peers, side[i], wire.MaxPeers)
			}
		}
	}
	for _, p := range append(r.attach.Peers(), r.contacts...) {
		m.Peers = appendPeer(m.Peers, p, wire.MaxPeers)
	}
	return m
}

func appendPeer(list []Peer, p Peer, limit int) []Peer {
	if len(list) >= limit || slices.ContainsFunc(list, func(q Peer) bool { return q.ID == p.ID }) {
		return list
	}
	return append(list, p)
}

func (r *Ring) standing(keys []ring.Key) []Peer {
	peers := make([]Peer, len(keys))
	for i, key := range keys {
		peers[i] = r.peers[key].peer
	}
	return peers
}

// remember puts peers in front of the contacts.
func (r *Ring) remember(peers ...Peer) {
	for _, p := range slices.Backward(peers) {
		if p.ID == r.self.ID || p.ID == "" {
			continue
		}
		r.contacts = slices.DeleteFunc(r.contacts, func(q Peer) bool { return q.ID == p.ID })
		r.contacts = slices.Insert(r.contacts, 0, p)
	}
	r.contacts = r.contacts[:min(len(r.contacts), maxContacts)]
}

// Notice looks at the time only: a peer that was suspended stops serving. Call it before asking State, Arc, Serves or Guess when
// other inputs may be late, and look at Ready afterwards when it returns true.
func (r *Ring) Notice(now time.Time) bool {
	if !r.late(now) {
		return false
	}
	r.begin(now)
	r.finish(now)
	return true
}

// late says whether now is so long after the time for which a tick was asked that the peer must have been suspended.
func (r *Ring) late(now time.Time) bool {
	return !r.wake.IsZero() && now.Sub(r.wake) > r.cfg.Pause && r.state != Leaving
}

// begin opens every input. A peer that wakes much later than it meant to was suspended: others may have taken over its arc, so
// it stops serving before it says a word. One that was joining has only old words to go by, and begins again too.
func (r *Ring) begin(now time.Time) {
	if r.wake.IsZero() {
		r.interval = r.cfg.Interval
		r.nextRound = now
		r.nextHeal = now.Add(r.jitter(healEvery))
		return
	}
	if !r.late(now) {
		return
	}
	r.reach.Interrupted(now)
	if r.state == Worker {
		r.attach.RenewAll(now)
		return
	}
	r.rejoin(now)
}

// finish closes every input: what it means for the arc served, and when to wake.
func (r *Ring) finish(now time.Time) {
	r.settle(now)
	r.wake = r.nextRound
	for _, n := range r.peers {
		r.wakeAt(n.retry)
	}
	for _, c := range r.candidates {
		r.wakeAt(c.retry)
	}
	for _, until := range r.fences {
		if until.After(now) {
			r.wakeAt(until)
		}
	}
	for _, next := range []func() (time.Time, bool){r.watch, r.reach.Next, r.guests.Next, r.attach.Next} {
		if at, ok := next(); ok && at.After(now) {
			r.wakeAt(at)
		}
	}
	r.wakeAt(now.Add(r.cfg.Pause / 2)) // so that a suspension shows soon
	if r.wake.Before(now) {
		r.wake = now
	}
}

func (r *Ring) wakeAt(t time.Time) {
	if !t.IsZero() && t.Before(r.wake) {
		r.wake = t
	}
}

// jitter spreads d by a fifth to both sides, so that peers started together do not knock together.
func (r *Ring) jitter(d time.Duration) time.Duration {
	return d + time.Duration((r.rnd.Float64()-0.5)*0.4*float64(d))
}

func (r *Ring) call(to Peer, req *wire.Message, fl inFlight) {
	r.lastCall++
	fl.to = to
	r.calls[r.lastCall] = fl
	r.out = append(r.out, Call{ID: r.lastCall, To: to, Request: req, Timeout: r.cfg.CallTimeout})
}

func (r *Ring) tell(e Event) { r.events = append(r.events, e) }

// sortedTombstones lists the dead by the end of their time.
func (r *Ring) sortedTombstones() []peer.ID {
	return slices.SortedFunc(maps.Keys(r.tombstones), func(a, b peer.ID) int { return r.tombstones[a].until.Compare(r.tombstones[b].until) })
}
