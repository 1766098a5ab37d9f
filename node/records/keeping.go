// Package records is who keeps what: [Replication] ships each write to the next peers of the ring and
// keeps their copies here, [Keeping] moves records to whoever answers for them as the ring changes, and
// [Watch] is the ring as both of them look at it.
//
// What it promises:
//   - a write that was acknowledged is on this peer's disk and at all level replicas
//     (TestShippedWaits);
//   - join, leave, death, return and heal lose no record and leave none at two owners
//     (TestRecordsMove);
//   - a peer whose arc another serves acknowledges nothing (TestDeposed);
//   - what strangers send is checked before it is merged (TestRecordsRefused, FuzzRecordsHandle).
//
// What moves when is decided by package custody, a plain state machine; here are its goroutines, disk
// and network. All types are safe for concurrent use.
package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceRecords takes records that came into this peer's arc, and answers whether some of another's arc are still here.
const ServiceRecords = "records"

// moves brings records, or asks whether some are still there. Nothing is answered but that it is done.
var moves = rpc.Method[*wire.Records, *emptypb.Empty]{Service: ServiceRecords}

const (
	// pushTimeout bounds one push: the receiver answers when its disk and its replicas have it.
	pushTimeout = 20 * time.Second
	// askTimeout bounds the question to a neighbour, settleEvery is the wait between two.
	askTimeout  = 2 * time.Second
	settleEvery = 50 * time.Millisecond
)

// kind is a kind of records in this peer.
type kind struct {
	prefix byte
	mover  Mover
	keeper *custody.Keeper
	// run has fn run on the goroutine of the state machine until it says that it is through, and returns when that and what it wrote is done. Questions, or
	// other inputs, come in between.
	run   func(ctx context.Context, fn func() (through bool)) error
	clean atomic.Uint64 // Keeper.CleanAt as of its last step
	wake  chan struct{}
}

// Keeping moves records as the ring changes, and knows whether those of this peer's arc are all here. See package custody.
type Keeping struct {
	self   peer.ID
	router *rpc.Router
	ring   *Watch
	ship   *Replication
	log    *slog.Logger
	kinds  []*kind

	mu      sync.Mutex // guards what follows
	settler *custody.Settler
	free    ring.Arc // of which nothing lies here in copies, as of the moment before the settler's step

	wake chan struct{}
	// settled is told when the records of an arc are here.
	settled  func()
	movement *movement
	// came is told of each push that was taken in, or given away.
	came func()
}

// KeepingDeps are what a keeping uses of the peer.
type KeepingDeps struct {
	Watch       *Watch
	Router      *rpc.Router
	Replication *Replication
	// TTL is that of leases: as long one waits for records of a peer that does not answer.
	TTL time.Duration
	// Tell hears what moves, in words.
	Tell func(control.RingEvent)
	// Settled is told when the records of an arc are here, Came of each push that was taken in, or given away.
	Settled, Came func()
}

// NewKeeping returns a keeping of nothing yet: see Add and AddService.
func NewKeeping(d KeepingDeps) *Keeping {
	k := keepingOf(d.Watch, d.Router, d.Replication, d.TTL)
	k.movement.tell, k.settled, k.came = d.Tell, d.Settled, d.Came
	return k
}

// keepingOf returns a keeping of nothing, which tells nobody.
func keepingOf(watch *Watch, r *rpc.Router, ship *Replication, ttl time.Duration) *Keeping {
	k := &Keeping{
		self: watch.self, router: r, ring: watch, ship: ship, log: ship.log, wake: make(chan struct{}, 1),
		settled: func() {}, came: func() {}, movement: &movement{tell: func(control.RingEvent) {}},
	}
	k.settler = custody.NewSettler(ttl, settleEvery, watch, func(arc ring.Arc) bool { return arc == k.free })
	return k
}

// AddService puts the records of a service under this keeping.
func (k *Keeping) AddService(prefix byte, s Service) {
	k.Add(prefix, merging{k.ship.store.Keyspace(prefix), s}, s.DoOver)
}

// Add puts a kind of records under this keeping. Run has fn run on the goroutine of its state machine, see kind.
func (k *Keeping) Add(prefix byte, m Mover, run func(ctx context.Context, fn func() (through bool)) error) {
	r := &kind{prefix: prefix, mover: m, run: run, wake: make(chan struct{}, 1)}
	read := ranged{scan: m.Scan, head: headOf(prefix)}
	r.keeper = custody.NewKeeper(custody.Config{}, k.self, space{read, m}, copiesOf{k.ship, prefix, headOf(prefix)}, k.ring)
	k.kinds = append(k.kinds, r)
}

// Poke has everything looked at again, as the ring has changed. It does not block.
func (k *Keeping) Poke() {
	for _, r := range k.kinds {
		loop.Wake(r.wake)
	}
	loop.Wake(k.wake)
}

// Clean says whether nothing is here that belongs elsewhere, as this peer sees the ring now.
func (k *Keeping) Clean() bool {
	version := k.ring.Version() + 1
	for _, r := range k.kinds {
		if r.clean.Load() != version {
			return false
		}
	}
	return true
}

// Settled says whether the records of a key have all arrived here.
func (k *Keeping) Settled(key ring.Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settler.Settled(ring.PosOf(key))
}

// Quiet says whether no records are on their way to or from this peer.
func (k *Keeping) Quiet() bool {
	k.mu.Lock()
	all := k.settler.All() || k.ring.dht.State() == dht.Worker
	k.mu.Unlock()
	return all && k.Clean()
}

// Run moves records until ctx ends.
func (k *Keeping) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(k.kinds)+1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, r := range k.kinds {
		wg.Go(func() {
			defer cancel()
			errs[i] = loop.UnlessStopping(k.runKind(ctx, r))
		})
	}
	errs[len(k.kinds)] = k.settle(ctx)
	cancel()
	wg.Wait()
	return errors.Join(errs...)
}

// runKind walks over one kind of records whenever the ring has changed.
func (k *Keeping) runKind(ctx context.Context, r *kind) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		next, err := k.step(ctx, r)
		if err != nil {
			return err
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, time.Until(next))
		}
		timer.Reset(wait)
	}
}

// step lets the keeper walk on, and makes its pushes.
func (k *Keeping) step(ctx context.Context, r *kind) (next time.Time, _ error) {
	var ready custody.Ready
	var err error
	if lerr := k.soon(ctx, r, func() { ready, err = r.keeper.Tick(time.Now()) }); lerr != nil {
		return next, lerr // and err may still be written
	}
	if err != nil {
		return next, err
	}
	for _, call := range ready.Calls {
		if err := k.make(ctx, r, call); err != nil {
			return next, err
		}
		ready.Next = time.Now()
	}
	if was := r.clean.Swap(r.keeper.CleanAt()); was != r.clean.Load() {
		loop.Wake(k.wake)
	}
	return ready.Next, nil
}

// soon has fn run where a kind of records is kept, and what it writes go to the replicas without waiting for company.
func (k *Keeping) soon(ctx context.Context, r *kind, fn func()) error {
	defer k.ship.hurried()()
	return r.whole(ctx, fn)
}

// whole is run for what is through at once.
func (r *kind) whole(ctx context.Context, fn func()) error {
	return r.run(ctx, func() bool {
		fn()
		return true
	})
}

// make makes a push, and drops or removes here what is there by then.
func (k *Keeping) make(ctx context.Context, r *kind, call custody.Call) error {
	failed := k.push(ctx, r, call)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		k.log.Debug("records not taken yet", "peer", call.To, "records", len(call.Push.Records), "err", failed)
	} else {
		k.movement.note(k.wentOut(r, call))
	}
	var drops []custody.Drop
	var err error
	if lerr := k.soon(ctx, r, func() { drops, err = r.keeper.Result(call.ID, failed) }); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	k.came()
	loop.Wake(k.wake)
	for _, d := range drops {
		lo, hi := copiesOf{k.ship, r.prefix, headOf(r.prefix)}.bounds(d.Lo, d.Hi)
		if err := k.ship.drop(ctx, d.Source, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// wentOut says of a push that was taken what moved.
func (k *Keeping) wentOut(r *kind, call custody.Call) moved {
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

// push takes records to where they belong.
func (k *Keeping) push(ctx context.Context, r *kind, call custody.Call) error {
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
	_, err := moves.Call(ctx, k.router, call.To, m)
	return err
}

// take merges records into this peer's own, and returns when they are on the disks that count. Whether they are of its arc is asked, with each step, between two
// steps of the walk over what is here: one that begins after the arc was lost finds them, and no walk ends before they come.
func (k *Keeping) take(ctx context.Context, r *kind, p custody.Push) error {
	defer k.ship.hurried()()
	var merge func() (bool, error)
	var through, later bool
	var mark waiter
	var err error
	if lerr := r.run(ctx, func() bool {
		if err = k.foreign(r, p); err != nil {
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

// foreign refuses records of positions that this peer does not serve.
func (k *Keeping) foreign(r *kind, p custody.Push) error {
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

// Handler answers peers.
func (k *Keeping) Handler() calls.Handler {
	return moves.Handle(func(ctx context.Context, from peer.ID, m *wire.Records) (*emptypb.Empty, error) {
		return nil, k.serve(ctx, from, m)
	})
}

// serve takes records of another peer, or its question whether any of its arc are here.
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
		k.movement.note(moved{how: cameFrom, prefix: r.prefix, peer: from, of: p.From, places: positions(r.prefix, p.Records), records: len(p.Records)})
		loop.Wake(k.wake)
		return nil
	}
	return rpc.Refuse("records of an unknown space %d", m.GetSpace())
}

// pushOf reads what a stranger sent.
func pushOf(r *kind, m *wire.Records) (p custody.Push, err error) {
	p.From, p.Gone = peer.ID(m.GetFrom()), time.Duration(m.GetGoneMs())*time.Millisecond
	head := headOf(r.prefix)
	for i, key := range m.GetKey() {
		if len(key) < len(head)+ring.PosSize || string(key[:len(head)]) != string(head) {
			return p, rpc.Refuse("records: key %.40x is none of space %q", key, r.prefix)
		}
		p.Records = append(p.Records, kv.Record{Key: key, Value: m.GetValue()[i]})
	}
	for i, pos := range m.GetNotePos() {
		p.Notes = append(p.Notes, custody.Note{Pos: ring.Pos(pos), Note: m.GetNote()[i]})
	}
	return p, nil
}

// answer tells a neighbour that nothing of its arc is here, or asks it to come back. A peer that joins knows only what it holds: it keeps no one waiting
// for what is its own to come.
func (k *Keeping) answer(ctx context.Context, from peer.ID, arc ring.Arc) error {
	free, err := k.isFree(ctx, arc)
	switch {
	case err != nil:
		return err
	case free && k.ring.dht.State() == dht.Joining, custody.Answers(from, arc, k.ring, free) == custody.Nothing:
		return nil
	default:
		return errOnTheWay
	}
}

// isFree says whether nothing lies here that belongs into an arc and is to be moved there.
func (k *Keeping) isFree(ctx context.Context, arc ring.Arc) (bool, error) {
	if k.Clean() {
		return true, nil
	}
	for _, r := range k.kinds {
		var free bool
		var err error
		if lerr := r.whole(ctx, func() { free, err = r.keeper.Free(arc) }); lerr != nil {
			return false, lerr
		}
		if !free || err != nil {
			return false, err
		}
	}
	return true, nil
}

var errOnTheWay = rpc.Busy("records are still on their way")

// look finds out whether anything of this peer's arc lies here in copies, for the settler.
func (k *Keeping) look(ctx context.Context) error {
	arc, serves := k.ring.Arc()
	k.mu.Lock()
	known := !serves || k.settler.All()
	k.mu.Unlock()
	if known {
		return nil
	}
	free, err := k.isFree(ctx, arc)
	if err != nil {
		return loop.UnlessStopping(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.free = (ring.Arc{}); free {
		k.free = arc
	}
	return nil
}

// settle asks the neighbours, after each change of the arc, whether they hold anything of it, until ctx ends.
func (k *Keeping) settle(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := k.look(ctx); err != nil {
			return err
		}
		k.mu.Lock()
		asks, changed, next := k.settler.Tick(time.Now())
		k.mu.Unlock()
		if changed {
			k.settled()
		}
		for _, ask := range asks {
			asking.Go(func() { k.ask(ctx, ask) })
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(time.Millisecond, time.Until(next))
		}
		if rest := k.movement.flush(time.Now()); rest > 0 {
			wait = min(wait, rest)
		}
		timer.Reset(wait)
		select {
		case <-k.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeping) ask(ctx context.Context, ask custody.Ask) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := moves.Call(ctx, k.router.Net, ask.To, &wire.Records{Ask: ask.Arc.Start[:]})
	answer := custody.Nothing
	if err != nil {
		answer = custody.NotYet
		if errors.Is(err, calls.ErrUnreachable) && k.ring.gone(ask.To) {
			k.Poke()
		}
	}
	k.mu.Lock()
	k.settler.Result(time.Now(), ask.ID, answer)
	k.mu.Unlock()
	loop.Wake(k.wake)
}

// HandOver waits until everything that this peer keeps is elsewhere: it has left the ring.
func (k *Keeping) HandOver(ctx context.Context) error {
	defer k.movement.end() // those who watch hear it while they are still answered
	for !k.Clean() {
		k.Poke()
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("some records are still here and were not handed over; they are kept on disk: %w", err)
		}
	}
	return k.ship.dismiss(ctx)
}

// replicatedOf returns a keyspace as replicas have it.
func replicatedOf(prefix byte) replicatedSpace {
	for _, space := range replicated {
		if space.prefix == prefix {
			return space
		}
	}
	return replicatedSpace{prefix: prefix}
}

// headOf begins the keys of a keyspace before the position.
func headOf(prefix byte) []byte { return replicatedOf(prefix).head }

// ranged reads the records of one space in the order of positions. Scan is of keys without the byte of the keyspace; head begins them.
type ranged struct {
	scan func(lo, hi []byte, fn func(key, value []byte) bool) error
	head []byte
}

func (r ranged) key(pos ring.Pos) []byte { return append(append([]byte{}, r.head...), pos[:]...) }

// Next implements custody.Reader.
func (r ranged) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	err = r.scan(r.key(from), kv.PrefixEnd(r.head), func(key, _ []byte) bool {
		if ok = len(key) >= len(r.head)+ring.PosSize; ok {
			pos = ring.Pos(key[len(r.head):])
		}
		return !ok
	})
	return pos, ok, err
}

// Export implements custody.Reader.
func (r ranged) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := r.key(pos)
	hi := kv.PrefixEnd(lo)
	if from != nil {
		lo = from
	}
	return r.scan(lo, hi, fn)
}

// copiesOf finds the records of one space in the copies of other peers.
type copiesOf struct {
	ship   *Replication
	prefix byte
	head   []byte
}

// Sources implements custody.Copies.
func (c copiesOf) Sources() ([]peer.ID, error) {
	names, err := c.ship.copies.Sources()
	ids := make([]peer.ID, len(names))
	for i, name := range names {
		ids[i] = peer.ID(name)
	}
	return ids, err
}

// Of implements custody.Copies.
func (c copiesOf) Of(source peer.ID) custody.Reader {
	return ranged{head: c.head, scan: func(lo, hi []byte, fn func(key, value []byte) bool) error {
		end := []byte{c.prefix + 1}
		if hi != nil {
			end = append([]byte{c.prefix}, hi...)
		}
		return c.ship.copies.Scan(string(source), append([]byte{c.prefix}, lo...), end, func(key, value []byte) bool {
			return fn(key[1:], value)
		})
	}}
}

// bounds are the keys of a copy from one position to another, both included.
func (c copiesOf) bounds(lo, hi ring.Pos) (from, to []byte) {
	r := ranged{head: c.head}
	from = append([]byte{c.prefix}, r.key(lo)...)
	to = append([]byte{c.prefix}, r.key(hi)...)
	return from, kv.PrefixEnd(to)
}
