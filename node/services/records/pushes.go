package records

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// make makes a push, and drops or removes the records that are then elsewhere.
func (k *Keeping) make(ctx context.Context, r *kind, call handoff.Call) error {
	failed := k.push(ctx, r, call)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		k.log.Debug("records not accepted yet", "peer", call.To, "records", len(call.Push.Records), "err", failed)
	} else {
		k.movement.add(k.wentOut(r, call))
		if err := k.keep(ctx, r, call); err != nil {
			return err
		}
	}
	var drops []handoff.Drop
	var err error
	if lerr := k.soon(ctx, r, func() { drops, err = r.keeper.Result(call.ID, failed) }); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	k.came()
	loop.Wake(k.wake)
	return k.drop(ctx, r, drops)
}

// drop drops parts of copies.
func (k *Keeping) drop(ctx context.Context, r *kind, drops []handoff.Drop) error {
	for _, d := range drops {
		lo, hi := k.copiesOf(r.prefix).Bounds(d.Lo, d.Hi)
		if err := k.ship.drop(ctx, d.Source, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// keep retains own records that were handed to another peer until that peer shows them, see package
// handoff. A peer that leaves does not return, and without replicas no peer shows any.
func (k *Keeping) keep(ctx context.Context, r *kind, call handoff.Call) error {
	if call.Push.From != "" || call.To == k.self || !k.ship.keeps || k.ring.dht.State() != dht.Serving {
		return nil
	}
	return k.ship.keep(ctx, call.To, r.prefix, call.Push.Records)
}

// wentOut describes the records of an accepted push.
func (k *Keeping) wentOut(r *kind, call handoff.Call) moved {
	l := moved{prefix: r.prefix, peer: call.To, of: call.Push.From, places: positions(r.prefix, call.Push.Records), records: len(call.Push.Records)}
	switch {
	case l.of == "":
		l.how = handedTo
	case call.To == k.self:
		l.how, l.peer = takenOver, l.of
	default:
		l.how = passedTo
	}
	return l
}

// positions counts the positions of records in the order of keys.
func positions(prefix byte, records []kv.Record) (n int) {
	at := len(headOf(prefix))
	for i := range records {
		if i == 0 || string(records[i].Key[at:at+ring.PosSize]) != string(records[i-1].Key[at:at+ring.PosSize]) {
			n++
		}
	}
	return n
}

// push sends records to their owner.
func (k *Keeping) push(ctx context.Context, r *kind, call handoff.Call) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	if call.To == k.self {
		return k.take(ctx, r, call.Push)
	}
	m := &wire.Records{Space: uint32(r.prefix), From: []byte(call.Push.From)}
	if ago, seen := k.ring.LeftAgo(call.Push.From); seen {
		m.GoneMs = uint32(ago.Milliseconds()) // under DepartTime
	}
	for _, rec := range call.Push.Records {
		m.Key, m.Value = append(m.Key, rec.Key), append(m.Value, rec.Value)
	}
	for _, n := range call.Push.Notes {
		m.NotePos, m.Note = append(m.NotePos, n.Pos[:]), append(m.Note, n.Note)
	}
	_, err := recordsMethod.Call(ctx, k.router, call.To, m)
	return err
}

// take merges records into this peer's own, and returns when they are on the required disks. Each
// step checks their arc between two steps of the walk over the local records: a walk that begins
// after the arc was lost finds them, and no walk ends before they arrive.
func (k *Keeping) take(ctx context.Context, r *kind, p handoff.Push) error {
	return k.merge(ctx, r, p, func() error { return k.foreign(r, p) })
}

// merge is take for records that check accepts at each step.
func (k *Keeping) merge(ctx context.Context, r *kind, p handoff.Push, check func() error) error {
	defer k.ship.hurried()()
	var merge func() (bool, error)
	var through, later bool
	var mark waiter
	var err error
	if lerr := r.run(ctx, func() bool {
		if err = check(); err != nil {
			return true
		}
		if merge == nil {
			merge, later = r.mover.Import(p)
		}
		if through, err = merge(); through {
			mark = k.ship.mark()
		}
		return through || err != nil
	}); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	k.came()
	if later {
		if err := k.ship.store.Keyspace(storage.KeyspaceMeta).Sync(); err != nil {
			return err
		}
	}
	return k.ship.await(ctx, mark)
}

// foreign rejects records of positions that this peer does not serve.
func (k *Keeping) foreign(r *kind, p handoff.Push) error {
	at := len(headOf(r.prefix))
	var last ring.Pos
	for i := range p.Records {
		pos := ring.Pos(p.Records[i].Key[at:])
		if (i == 0 || pos != last) && !k.ring.Serves(pos) {
			return k.router.Moved(pos.Key())
		}
		last = pos
	}
	for _, n := range p.Notes {
		if !k.ring.Serves(n.Pos) {
			return k.router.Moved(n.Pos.Key())
		}
	}
	return nil
}

// Service answers peers.
func (k *Keeping) Service() rpc.Service {
	who := rpc.MembersAnd("expelled a minute ago at most", k.ring.Expelled, "the form of the records, and that this peer serves their place")
	return recordsMethod.Handle(who, func(ctx context.Context, from peer.ID, m *wire.Records) (*emptypb.Empty, error) {
		return nil, k.serve(ctx, from, m)
	})
}

// serve accepts records of another peer, or answers its query whether any of its arc are here.
func (k *Keeping) serve(ctx context.Context, from peer.ID, m *wire.Records) error {
	if start := m.GetAsk(); len(start) > 0 {
		return k.answer(ctx, from, ring.Arc{Start: ring.Key(start), End: ring.PeerKey([]byte(from))})
	}
	for _, r := range k.kinds {
		if uint32(r.prefix) != m.GetSpace() {
			continue
		}
		p, err := pushOf(r, m)
		if err != nil {
			return err
		}
		if err := k.take(ctx, r, p); err != nil {
			return err
		}
		k.movement.add(moved{how: cameFrom, prefix: r.prefix, peer: from, of: p.From, places: positions(r.prefix, p.Records), records: len(p.Records)})
		loop.Wake(k.wake)
		return nil
	}
	return rpc.Refuse("records of an unknown space %d", m.GetSpace())
}

// pushOf decodes and validates a message from an untrusted peer.
func pushOf(r *kind, m *wire.Records) (p handoff.Push, err error) {
	p.From, p.Gone = peer.ID(m.GetFrom()), time.Duration(m.GetGoneMs())*time.Millisecond
	head := headOf(r.prefix)
	for i, key := range m.GetKey() {
		if len(key) < len(head)+ring.PosSize || string(key[:len(head)]) != string(head) {
			return p, rpc.Refuse("records: key %.40x is not in keyspace %q", key, r.prefix)
		}
		p.Records = append(p.Records, kv.Record{Key: key, Value: m.GetValue()[i]})
	}
	for i, pos := range m.GetNotePos() {
		p.Notes = append(p.Notes, handoff.Attachment{Pos: ring.Pos(pos), Note: m.GetNote()[i]})
	}
	return p, nil
}
