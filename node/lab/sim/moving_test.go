package sim

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/wire"
)

const (
	// pushTimeout is the timeout of a push of records, askTimeout that of a query to a neighbor;
	// settleEvery is the interval of queries.
	pushTimeout = 20 * time.Second
	askTimeout  = 2 * time.Second
	settleEvery = 50 * time.Millisecond
	// askSize is the approximate size of that query, with the arc.
	askSize = 80
)

// moving hands records over as the ring changes, and tracks whether those of the peer's arc have
// all arrived, as the node does.
type moving struct {
	c       *crawlPeer
	rooms   []*room
	settler *handoff.Settler
	settle  alarm
}

// mover is one kind of records with the state machine that owns them.
type mover interface {
	handoff.Space
	// run runs fn on the state machine, and ended once its writes are on all required disks.
	run(fn func(), ended func())
	// Import merges records; called by run.
	Import(p *handoff.Push) error
}

// room is the handoff state of one kind of records.
type room struct {
	m       *moving
	number  int
	space   *records.Replicated
	mover   mover
	copies  handoff.CopiesOf
	keeper  *handoff.Keeper
	clean   uint64 // Keeper.CleanAt as of its last step
	ticking bool   // a tick, or a push of it, is in progress
	again   bool   // and another one is required
	next    alarm
}

func newMoving(c *crawlPeer) *moving {
	m := &moving{c: c}
	m.settle = alarm{c: c, do: m.ask}
	m.add(&hostSpace, newHostRecords(c))
	m.add(&bodySpace, bodyRecords{c, handoff.Ranged{Scan: c.disk.bodies.Scan, Head: bodySpace.Head}})
	m.settler = handoff.NewSettler(leaseTTL, settleEvery, c.view, m.isFree)
	return m
}

func (m *moving) add(of *records.Replicated, mover mover) {
	copies := handoff.CopiesOf{From: m.c.ship.copies, Prefix: of.Prefix, Head: of.Head}
	keeper := handoff.NewKeeper(handoff.Config{}, m.c.Peer.ID, mover, copies, m.c.view)
	r := &room{m: m, number: len(m.rooms), space: of, mover: mover, copies: copies, keeper: keeper}
	r.next = alarm{c: m.c, do: r.tick}
	m.rooms = append(m.rooms, r)
}

// isFree reports whether no records of an arc are left to move.
func (m *moving) isFree(arc ring.Arc) bool {
	for _, r := range m.rooms {
		if free, err := r.keeper.Free(arc); !free || err != nil {
			return false
		}
	}
	return true
}

// settled reports whether the records of a key have all arrived here.
func (m *moving) settled(key ring.Key) bool { return m.settler.Settled(ring.PosOf(key)) }

// poke triggers a new check of all records.
func (m *moving) poke() {
	for _, r := range m.rooms {
		r.tick()
	}
	m.ask()
}

// tick advances the keeper, and makes its pushes.
func (r *room) tick() {
	if r.ticking {
		r.again = true
		return
	}
	r.ticking, r.again = true, false
	var ready handoff.Ready
	r.mover.run(func() {
		var err error
		if ready, err = r.keeper.Tick(r.m.c.world.Now()); err != nil {
			r.m.c.world.fail(err)
		}
	}, func() {
		if len(ready.Calls) > 0 {
			r.push(ready.Calls[0])
			return
		}
		r.walked(ready.Next)
	})
}

// walked ends a tick without a push.
func (r *room) walked(next time.Time) {
	r.ticking = false
	if r.clean != r.keeper.CleanAt() {
		r.clean = r.keeper.CleanAt()
		r.m.ask()
	}
	if r.again {
		r.tick()
		return
	}
	r.next.set(next)
}

// push sends records to their owner.
func (r *room) push(call handoff.Call) {
	c := r.m.c
	if call.To == c.Peer.ID {
		r.take(&call.Push, func() { r.pushed(call.ID, nil) })
		return
	}
	c.world.request(c, call.To, &request{
		Purpose: Custody, Size: recordsSize(r.space, &call.Push), Timeout: pushTimeout,
		Handle: func(target *crawlPeer, reply func(int, any)) {
			for _, rec := range call.Push.Records {
				if !target.Serves(ring.Pos(rec.Key[len(r.space.Head):]).Key()) {
					reply(2, errMoved{})
					return
				}
			}
			target.moving.rooms[r.number].take(&call.Push, func() { reply(2, nil) })
		},
		Done: func(answer any, err error) {
			if _, moved := answer.(errMoved); moved {
				err = dhtsim.ErrRefused
			}
			r.pushed(call.ID, err)
		},
	})
}

// pushed reports the result of a push to the keeper, and continues.
func (r *room) pushed(id uint64, failed error) {
	w := r.m.c.world
	var drops []handoff.Drop
	r.mover.run(func() {
		var err error
		if drops, err = r.keeper.Result(id, failed); err != nil {
			w.fail(err)
		}
	}, func() {
		for _, d := range drops {
			lo, hi := r.copies.Bounds(d.Lo, d.Hi)
			if _, err := r.m.c.ship.copies.Drop(string(d.Source), lo, hi); err != nil {
				w.fail(err)
			}
		}
		r.ticking = false
		r.tick()
	})
}

func recordsSize(of *records.Replicated, p *handoff.Push) int {
	m := &wire.Records{Space: uint32(of.Prefix), From: []byte(p.From)}
	for _, r := range p.Records {
		m.Key, m.Value = append(m.Key, r.Key), append(m.Value, r.Value)
	}
	for _, n := range p.Notes {
		m.NotePos, m.Note = append(m.NotePos, n.Pos[:]), append(m.Note, n.Note)
	}
	return proto.Size(m)
}

// take merges records into this peer's own; done runs when that is on all required disks.
func (r *room) take(p *handoff.Push, done func()) {
	w := r.m.c.world
	r.mover.run(func() {
		if err := r.mover.Import(p); err != nil {
			w.fail(err)
		}
		w.moved += int64(len(p.Records))
	}, done)
}

// ask makes the settler ask the neighbors whether they hold records of the arc.
func (m *moving) ask() {
	w := m.c.world
	asks, changed, next := m.settler.Tick(w.Now())
	if changed {
		m.c.do(func(o *owner.Owner) { o.SettledChanged() }, nil)
	}
	for _, ask := range asks {
		w.request(m.c, ask.To, &request{
			Purpose: Custody, Size: askSize, Timeout: askTimeout,
			Handle: func(target *crawlPeer, reply func(int, any)) { reply(2, target.moving.answer(m.c.Peer.ID, ask.Arc)) },
			Done: func(answer any, _ error) {
				a, _ := answer.(handoff.Answer) // NotYet when there is none
				m.settler.Result(w.Now(), ask.ID, a)
				m.ask()
			},
		})
	}
	m.settle.set(next)
}

// answer reports to a neighbor whether records of its arc are here. A joining peer does not delay
// its neighbors for records that it still expects.
func (m *moving) answer(from peer.ID, arc ring.Arc) handoff.Answer {
	free := m.isFree(arc)
	if m.c.State() == dht.Joining && free {
		return handoff.Nothing
	}
	return handoff.Answers(from, arc, m.c.view, free)
}
