package sim

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/wire"
)

const (
	// pushTimeout bounds a push of records, askTimeout the question to a neighbour; settleEvery is the wait between two of those.
	pushTimeout = 20 * time.Second
	askTimeout  = 2 * time.Second
	settleEvery = 50 * time.Millisecond
	// askSize is about the size of that question, with the arc.
	askSize = 80
)

// moving has records move as the ring changes, and knows whether those of the peer's arc have all arrived, as the node does.
type moving struct {
	c       *crawlPeer
	keeper  *custody.Keeper
	settler *custody.Settler
	clean   uint64 // Keeper.CleanAt as of its last step
	ticking bool   // a tick, or the push that came of it, is under way
	again   bool   // and another one is wanted
	next    time.Time
	settle  time.Time
}

func newMoving(c *crawlPeer) *moving {
	m := &moving{c: c}
	m.keeper = custody.NewKeeper(custody.Config{}, c.peer.ID, hostRecords{c}, copiesOf{c}, c.view)
	m.settler = custody.NewSettler(leaseTTL, settleEvery, c.view, m.isClean)
	return m
}

func (m *moving) isClean() bool { return m.clean == m.c.view.Version()+1 }

// settled says whether the records of a key have all arrived here.
func (m *moving) settled(key ring.Key) bool { return m.settler.Settled(custody.PosOf(key)) }

// poke has everything looked at again.
func (m *moving) poke() {
	m.tick()
	m.ask()
}

// tick lets the keeper walk on in a step of the owner, and makes its pushes.
func (m *moving) tick() {
	if m.ticking {
		m.again = true
		return
	}
	m.ticking, m.again = true, false
	var ready custody.Ready
	m.c.do(func(*owner.Owner) {
		var err error
		if ready, err = m.keeper.Tick(m.c.world.Now()); err != nil {
			m.c.world.fail(err)
		}
	}, func() {
		if len(ready.Calls) > 0 {
			m.push(ready.Calls[0])
			return
		}
		m.walked(ready.Next)
	})
}

// walked ends a tick without a push.
func (m *moving) walked(next time.Time) {
	m.ticking = false
	if m.clean != m.keeper.CleanAt() {
		m.clean = m.keeper.CleanAt()
		m.ask()
	}
	if m.again {
		m.tick()
		return
	}
	if next.IsZero() || !m.next.IsZero() && !next.Before(m.next) {
		return
	}
	m.next = next
	m.c.Host.After(next.Sub(m.c.world.Now()), func() {
		if m.next.Equal(next) {
			m.next = time.Time{}
			m.tick()
		}
	})
}

// push takes records to where they belong.
func (m *moving) push(call custody.Call) {
	w := m.c.world
	ended := func(failed error) {
		var drops []custody.Drop
		m.c.do(func(*owner.Owner) {
			var err error
			if drops, err = m.keeper.Result(call.ID, failed); err != nil {
				w.fail(err)
			}
		}, func() {
			for _, d := range drops {
				lo, hi := copyKey(d.Lo), upTo(copyKey(d.Hi))
				if _, err := m.c.ship.copies.Drop(string(d.Source), lo, hi); err != nil {
					w.fail(err)
				}
			}
			m.ticking = false
			m.tick()
		})
	}
	if failed := w.byID[call.To]; failed == nil {
		ended(ErrRefused)
		return
	}
	if call.To == m.c.peer.ID {
		m.take(call.Push, func() { ended(nil) })
		return
	}
	target := w.byID[call.To]
	w.Call(m.c.Host, target.host(), &Call{
		Purpose: Custody, Size: recordsSize(&call.Push), Timeout: pushTimeout,
		Handle: func(reply func(int, any)) {
			for _, r := range call.Push.Records {
				if !target.Serves(custody.Pos(r.Key[1:]).Key()) {
					reply(2, errMoved{})
					return
				}
			}
			target.moving.take(call.Push, func() { reply(2, nil) })
		},
		Done: func(answer any, err error) {
			if _, moved := answer.(errMoved); moved {
				err = ErrRefused
			}
			ended(err)
		},
	})
}

func recordsSize(p *custody.Push) int {
	m := &wire.Records{Space: uint32(hostSpace), From: []byte(p.From)}
	for _, r := range p.Records {
		m.Key, m.Value = append(m.Key, r.Key), append(m.Value, r.Value)
	}
	for _, n := range p.Notes {
		m.NotePos, m.Note = append(m.NotePos, n.Pos[:]), append(m.Note, n.Note)
	}
	return proto.Size(m)
}

// take merges records into this peer's own, and continues the leases that came along; done runs when that is on the disks that count.
func (m *moving) take(p custody.Push, done func()) {
	w := m.c.world
	m.c.do(func(o *owner.Owner) {
		kvs := make([]owner.KV, len(p.Records))
		for i, r := range p.Records {
			kvs[i] = owner.KV{Key: r.Key, Value: r.Value}
		}
		if err := o.Import(kvs); err != nil {
			w.fail(err)
		}
		for _, n := range p.Notes {
			note := new(crawlwire.LeaseNote)
			if err := proto.Unmarshal(n.Note, note); err != nil {
				w.fail(err)
			}
			if err := o.Adopt(note); err != nil {
				w.fail(err)
			}
		}
		w.moved += int64(len(p.Records))
	}, done)
}

// ask lets the settler ask the neighbours whether they hold anything of the arc.
func (m *moving) ask() {
	w := m.c.world
	asks, changed, next := m.settler.Tick(w.Now())
	if changed {
		m.c.do(func(o *owner.Owner) { o.SettledChanged() }, nil)
	}
	for _, ask := range asks {
		target := w.byID[ask.To]
		w.Call(m.c.Host, target.host(), &Call{
			Purpose: Custody, Size: askSize, Timeout: askTimeout,
			Handle: func(reply func(int, any)) { reply(2, target.moving.answer(m.c.peer.ID, ask.Arc)) },
			Done: func(answer any, err error) {
				a, _ := answer.(custody.Answer) // NotYet when there is none
				m.settler.Result(w.Now(), ask.ID, a)
				m.ask()
			},
		})
	}
	if next.IsZero() || !m.settle.IsZero() && !next.Before(m.settle) {
		return
	}
	m.settle = next
	m.c.Host.After(next.Sub(w.Now()), func() {
		if m.settle.Equal(next) {
			m.settle = time.Time{}
			m.ask()
		}
	})
}

// answer tells a neighbour whether anything of its arc is here. A peer that joins keeps no one waiting: what it has is merged later.
func (m *moving) answer(from peer.ID, arc ring.Arc) custody.Answer {
	if m.c.State() == dht.Joining {
		return custody.Nothing
	}
	return custody.AnswersArc(from, arc, m.c.view, m.isClean())
}

// upTo is the first key behind all that begin with a prefix.
func upTo(prefix []byte) []byte {
	end := append([]byte{}, prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// hostKey begins the keys of the host at a position, copyKey those in a copy.
func hostKey(pos custody.Pos) []byte { return append([]byte{hostHead}, pos[:]...) }
func copyKey(pos custody.Pos) []byte { return append([]byte{hostSpace, hostHead}, pos[:]...) }

// nextPos finds the first position from one on at which a scan finds records.
func nextPos(from custody.Pos, scan func(lo, hi []byte, fn func(key, value []byte) bool) error) (pos custody.Pos, ok bool, err error) {
	err = scan(hostKey(from), []byte{hostHead + 1}, func(key, _ []byte) bool {
		if ok = len(key) >= 1+custody.PosSize; ok {
			pos = custody.Pos(key[1:])
		}
		return !ok
	})
	return pos, ok, err
}

// hostRecords are this peer's own records. The methods run in steps of the owner.
type hostRecords struct{ c *crawlPeer }

var _ custody.Space = hostRecords{}

func (h hostRecords) scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	// What the step has gathered so far is to be seen.
	if err := h.c.owner.Export(owner.Pos{}, owner.Pos{}, func(_, _ []byte) bool { return false }); err != nil {
		return err
	}
	return h.c.store.Scan(lo, hi, fn)
}

// Next implements custody.Reader.
func (h hostRecords) Next(from custody.Pos) (custody.Pos, bool, error) { return nextPos(from, h.scan) }

// Export implements custody.Reader.
func (h hostRecords) Export(pos custody.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := hostKey(pos)
	if from == nil {
		from = lo
	}
	return h.scan(from, upTo(lo), fn)
}

// Note implements custody.Space: the host stands still from here on, and its lease goes along.
func (h hostRecords) Note(pos custody.Pos) []byte {
	h.c.owner.Freeze(owner.Pos(pos))
	note, ok := h.c.owner.Lease(owner.Pos(pos))
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		h.c.world.fail(err)
	}
	return raw
}

// Remove implements custody.Space.
func (h hostRecords) Remove(pos custody.Pos) error {
	h.c.owner.Remove(owner.Pos(pos), owner.Pos(pos.Next()))
	return nil
}

// copiesOf are the copies of other peers' records that lie here.
type copiesOf struct{ c *crawlPeer }

var _ custody.Copies = copiesOf{}

// Sources implements custody.Copies.
func (s copiesOf) Sources() ([]peer.ID, error) {
	names, err := s.c.ship.copies.Sources()
	ids := make([]peer.ID, len(names))
	for i, name := range names {
		ids[i] = peer.ID(name)
	}
	return ids, err
}

// Of implements custody.Copies.
func (s copiesOf) Of(source peer.ID) custody.Reader { return copyRecords{s.c, string(source)} }

// copyRecords are the records in one copy.
type copyRecords struct {
	c      *crawlPeer
	source string
}

func (r copyRecords) scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	under := func(key []byte) []byte { return append([]byte{hostSpace}, key...) }
	return r.c.ship.copies.Scan(r.source, under(lo), under(hi), func(key, value []byte) bool { return fn(key[1:], value) })
}

// Next implements custody.Reader.
func (r copyRecords) Next(from custody.Pos) (custody.Pos, bool, error) { return nextPos(from, r.scan) }

// Export implements custody.Reader.
func (r copyRecords) Export(pos custody.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := hostKey(pos)
	if from == nil {
		from = lo
	}
	return r.scan(from, upTo(lo), fn)
}
