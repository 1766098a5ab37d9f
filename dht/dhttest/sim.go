// Package dhttest holds networks in memory for tests of the ring: Sim drives the state machines of up to ten thousand peers
// through an event queue in virtual time, and Network carries the calls of whole DHTs, for use inside a synctest bubble. Both
// have latency, loss, partition and death, all from a seed, and a Membership like kad-dht's.
package dhttest

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Errors that calls end with.
var (
	ErrTimeout = errors.New("no answer in time")
	ErrRefused = errors.New("connection refused")
)

// World is the network between the peers. The zero World has 20 to 60 ms of round trip, no loss and no partition.
type World struct {
	Seed uint64
	// Latency is one way from peer i to peer j; nil draws 10 to 30 ms a pair.
	Latency func(i, j int) time.Duration
	// Loss is the share of messages that vanish, each way.
	Loss float64
	// Silent makes dead peers eat what is sent to them instead of refusing it.
	Silent bool
	// NAT says which peers cannot be dialled: what is sent to one arrives only where it sent something itself in the last minute, so that
	// there is a connection. They start as workers. nil: none.
	NAT func(i int) bool
	// Config is every peer's, but for its seed, memory and role.
	Config dht.Config
	// Ring says which kad-dht network a peer's table is filled from; nil puts all in one.
	Ring func(i int) int
}

// Sim is many peers in virtual time. It is not safe for concurrent use.
type Sim struct {
	World
	Now   time.Time
	Nodes []*Node
	// Calls counts the requests sent, Bytes what they and their answers take as messages.
	Calls, Bytes int
	// OnEvent, when set, sees each event of each peer.
	OnEvent func(n *Node, e dht.Event)
	// OnStep, when set, is called after each step of the world: whatever it sees holds until the next.
	OnStep func()

	rnd       *rand.Rand
	queue     eventQueue
	last      uint64
	byID      map[peer.ID]*Node
	sorted    map[int][]dht.Peer // the living, by network; nil after a birth or a death
	partition func(i, j int) bool
	lines     map[[2]int]time.Time // when a peer that cannot be dialled last sent something to another
}

// lineFor is how long a connection lasts on which nothing is sent.
const lineFor = time.Minute

// Node is one peer of a Sim.
type Node struct {
	*dht.Ring
	Index int
	Alive bool
	Table *Table

	peer   dht.Peer
	thaw   time.Time // it does nothing before
	life   int       // grows when it dies, so that what was meant for the former life is not delivered
	tickAt time.Time
}

// NewSim returns an empty world at a fixed date.
func NewSim(w World) *Sim {
	s := &Sim{
		World: w, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		rnd: rand.New(rand.NewPCG(w.Seed, 7)), byID: map[peer.ID]*Node{}, lines: map[[2]int]time.Time{},
	}
	if s.Latency == nil {
		s.Latency = func(i, j int) time.Duration {
			pair := rand.New(rand.NewPCG(w.Seed+uint64(min(i, j)), uint64(max(i, j))))
			return 10*time.Millisecond + time.Duration(pair.IntN(20))*time.Millisecond
		}
	}
	return s
}

// Identity is the i-th peer of any test network.
func Identity(i int) dht.Peer {
	return dht.NewPeer(peer.ID(fmt.Sprintf("peer-%05d", i)), [][]byte{{byte(i >> 8), byte(i)}})
}

// Add starts a new peer that joins through entries, or founds a ring when there are none.
func (s *Sim) Add(entries ...*Node) *Node {
	n := &Node{Index: len(s.Nodes), peer: Identity(len(s.Nodes))}
	s.Nodes = append(s.Nodes, n)
	s.byID[n.peer.ID] = n
	s.start(n, nil, len(entries) == 0)
	s.Join(n, entries...)
	return n
}

// Join lets a running peer know of entry peers.
func (s *Sim) Join(n *Node, entries ...*Node) {
	peers := make([]dht.Peer, len(entries))
	for i, entry := range entries {
		peers[i] = entry.peer
	}
	if len(peers) > 0 {
		n.Ring.Join(s.Now, peers...)
		s.after(n)
	}
}

// Kill ends a peer as kill -9 does. Its neighbours' connections drop unless the world is silent.
func (s *Sim) Kill(n *Node) {
	s.end(n)
	if s.Silent {
		return
	}
	for _, other := range s.Nodes {
		if other.Alive && slices.ContainsFunc(leaves(other), func(p dht.Peer) bool { return p.ID == n.peer.ID }) {
			s.At(s.Latency(n.Index, other.Index), func() {
				if other.Alive {
					other.Disconnected(s.Now, n.peer.ID)
					s.after(other)
				}
			})
		}
	}
}

// Restart starts a dead peer with what its Snapshot kept; nil when it kept nothing.
func (s *Sim) Restart(n *Node, memory *dht.Memory) { s.start(n, memory, false) }

func (s *Sim) start(n *Node, memory *dht.Memory, found bool) {
	cfg := s.Config
	cfg.Seed = s.rnd.Uint64()
	cfg.Memory, cfg.Found = memory, cfg.Found || found
	if s.behindNAT(n) {
		cfg.Role = dht.RoleWorker
	}
	n.Alive = true
	n.life++
	s.sorted = nil
	n.tickAt = time.Time{}
	n.Table = NewTable(n.peer)
	n.Ring = dht.NewRing(cfg, n.peer, n.Table)
	n.Ring.Tick(s.Now)
	s.after(n)
	s.refreshLater(n, n.life, 2*time.Second)
}

// Observe tells a peer whether others can dial it.
func (s *Sim) Observe(n *Node, seen dht.Reachability) {
	n.Ring.Observe(s.Now, seen)
	s.after(n)
}

// StepDown lets a ring peer say goodbye and go on as a worker.
func (s *Sim) StepDown(n *Node) {
	s.farewell(n, n.Ring.StepDown(s.Now))
}

func (s *Sim) farewell(n *Node, calls []dht.Call) {
	for _, call := range calls {
		s.send(n, call.To, call.Request, call.Timeout, func(*wire.Message, error) {})
	}
	s.after(n)
}

func (s *Sim) behindNAT(n *Node) bool { return s.NAT != nil && s.NAT(n.Index) }

// reaches says whether what from sends can arrive at to.
func (s *Sim) reaches(from, to *Node) bool {
	if !s.behindNAT(to) {
		return true
	}
	last, ok := s.lines[[2]int{to.Index, from.Index}]
	return ok && s.Now.Sub(last) < lineFor
}

// Leave lets a peer say goodbye and go once its neighbours know.
func (s *Sim) Leave(n *Node) {
	s.farewell(n, n.Ring.Leave(s.Now))
	s.At(time.Second, func() { s.end(n) })
}

func (s *Sim) end(n *Node) {
	n.Alive = false
	n.life++
	s.sorted = nil
}

// Freeze suspends a peer for d, as SIGSTOP does: it neither acts nor answers, and whatever comes meanwhile waits for it.
func (s *Sim) Freeze(n *Node, d time.Duration) { n.thaw = s.Now.Add(d) }

// Frozen says whether a peer is suspended at this moment.
func (s *Sim) Frozen(n *Node) bool { return n.thaw.After(s.Now) }

// awake runs fn once n is not frozen, if it still lives the same life.
func (s *Sim) awake(n *Node, fn func()) {
	life := n.life
	if left := n.thaw.Sub(s.Now); left > 0 {
		s.At(left, func() {
			if n.life == life {
				s.awake(n, fn)
			}
		})
		return
	}
	fn()
}

// Unite lets the routing tables of all peers be filled from one network.
func (s *Sim) Unite() { s.Ring, s.sorted = nil, nil }

// Partition cuts every pair for which cut is true; nil heals.
func (s *Sim) Partition(cut func(i, j int) bool) { s.partition = cut }

// At runs fn after a delay.
func (s *Sim) At(delay time.Duration, fn func()) {
	s.last++
	heap.Push(&s.queue, event{at: s.Now.Add(delay), seq: s.last, run: fn})
}

// Run lets d of virtual time pass.
func (s *Sim) Run(d time.Duration) { s.RunUntil(d, func() bool { return false }) }

// RunUntil lets time pass until done, looked at after each event, or at most d; it reports whether done became true.
func (s *Sim) RunUntil(d time.Duration, done func() bool) bool {
	end := s.Now.Add(d)
	for len(s.queue) > 0 && !s.queue[0].at.After(end) {
		e := heap.Pop(&s.queue).(event)
		s.Now = e.at
		e.run()
		if s.OnStep != nil {
			s.OnStep()
		}
		if done() {
			return true
		}
	}
	s.Now = end
	return done()
}

// Lookup searches the owner of key from n, and lets time pass until it is found. As in the node, the first try is a peer's word.
func (s *Sim) Lookup(n *Node, key ring.Key) (dht.Lookup, error) {
	search := n.Search(key)
	var pump func()
	pump = func() {
		for {
			to, ok := search.Ask(s.Now)
			if !ok {
				return
			}
			s.send(n, to, search.Request(), 2*time.Second, func(answer *wire.Message, err error) {
				search.Answer(s.Now, to, answer, err)
				pump()
			})
		}
	}
	pump()
	if !search.Done() {
		s.RunUntil(time.Minute, search.Done)
	}
	found, err := search.Lookup()
	if err == nil {
		n.Found(found)
	}
	return found, err
}

// after does what a peer wants done after an input.
func (s *Sim) after(n *Node) {
	ready := n.Ready()
	for _, e := range ready.Events {
		if _, ok := e.(dht.StateChanged); ok {
			s.sorted = nil // a worker stands in no routing table
		}
		if s.OnEvent != nil {
			s.OnEvent(n, e)
		}
	}
	life := n.life
	for _, call := range ready.Calls {
		s.send(n, call.To, call.Request, call.Timeout, func(answer *wire.Message, err error) {
			n.Result(s.Now, call.ID, answer, err)
			s.after(n)
		})
	}
	if next := n.Next(); n.tickAt.IsZero() || next.Before(n.tickAt) {
		n.tickAt = next
		s.At(max(0, next.Sub(s.Now)), func() {
			if n.life != life || !n.tickAt.Equal(next) {
				return
			}
			s.awake(n, func() {
				n.tickAt = time.Time{}
				n.Tick(s.Now)
				s.after(n)
			})
		})
	}
}

// send carries a request and its answer; done runs once, and not at all when the caller died meanwhile.
func (s *Sim) send(from *Node, to dht.Peer, req *wire.Message, timeout time.Duration, done func(*wire.Message, error)) {
	s.Calls++
	s.Bytes += proto.Size(req)
	life, open := from.life, true
	finish := func(delay time.Duration, answer *wire.Message, err error) {
		s.At(delay, func() {
			if open && from.life == life {
				open = false
				s.awake(from, func() { done(answer, err) })
			}
		})
	}
	target := s.byID[to.ID]
	if target == nil {
		finish(0, nil, ErrRefused)
		return
	}
	there := s.Latency(from.Index, target.Index)
	finish(timeout, nil, ErrTimeout)
	if s.behindNAT(from) {
		s.lines[[2]int{from.Index, target.Index}] = s.Now
	}
	if s.lost(from.Index, target.Index) || !s.reaches(from, target) {
		return
	}
	s.At(there, func() {
		if !target.Alive {
			if !s.Silent {
				finish(there, nil, ErrRefused)
			}
			return
		}
		s.awake(target, func() {
			if from.Self().Role == dht.RoleMember {
				target.Table.Add(from.peer)
			}
			s.answer(target, from.peer.ID, req, func(answer *wire.Message) {
				s.Bytes += proto.Size(answer)
				if !s.lost(target.Index, from.Index) {
					from.Table.Add(target.peer)
					finish(there, answer, nil)
				}
			})
		})
	})
}

// answer lets target answer a request, after asking a third where the request wants that.
func (s *Sim) answer(target *Node, from peer.ID, req *wire.Message, reply func(*wire.Message)) {
	if about := req.GetPingRequest().GetTarget(); len(about) > 0 {
		pong := func(reachable bool) {
			reply(wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: reachable}}))
		}
		p, ok := target.Relay(peer.ID(about))
		if !ok {
			reply(wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: wire.Reason_REASON_INVALID}}))
			return
		}
		ping := wire.New(&wire.Message_PingRequest{PingRequest: &wire.PingRequest{}})
		s.send(target, p, ping, time.Second, func(_ *wire.Message, err error) { pong(err == nil) })
		return
	}
	answer := target.Handle(s.Now, from, req)
	s.after(target)
	reply(answer)
}

func (s *Sim) lost(i, j int) bool {
	return s.partition != nil && s.partition(i, j) || s.Loss > 0 && s.rnd.Float64() < s.Loss
}

func leaves(n *Node) []dht.Peer {
	preds, succs := n.Leaves()
	return append(preds, succs...)
}

type event struct {
	at  time.Time
	seq uint64
	run func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return last
}
