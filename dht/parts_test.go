package dht

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// Each test drives one part of a ring alone: it gives input to that part and looks at what comes of
// it there.

var start = time.Unix(1e9, 0)

func partsOf(cfg Config) parts {
	cfg = cfg.withDefaults()
	self := NewPeer("self", nil)
	self.Role = cfg.Role
	p := newParts(cfg, self, noTable{})
	p.pace.begin(start)
	return p
}

// around returns n peers, nearest to self first.
func around(self ring.Key, n int) []Peer {
	peers := make([]Peer, n)
	for i := range peers {
		peers[i] = NewPeer(peer.ID(fmt.Sprintf("ring-%d", i)), [][]byte{{byte(i)}})
	}
	slices.SortFunc(peers, func(p, q Peer) int { return ring.Near(p.Key(), self).Compare(ring.Near(q.Key(), self)) })
	return peers
}

// with puts peers into the leaf set, as if they had just spoken.
func (p parts) with(peers ...Peer) parts {
	for _, q := range peers {
		p.insert(start, q)
		if n := p.peers[q.Key()]; n != nil {
			n.lastHeard = start
		}
	}
	p.Ready()
	return p
}

// told counts the events of a kind since the last look.
func told[E Event](p parts) (n int) {
	for _, e := range p.Ready().Events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

func TestStepJitters(t *testing.T) {
	p := partsOf(Config{})
	for range 1000 {
		if d := p.jitter(time.Second); d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Fatalf("jitter of a second: %v", d)
		}
	}
	p.call(NewPeer("a", nil), pingRequest(""), inFlight{})
	id := p.Ready().Calls[0].ID
	if p.doubt(); id > p.doubted {
		t.Error("a call from before the doubt is not doubted")
	}
	p.call(NewPeer("a", nil), pingRequest(""), inFlight{})
	if p.Ready().Calls[0].ID <= p.doubted {
		t.Error("a call from after the doubt is doubted")
	}
	if _, ok := p.answered(id); !ok {
		t.Error("a call is not known")
	}
	if _, ok := p.answered(id); ok {
		t.Error("a call is answered twice")
	}
}

func TestContactsAreBounded(t *testing.T) {
	c := &contacts{self: "self"}
	c.remember(around(ring.Key{}, 2*maxContacts)...)
	if len(c.list) != maxContacts {
		t.Fatalf("%d contacts", len(c.list))
	}
	last := c.list[maxContacts-1]
	c.remember(last, NewPeer("self", nil))
	if len(c.list) != maxContacts || c.list[0].ID != last.ID {
		t.Error("who was met again does not stand in front")
	}
}

func TestPaceSlowsDown(t *testing.T) {
	p := partsOf(Config{}).pace
	for range 10 {
		p.round()
	}
	p.rest(start)
	if p.interval != p.cfg.MaxInterval || p.next.Sub(start) < p.interval*4/5 || p.steady != 10 {
		t.Errorf("after 10 quiet rounds: interval %v, next after %v", p.interval, p.next.Sub(start))
	}
	p.changed(start, p.nearest)
	if p.interval != p.cfg.Interval || p.next.Sub(start) > 2*p.interval || p.steady != 10 {
		t.Errorf("after a change farther away: interval %v, next after %v, steady %d", p.interval, p.next.Sub(start), p.steady)
	}
	if p.changed(start, [2]ring.Key{{1}, {2}}); p.steady != 0 {
		t.Error("other nearest neighbours, and still steady")
	}
}

func TestTombstones(t *testing.T) {
	dead := tombstones{}
	a, b := Peer{ID: "a", Incarnation: 3}, Peer{ID: "b", Incarnation: 1}
	dead.set(start, a, time.Minute)
	dead.set(start, b, time.Hour)
	if again := (Peer{ID: "a", Incarnation: 4}); !dead.has(a) || dead.has(again) {
		t.Error("hearsay is not told apart by incarnation")
	} else if dead.drop(again); dead.has(a) || !dead.has(b) {
		t.Error("a later life takes its own tombstone, and no other")
	}
	dead.set(start, a, time.Minute)
	if dead.expire(start.Add(time.Minute)); dead.has(a) || !dead.has(b) {
		t.Error("a tombstone stands for its time")
	}
	dead.set(start, a, time.Minute)
	if dead.drop(a); len(dead) != 0 {
		t.Error("one that never died, and the others are still believed to be dead")
	}
	for i := range 2 * maxTombstones {
		dead.set(start.Add(time.Duration(i)), Peer{ID: peer.ID(fmt.Sprint(i))}, time.Minute)
	}
	if len(dead) > maxTombstones || !dead.has(Peer{ID: peer.ID(fmt.Sprint(2*maxTombstones - 1))}) {
		t.Errorf("%d tombstones", len(dead))
	}
}

func TestHoodTellsOfItself(t *testing.T) {
	p := partsOf(Config{})
	h, a := p.neighborhood, NewPeer("a", nil)
	h.insert(start, a)
	if got := p.Ready().Events; len(got) != 2 || got[0] != (LeavesChanged{}) {
		t.Errorf("a peer came: %v", got)
	}
	before := h.lists()
	if h.lists() != before {
		t.Error("the same lists are made twice")
	}
	if h.SetAddrs([][]byte{{1}}); len(h.lists().GetSelf().GetAddrs()) != 1 {
		t.Error("other addresses are not told")
	}
	h.peers[a.Key()].lists = &wire.Neighbours{Lists: 7, Predecessors: []*wire.Peer{{Id: []byte("b")}}}
	short := &wire.Neighbours{Self: a.Wire(), Lists: 7}
	if said, whole := h.completed(a.Key(), short); !whole || len(said.GetPredecessors()) != 1 {
		t.Error("lists that we hold are not filled in")
	}
	if _, whole := h.completed(a.Key(), &wire.Neighbours{Self: a.Wire(), Lists: 8}); whole {
		t.Error("lists that we do not hold are made up")
	}
	if h.clear(start); len(h.peers) != 0 || h.leaves.Len() != 0 || told[LeavesChanged](p) != 1 {
		t.Error("the leaf set is not empty")
	}
}

func TestServingAlone(t *testing.T) {
	p := partsOf(Config{Found: true})
	p.settle(start)
	if arc, serves := p.Arc(); !serves || !arc.Whole() || p.State() != Serving {
		t.Fatalf("a founder serves %v %s", serves, arc)
	}
	m := &Memory{}
	if p.keep(m); !m.Alone || !m.HasPredecessor {
		t.Errorf("it remembers %+v", m)
	}
	p.rejoin(start, &Memory{})
	if p.settle(start.Add(p.cfg.RejoinGrace - 1)); p.Serves(ring.Key{}) {
		t.Error("a founder that slept serves before the grace is over")
	}
	if p.settle(start.Add(p.cfg.RejoinGrace)); !p.Serves(ring.Key{}) {
		t.Error("a founder that slept never serves again")
	}
	p.serving.join()
	p.serve(false, ring.Arc{})
	p.serving.forget()
	if p.settle(start.Add(time.Hour)); p.Serves(ring.Key{}) {
		t.Error("one that gave its place up serves alone")
	}
}

func TestServingWaitsForTheFence(t *testing.T) {
	a := NewPeer("a", nil)
	p := partsOf(Config{Found: true})
	p.settle(start)
	p.with(a)
	p.settle(start)
	arc, _ := p.Arc()
	if arc.Start != a.Key() {
		t.Fatalf("a predecessor came, and the arc is %s", arc)
	}
	p.fences[a.ID] = start.Add(time.Second)
	p.leaves.Remove(a.Key())
	if p.settle(start); p.Serves(a.Key()) {
		t.Error("the arc of a dead predecessor is served at once")
	}
	if p.settle(start.Add(time.Second)); !p.Serves(a.Key()) {
		t.Error("the arc of a dead predecessor is served never")
	}
}

func TestExchangeLeavesOutKnownLists(t *testing.T) {
	a := NewPeer("a", nil)
	p := partsOf(Config{}).with(a)
	n := p.peers[a.Key()]
	if said := p.exchange.neighboursTo(start, a.Key()); len(said.GetSuccessors()) != 1 {
		t.Errorf("to one that does not know our lists: %v", said)
	}
	n.holds = p.lists().Lists
	if said := p.exchange.neighboursTo(start, a.Key()); len(said.GetSuccessors()) != 0 || said.Lists != n.holds {
		t.Errorf("to one that knows our lists: %v", said)
	}
	p.exchange.ask(start, n)
	p.exchange.ask(start, n)
	if calls := p.Ready().Calls; len(calls) != 1 {
		t.Errorf("%d calls at a time", len(calls))
	}
}

func TestIntroducerAsksTwice(t *testing.T) {
	p := partsOf(Config{})
	in, a, worker, dead := p.introducer, NewPeer("a", nil), NewPeer("worker", nil), NewPeer("dead", nil)
	worker.Role = RoleWorker
	p.dead.set(start, dead, time.Hour)
	in.consider(start, "", []Peer{a, worker, dead, p.self, a})
	in.consider(start, "", []Peer{a})
	if calls := p.Ready().Calls; len(calls) != 1 || calls[0].To.ID != a.ID {
		t.Fatalf("calls: %v", calls)
	}
	in.failed(start, a)
	in.retry(start)
	if len(p.Ready().Calls) != 0 {
		t.Error("called again at once")
	}
	in.retry(start.Add(suspectGap))
	if len(p.Ready().Calls) != 1 {
		t.Error("not called again")
	}
	if in.failed(start, a); len(p.candidates.list) != 0 || !p.dead.has(a) {
		t.Error("who did not answer twice is still believed in")
	}
}

func TestRoutesBelieveWhatTheyLearnt(t *testing.T) {
	peers := around(NewPeer("self", nil).Key(), 10)
	p := partsOf(Config{R: 1}).with(peers[:9]...)
	a := peers[9]
	at := ring.Arc{Start: peers[8].Key(), End: a.Key()}
	hint := &wire.Hint{Owner: a.Wire(), Start: at.Start[:], End: at.End[:]}
	p.dead.set(start, a, time.Minute)
	if p.Learn(hint); p.learnt.Len() != 0 {
		t.Error("a hint to a dead peer is believed")
	}
	p.dead.expire(start.Add(time.Hour))
	p.Learn(hint)
	if owner, ok := p.Guess(a.Key()); !ok || owner.ID != a.ID {
		t.Errorf("guess: %v %v", owner, ok)
	}
	if next := p.NextHop(a.Key()); next.GetFinal() || next.GetKnown() || string(next.GetHint().GetOwner().GetId()) != string(a.ID) {
		t.Errorf("next hop: %v", next)
	}
	if s := p.Search(a.Key()); s.Done() {
		t.Error("a guess ends a search")
	}
	if answer := p.entry("stranger"); string(answer.GetSelf().GetId()) != "self" || len(answer.GetPeers()) != 2 {
		t.Errorf("entry: %v", answer)
	}
}

func TestAttacherKeepsItsPlaces(t *testing.T) {
	p := partsOf(Config{Role: RoleWorker})
	peers := around(p.self.Key(), workers.AttachTo+1)
	p.attach.AddCandidates(peers...)
	p.attacher.send(start)
	if calls := p.Ready().Calls; len(calls) != workers.AttachTo {
		t.Fatalf("%d calls", len(calls))
	}
	p.attacher.answered(start, peers[0], &wire.AttachResponse{Accepted: true}, nil)
	if told[AttachedChanged](p) != 1 || len(p.attach.Peers()) != 1 || p.contacts.list[0].ID != peers[0].ID {
		t.Error("an attachment is not told of, or not remembered")
	}
	p.attacher.answered(start, peers[1], &wire.AttachResponse{}, nil)
	if calls := p.Ready().Calls; len(calls) != 1 || calls[0].To.ID != peers[workers.AttachTo].ID {
		t.Errorf("after a refusal: %v", calls)
	}
}

func TestSeekerFindsItsPlace(t *testing.T) {
	p := partsOf(Config{})
	k, a := p.seeker, NewPeer("a", nil)
	p.contacts.remember(a)
	k.start(start)
	k.start(start)
	calls := p.Ready().Calls
	if len(calls) != 1 || calls[0].Request.GetNextHopRequest() == nil {
		t.Fatalf("calls: %v", calls)
	}
	fl, _ := p.answered(calls[0].ID)
	arc := ring.Arc{Start: a.Key(), End: a.Key()}
	final := nextHopResponse(&wire.NextHopResponse{Final: true, Hint: &wire.Hint{Owner: a.Wire(), Start: arc.Start[:], End: arc.End[:]}})
	k.answered(start, inFlight{to: a, search: lookup.New(p.self.ID, a.Key(), []Peer{a}, 1)}, final, nil)
	if k.located {
		t.Error("the answer to an older search locates us")
	}
	k.answered(start, fl, final, nil)
	if !k.located || k.search != nil || p.candidates.find(a.Key()) == nil {
		t.Error("the owner of our place is not introduced")
	}
	k.neighborLost(start)
	k.heal(start)
	if k.search != nil {
		t.Error("looks around at once after a death")
	}
	if k.heal(start.Add(2 * healSoon)); k.search == nil {
		t.Error("does not look around after a death")
	}
}

func TestSuspicionAsksThirds(t *testing.T) {
	a, b := NewPeer("a", nil), NewPeer("b", nil)
	for _, row := range []struct {
		name   string
		answer *wire.Message
		err    error
		dead   bool
	}{
		{"the third reaches it", pingResponse(true), nil, false},
		{"the third does not reach it", pingResponse(false), nil, true},
		{"the third says nothing", nil, errors.New("no answer"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := partsOf(Config{}).with(a, b)
			u := p.suspicion
			u.failed(start, a)
			if told[PeerSuspect](p) != 1 || !p.Suspect(a.ID) {
				t.Error("who did not answer is not suspect")
			}
			u.failed(start, a)
			var vouch *Call
			for _, call := range p.Ready().Calls {
				if call.Request.GetPingRequest() != nil {
					vouch = &call
				}
			}
			if vouch == nil || vouch.To.ID != b.ID {
				t.Fatal("no third was asked")
			}
			fl, _ := p.answered(vouch.ID)
			u.vouched(start, fl, row.answer, row.err)
			if dead := told[PeerDead](p) == 1; dead != row.dead || dead != p.dead.has(a) || dead == p.leaves.Contains(a.Key()) {
				t.Errorf("dead: %v", dead)
			}
		})
	}
}

func TestListenerHears(t *testing.T) {
	p := partsOf(Config{})
	l, a := p.listener, NewPeer("a", nil)
	said := func(state wire.State) *wire.Neighbours { return &wire.Neighbours{Self: a.Wire(), State: state} }
	l.receive(start, said(wire.State_STATE_SERVING), false)
	if told[PeerUp](p) != 1 || p.peers[a.Key()].last != nil {
		t.Error("a word of old brings the peer, and not what it said")
	}
	if l.receive(start, said(wire.State_STATE_SERVING), true); p.peers[a.Key()].last == nil {
		t.Error("a fresh word is not kept")
	}
	l.receive(start, said(wire.State_STATE_LEAVING), true)
	if told[PeerLeft](p) != 1 || p.leaves.Len() != 0 {
		t.Error("who leaves stays")
	}
	if answer := l.attached(start, &wire.AttachRequest{Sender: a.Wire()}); answer.GetAttachResponse().GetAccepted() {
		t.Error("a peer that does not serve takes workers")
	}
}

func TestRolesFollowReach(t *testing.T) {
	a := NewPeer("a", nil)
	p := partsOf(Config{Found: true}).with(a)
	p.setState(Serving)
	p.reach.Observe(start, workers.ReachPrivate)
	later := start.Add(p.cfg.Demote)
	p.roles.follow(later)
	p.roles.follow(later)
	if told[CutOff](p) != 1 || p.State() != Serving {
		t.Error("a serving peer is told once that it is cut off, and serves on")
	}
	if calls := p.roles.stepDown(later); len(calls) != 1 || p.State() != Worker || p.leaves.Len() != 0 || p.Self().Role != RoleWorker {
		t.Errorf("stepped down: %s, goodbyes %v", p.State(), calls)
	}
	p.reach.Observe(later, workers.ReachPublic)
	if p.roles.follow(later.Add(p.cfg.Promote)); p.State() != Joining || p.Self().Role != RoleMember || p.pace.steady != 0 {
		t.Errorf("public for long: %s", p.State())
	}
	if calls := p.roles.leave(later); len(calls) != 0 || p.State() != Leaving {
		t.Errorf("left: %s, goodbyes %v", p.State(), calls)
	}
}

func TestRoundsGoAround(t *testing.T) {
	peers := around(NewPeer("self", nil).Key(), 10)
	p := partsOf(Config{}).with(peers...)
	p.setState(Serving)
	asked := map[peer.ID]int{}
	for range 10 {
		for _, key := range p.rounds.partners(start) {
			asked[p.peers[key].peer.ID]++
		}
	}
	if len(asked) != len(peers) {
		t.Errorf("asked %d of %d", len(asked), len(peers))
	}
	p.setState(Leaving)
	p.Ready()
	if p.rounds.round(start); len(p.Ready().Calls) != 0 || p.pace.next.Sub(start) != p.cfg.MaxInterval {
		t.Error("a leaving peer asks others")
	}
}

// TestGoodbyesRest: who comes and goes without a pause is taken back once an interval, and its
// return says nothing of others that are gone.
func TestGoodbyesRest(t *testing.T) {
	r := NewRing(Config{Found: true}, NewPeer("self", nil), noTable{})
	now := time.Unix(1e9, 0)
	r.Tick(now)
	p := NewPeer("restless", nil)
	dead := NewPeer("dead", nil)
	r.dead.set(now, dead, time.Hour)
	events := func(during time.Duration) (n int) {
		for end := now.Add(during); now.Before(end); now = now.Add(10 * time.Millisecond) {
			r.Handle(now, p.ID, stabilizeRequest(&wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_JOINING}))
			r.Handle(now, p.ID, wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: &wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_LEAVING}}}))
			for _, e := range r.Ready().Events {
				if _, ok := e.(PeerLeft); ok {
					n++
				}
			}
			r.Tick(now)
		}
		return n
	}
	if n := events(10 * time.Second); n < 9 || n > 11 {
		t.Errorf("it left %d times in 10 s", n)
	}
	if !r.dead.has(dead) {
		t.Error("another's tombstone fell")
	}
	now = now.Add(time.Second)
	r.Handle(now, p.ID, stabilizeRequest(&wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_JOINING}))
	if len(r.members()) != 1 {
		t.Error("it is not taken back")
	}
	worker := NewPeer("worker", nil)
	changes := 0
	for range 100 {
		for _, leave := range []bool{false, true} {
			r.Handle(now, worker.ID, wire.New(&wire.Message_AttachRequest{AttachRequest: &wire.AttachRequest{Sender: worker.Wire(), Leave: leave}}))
		}
		for _, e := range r.Ready().Events {
			if _, ok := e.(AttachedChanged); ok {
				changes++
			}
		}
	}
	if changes > 2 {
		t.Errorf("a worker came and went %d times at once", changes)
	}
}

// TestStepDownIsAttached: a neighbour that becomes a worker is attached at once: it has said
// goodbye a moment ago.
func TestStepDownIsAttached(t *testing.T) {
	r := NewRing(Config{Found: true}, NewPeer("self", nil), noTable{})
	now := time.Unix(1e9, 0)
	r.Tick(now)
	p := NewPeer("caller", nil)
	r.Handle(now, p.ID, stabilizeRequest(&wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_JOINING}))
	r.Handle(now, p.ID, wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: &wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_LEAVING}}}))
	r.Handle(now, p.ID, wire.New(&wire.Message_AttachRequest{AttachRequest: &wire.AttachRequest{Sender: p.Wire()}}))
	if list := r.Attached(); len(list) != 1 || len(r.members()) != 0 {
		t.Errorf("attached: %v", list)
	}
}

// TestNamersAreBlamed: who names ever new peers that do not answer is soon not listened to, for a
// while; who names a leaf set of dead ones is.
func TestNamersAreBlamed(t *testing.T) {
	p := partsOf(Config{})
	in, made := p.introducer, 0
	name := func(now time.Time, by peer.ID, n int) (called int) {
		var list []Peer
		for range n {
			made++
			list = append(list, NewPeer(peer.ID(fmt.Sprint("made", made)), nil))
		}
		in.named(now, by, list)
		for range 2 {
			for _, c := range slices.Clone(p.candidates.list) {
				in.failed(now, c.peer)
			}
		}
		return len(p.Ready().Calls)
	}
	now, called := start, 0
	for range 100 {
		called += name(now, "liar", 8)
		now = now.Add(100 * time.Millisecond)
	}
	if most := 4*p.cfg.R + 8; called > most || called < 4*p.cfg.R {
		t.Errorf("%d made-up peers were called", called)
	}
	if name(now, "honest", 2*p.cfg.R) != 2*p.cfg.R || name(now, "honest", 1) != 1 {
		t.Error("one whose leaf set is dead is not listened to any more")
	}
	if name(now.Add(deadFor), "liar", 1) != 1 {
		t.Error("it is never listened to again")
	}
	for i := range 10 * maxBlamed {
		name(now, peer.ID(fmt.Sprint(i)), 1)
	}
	if len(in.blamed) > maxBlamed {
		t.Errorf("%d peers are blamed", len(in.blamed))
	}
}

// TestJoinersCallBack: who calls a joining peer stands in its leaf set once it has answered, and
// who does not answer is not called without end.
func TestJoinersCallBack(t *testing.T) {
	r := NewRing(Config{}, NewPeer("self", nil), noTable{})
	now := time.Unix(1e9, 0)
	r.Tick(now)
	p := NewPeer("caller", nil)
	said := &wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_SERVING, ServedStart: make([]byte, ring.KeySize), Successors: []*wire.Peer{NewPeer("named", nil).Wire()}}
	called := 0
	answer := func(m *wire.Message, err error) {
		r.Handle(now, p.ID, stabilizeRequest(said))
		r.Tick(now)
		for _, call := range r.Ready().Calls {
			if called++; call.To.ID != p.ID {
				t.Errorf("%s is called", call.To.ID)
			}
			r.Result(now, call.ID, m, err)
		}
	}
	states := []wire.State{wire.State_STATE_SERVING, wire.State_STATE_JOINING, wire.State_STATE_UNKNOWN, 7}
	for i := range 100 { // ten seconds
		now = now.Add(100 * time.Millisecond)
		said.State = states[i%len(states)]
		answer(nil, errors.New("no answer"))
		r.Handle(now, p.ID, wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: said}})) // a goodbye that is none
	}
	said.State = wire.State_STATE_SERVING
	if is, _ := r.Leaf(p.ID); is || called == 0 || called > 25 {
		t.Errorf("it did not answer %d calls in ten seconds; in the leaf set %v", called, is)
	}
	now = now.Add(10 * time.Second)
	answer(stabilizeResponse(said), nil)
	if is, proven := r.Leaf(p.ID); !is || !proven {
		t.Errorf("it answered: in the leaf set %v, proven %v", is, proven)
	}
}

// TestCallersAreNotProven: whoever calls stands in the leaf set; it has answered only when it did.
func TestCallersAreNotProven(t *testing.T) {
	r := NewRing(Config{Found: true}, NewPeer("self", nil), noTable{})
	now := time.Unix(1e9, 0)
	r.Tick(now)
	p := NewPeer("caller", nil)
	said := &wire.Neighbours{Self: p.Wire(), State: wire.State_STATE_SERVING, ServedStart: make([]byte, ring.KeySize)}
	r.Handle(now, p.ID, stabilizeRequest(said))
	if is, proven := r.Leaf(p.ID); !is || proven {
		t.Errorf("it called: in the leaf set %v, proven %v", is, proven)
	}
	for range 5 {
		now = now.Add(time.Second)
		r.Tick(now)
		for _, call := range r.Ready().Calls {
			r.Result(now, call.ID, stabilizeResponse(said), nil)
		}
	}
	if is, proven := r.Leaf(p.ID); !is || !proven {
		t.Errorf("it answered: in the leaf set %v, proven %v", is, proven)
	}
}

// TestServedArcsOfOthers: an announced arc counts for an hour, without the part that belongs to
// other known peers, or to this one once it serves.
func TestServedArcsOfOthers(t *testing.T) {
	p := partsOf(Config{})
	p.self.ID = "self"
	self := p.self.Key()
	others := around(self, 6)
	slices.SortFunc(others, func(a, b Peer) int { return a.Key().Sub(self).Compare(b.Key().Sub(self)) }) // clockwise
	p = p.with(others...)
	last := others[5]
	p.witness(start, last, ring.Arc{Start: last.Key(), End: last.Key()}, false)
	for i, q := range others {
		if got := p.Served(start, last.ID, q.Key()); got != (i == 5) {
			t.Errorf("position %d of the leaf set: served %v", i, got)
		}
	}
	if p.Served(start, others[0].ID, last.Key()) || p.Served(start.Add(servedFor), last.ID, last.Key()) {
		t.Error("served by another peer, or without end")
	}
	first := others[0]
	from := others[5].Key()
	for _, serves := range []bool{false, true} {
		p.witness(start, first, ring.Arc{Start: from, End: first.Key()}, serves)
		if got := p.Served(start, first.ID, self); got == serves {
			t.Errorf("serving %v: the position of this peer counts as served by its successor: %v", serves, got)
		}
		p.neighborhood.served = nil
	}
	for range 3 * maxServed {
		from = from.Add(ring.Key{ring.KeySize - 1: 1})
		p.witness(start, first, ring.Arc{Start: from, End: first.Key()}, false)
	}
	if n := len(p.neighborhood.served); n != maxServed {
		t.Errorf("%d arcs", n)
	}
}
