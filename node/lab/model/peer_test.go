package model

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// pc is a peer: a disk, and while it runs a process.
type pc struct {
	i      int
	disk   *disk // nil once lost
	up     bool
	paused bool
	woke   time.Time // when it last looked at the clock
	boot   uint64
	// replaced is set while the peer has a new disk, and has not pulled its records.
	replaced bool
	seat     *seat // its own object, as others point to it
	proc     *process
	print    uint64 // its fingerprint, 0 if it is not known
}

func (p *pc) running() bool { return p.up && !p.paused }

// process is what a peer forgets when it ends. It does what package node does: answers leave in
// their order, when the disks of the peer and of its level followers have what was written before.
type process struct {
	owner   *owner.Owner
	space   *space
	source  *replica.Source
	copies  *replica.Copies
	keeper  *handoff.Keeper
	settler *handoff.Settler

	names   []string   // followers
	deposed [most]bool // followers that serve this peer's arc
	parked  []parked   // steps whose answers wait
	next    time.Time  // of the owner
	keep    time.Time  // of the keeper, zero: when the view changes
	seen    uint64     // version of the view that the owner and the keeper know
	walks   bool       // the keeper has more to do now
	began   time.Time
	pulls   [most]pulls // of a peer with a new disk, by neighbor
}

// pulls is the state of pulling from a neighbor.
type pulls struct {
	under, done bool
	again       time.Time
}

// parked is what may leave when the replicas have an entry.
type parked struct {
	entry uint64
	msgs  []*msg
	self  uint64 // a push to this peer itself that is done then
}

var errAway = errors.New("no answer")

// start begins a process on a disk.
func (w *world) start(i int) {
	p := w.mine(i)
	if p.disk == nil {
		p.disk, p.replaced = new(disk), p.boot > 0
	}
	p.boot++
	p.up, p.woke = true, w.now
	p.seat = &seat{i: i, view: w.truth, changes: 1}
	p.seat.view[i] = member
	w.truth[i] = member
	if slices.ContainsFunc(w.peers, func(q *pc) bool { return q.boot > 0 && q != p || q.boot > 1 }) {
		p.seat.alone = w.now.Add(ttl)
	}
	id := places[i].id
	// Functions are shared between copies of the world, so they look for their peer in the one that
	// is stepped.
	x := &process{space: &space{disk: p.disk, prefix: hosts, ship: new([][]replica.Op)}, walks: true, began: w.now}
	p.proc = x
	shipping := replica.Config{Incarnation: p.boot, Retry: time.Second, SyncPause: -1, Pace: -1}
	if w.rules.split {
		shipping.Message = 1
	}
	x.source = replica.NewSource(shipping)
	x.copies = replica.NewCopies(copySpace{&space{disk: p.disk, prefix: copied}})
	x.keeper = handoff.NewKeeper(handoff.Config{Again: time.Second, Every: time.Hour, Part: w.rules.part}, id, hostSpace{p: p, head: []byte{'h'}}, copiesOf{p}, p.seat)
	x.settler = handoff.NewSettler(ttl, time.Second, p.seat, func(arc ring.Arc) bool { return current.peers[i].proc.free(arc) })
	cfg := owner.Config{
		Self: string(id), TTL: ttl, Window: 2, Delay: time.Millisecond, PlaceAhead: time.Millisecond, MaxHosts: 8, MaxKnown: 8,
		Settled: func(key ring.Key) bool { return current.settledAt(i, ring.PosOf(key)) },
		Sign:    func(text []byte) []byte { return append([]byte(id), text...) },
		Certified: func(by string, _ ring.Key, text, signature []byte) bool {
			isPlace := func(p place) bool { return string(p.id) == by }
			return slices.ContainsFunc(places[:], isPlace) && string(signature) == by+string(text)
		},
	}
	o, err := owner.New(cfg, ownSpace{x.space}, everythingSeen{}, jobs, p.seat, w.now)
	if err != nil {
		panic(err)
	}
	x.owner = o
}

// free says whether nothing of an arc lies here that is to be moved.
func (x *process) free(arc ring.Arc) bool {
	free, err := x.keeper.Free(arc)
	return free && err == nil
}

func (w *world) settledAt(i int, pos ring.Pos) bool {
	return w.rules.unsettled || w.peers[i].proc.settler.Settled(pos)
}

// everythingSeen has the owner look into its store.
type everythingSeen struct{}

func (everythingSeen) Test(owner.SetID, uint64) (bool, error) { return true, nil }
func (everythingSeen) Add(owner.SetID, uint64) error          { return nil }
func (everythingSeen) Drop(owner.SetID)                       {}

// theJob is the only one, over the only host.
var theJob, jobs = newJobs()

type jobTable struct{ spec *job.Spec }

func newJobs() (*job.Spec, jobTable) {
	spec, err := job.FromWire(&wire.JobSpec{Id: []byte("the one job here"), Seeds: [][]byte{[]byte(urls[0])}, Scope: []string{"*.example"}})
	if err != nil {
		panic(err)
	}
	return spec, jobTable{spec}
}

// Job implements owner.Jobs.
func (t jobTable) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	return t.spec, job.Posted(), id == t.spec.ID
}

// step makes a step of the owner; what it answers leaves when the replicas have it.
func (w *world) step(p *pc, fn func(o *owner.Owner), answers ...*msg) {
	w.parkStep(p, fn, parked{msgs: answers})
}

func (w *world) parkStep(p *pc, fn func(o *owner.Owner), out parked) {
	x := p.proc
	x.owner.Begin(w.now)
	if fn != nil {
		fn(x.owner)
	}
	ready, err := x.owner.Commit()
	if err != nil {
		panic(err)
	}
	x.next = ready.Next
	for _, ops := range *x.space.ship {
		if w.rules.split {
			slices.SortFunc(ops, func(a, b replica.Op) int { return bytes.Compare(b.Key, a.Key) })
			for _, op := range ops {
				out.entry = x.source.Append([]replica.Op{op})
			}
			continue
		}
		out.entry = x.source.Append(ops)
	}
	*x.space.ship = nil
	for _, o := range ready.Offers {
		if to := workerNumber(o.Worker); to >= 0 { // else it is this peer itself, which crawls nothing here
			out.msgs = append(out.msgs, &msg{kind: offer, from: p.i, to: to})
		}
	}
	x.parked = append(x.parked, out)
	w.release(p)
	for _, place := range ready.Places {
		worker := w.choose(place)
		w.step(p, func(o *owner.Owner) { o.Placed(place.Host, owner.Placement{Worker: worker}) })
	}
}

// release lets go, in their order, what the replicas have.
func (w *world) release(p *pc) {
	x := p.proc
	for len(x.parked) > 0 {
		out := x.parked[0]
		if out.entry > 0 && !w.rules.ackAlone && (slices.Contains(x.deposed[:], true) || x.source.Durable() < out.entry) {
			return
		}
		x.parked = x.parked[1:]
		for _, m := range out.msgs {
			w.send(m)
		}
		if out.self > 0 {
			w.pushed(p, out.self, nil)
		}
	}
}

// drive has a process do what it wants done now, until it waits for something.
func (w *world) drive(p *pc) {
	if !p.running() {
		return
	}
	p.woke = w.now
	p.seat.refresh(w)
	for w.turn(p) {
		p.seat.refresh(w)
	}
}

func (w *world) turn(p *pc) (more bool) {
	x := p.proc
	written := x.source.Seq()
	if x.seen != p.seat.changes {
		x.seen, x.walks = p.seat.changes, true
		w.step(p, (*owner.Owner).SettledChanged)
		more = true
	}
	more = w.recover(p) || more
	names := p.seat.followers(w.rules.replicas - 1)
	if p.replaced && !w.rules.rash {
		names = nil
	}
	if !slices.Equal(names, x.names) {
		x.names = names
		x.source.Follow(names, func(name string) bool { return p.seat.view[number(peer.ID(name))] != member })
		for i := range x.deposed {
			x.deposed[i] = x.deposed[i] && slices.Contains(names, string(places[i].id))
		}
		more = true
	}
	more = w.ship(p) || more
	more = w.walk(p) || more
	more = w.settle(p) || more
	if !x.next.IsZero() && !x.next.After(w.now) {
		w.step(p, nil)
		more = more || !x.next.Equal(w.now) // what it puts off within the same moment is put off
	}
	w.release(p)
	return more || x.source.Seq() > written
}

// recover has a peer with a new disk pull its records from all neighbors, and wait until its former
// leases have expired.
func (w *world) recover(p *pc) (more bool) {
	x := p.proc
	if !p.replaced || p.seat.state != serving {
		return false
	}
	all, some := true, false
	for _, id := range p.seat.Neighbours() {
		i := number(id)
		state := &x.pulls[i]
		some = some || state.done
		if state.done {
			continue
		}
		all = false
		if !state.under && !w.now.Before(state.again) {
			state.under = true
			w.send(&msg{kind: pull, from: p.i, to: i, id: uint64(i), boot: p.boot})
		}
	}
	if all && (!some || w.now.Sub(x.began) >= ttl) {
		p.replaced = false
		return true
	}
	return false
}

// pullFrom answers with the copy of the sender's records.
func (w *world) pullFrom(m *msg) {
	p, source := w.mine(m.to), string(places[m.from].id)
	p.proc.source.Lost(source)
	reply := &msg{kind: pullReply, from: m.to, to: m.from, id: m.id, boot: m.boot, push: &handoff.Push{}}
	if err := p.proc.copies.Scan(source, []byte{hosts}, []byte{hosts + 1}, func(key, value []byte) bool {
		reply.push.Records = append(reply.push.Records, kv.Record{Key: bytes.Clone(key[1:]), Value: bytes.Clone(value)})
		return true
	}); err != nil {
		panic(err)
	}
	w.send(reply)
}

// pulled merges the copy of a neighbor.
func (w *world) pulled(p *pc, m *msg) {
	w.step(p, func(o *owner.Owner) {
		if err := w.take(p, o, m.push); err != nil {
			panic(err)
		}
	})
	p.proc.pulls[m.from] = pulls{done: true}
	p.proc.walks = true
}

// ship sends the followers what they need next.
func (w *world) ship(p *pc) (more bool) {
	x := p.proc
	calls, scans, _ := x.source.Next(w.now)
	for _, scan := range scans {
		records := x.source.Collect(scan)
		full := false
		p.disk.scan(max(string(scan.Lo), "hh"), "hi", func(key, value []byte) bool {
			value, ok, err := ondisk.CopiedRecord(key[1:], value, x.space.Get)
			if err != nil {
				panic(err)
			}
			if ok {
				full = !records.Add(key, value)
			} else {
				full = !records.Skip(key)
			}
			return !full
		})
		if !full {
			records.End()
		}
		if call, ok := x.source.Scanned(w.now, records, nil); ok {
			calls = append(calls, call)
		}
		more = true
	}
	for _, c := range calls {
		w.send(&msg{kind: ship, from: p.i, to: number(peer.ID(c.To)), id: c.ID, raw: c.Message, boot: p.boot})
		more = true
	}
	return more
}

// walk has the keeper look for what belongs elsewhere.
func (w *world) walk(p *pc) (more bool) {
	x := p.proc
	if !x.walks && (x.keep.IsZero() || x.keep.After(w.now)) {
		return false
	}
	var ready handoff.Ready
	x.keep, x.walks = time.Time{}, false
	w.step(p, func(*owner.Owner) {
		var err error
		if ready, err = x.keeper.Tick(w.now); err != nil {
			panic(err)
		}
	})
	x.keep = ready.Next
	for _, c := range ready.Calls {
		if c.To != places[p.i].id {
			if c.Push.From != "" {
				if left, seen := p.seat.Left(c.Push.From); seen {
					c.Push.Gone = w.now.Sub(left)
				}
			}
			w.send(&msg{kind: push, from: p.i, to: number(c.To), id: c.ID, push: &c.Push, boot: p.boot})
			continue
		}
		w.parkStep(p, func(o *owner.Owner) { _ = w.take(p, o, &c.Push) }, parked{self: c.ID})
	}
	return len(ready.Calls) > 0 || !ready.Next.IsZero() && !ready.Next.After(w.now)
}

// take merges a push.
func (w *world) take(at *pc, o *owner.Owner, p *handoff.Push) error {
	kvs := make([]kv.Record, len(p.Records))
	for i, r := range p.Records {
		kvs[i] = kv.Record{Key: r.Key, Value: r.Value}
	}
	err := o.ImportUntil(kvs, w.leasesEnd(at, p))
	for _, n := range p.Notes {
		note := new(wire.LeaseNote)
		if uerr := proto.Unmarshal(n.Note, note); uerr != nil {
			panic(uerr)
		}
		err = errors.Join(err, o.Adopt(note))
	}
	return err
}

// leasesEnd is when the last lease is over that the peer may have given of whose copy records are:
// a TTL after this peer saw it die or leave, or after the one did that brings them: a newcomer may
// inherit the arc of a peer that died just before it came. The zero time means that a lease may
// have been renewed a moment ago, as far as both know.
func (w *world) leasesEnd(at *pc, p *handoff.Push) time.Time {
	switch {
	case w.rules.hasty:
		return w.now
	case p.From == "":
		return time.Time{}
	}
	i := number(p.From)
	if left := at.seat.goodbyes[i]; at.seat.view[i] == leaving || w.now.Sub(left) < ttl {
		return left.Add(ttl)
	}
	if until := at.seat.fences[i]; !until.IsZero() || p.Gone == 0 {
		return until
	}
	return w.now.Add(ttl - p.Gone)
}

// pushed ends a push.
func (w *world) pushed(p *pc, id uint64, failed error) {
	x := p.proc
	var drops []handoff.Drop
	w.step(p, func(*owner.Owner) {
		var err error
		if drops, err = x.keeper.Result(id, failed); err != nil {
			panic(err)
		}
	})
	for _, d := range drops {
		lo, hi := append([]byte{hosts, 'h'}, d.Lo[:]...), append([]byte{hosts, 'h'}, d.Hi[:]...)
		if _, err := x.copies.Drop(string(d.Source), lo, append(hi, 0xff)); err != nil {
			panic(err)
		}
	}
	x.walks = true
}

// settle asks the neighbours.
func (w *world) settle(p *pc) (more bool) {
	x := p.proc
	if p.replaced {
		return false
	}
	asks, changed, _ := x.settler.Tick(w.now)
	for _, a := range asks {
		w.send(&msg{kind: ask, from: p.i, to: number(a.To), id: a.ID, arc: a.Arc, boot: p.boot})
	}
	if changed {
		w.step(p, (*owner.Owner).SettledChanged)
	}
	return changed
}

// hostSpace is the owner's hosts as handoff sees them, in steps of the owner.
type hostSpace struct {
	p    *pc
	head []byte
}

func (s hostSpace) reader() ranged {
	return ranged{s.head, func(lo, hi []byte, fn func(key, value []byte) bool) error {
		// What the step has gathered so far is to be seen.
		if err := s.p.proc.owner.Export(ring.Pos{}, ring.Pos{}, func(_, _ []byte) bool { return false }); err != nil {
			return err
		}
		return s.p.proc.space.Scan(lo, hi, fn)
	}}
}

// Next implements handoff.Reader.
func (s hostSpace) Next(from ring.Pos) (ring.Pos, bool, error) { return s.reader().Next(from) }

// Export implements handoff.Reader.
func (s hostSpace) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return s.reader().Export(pos, from, fn)
}

// Note implements handoff.Space: the lease that is alive goes along.
func (s hostSpace) Note(pos ring.Pos) []byte {
	if !current.rules.notes {
		return nil
	}
	o := s.p.proc.owner
	o.Freeze(pos) // ends a lease of which its worker has not heard
	defer o.Unfreeze(pos)
	note, ok := o.Lease(pos)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		panic(err)
	}
	return raw
}

// Remove implements handoff.Space.
func (s hostSpace) Remove(pos ring.Pos) error {
	s.p.proc.owner.Remove(pos, pos.Next())
	return nil
}

// ranged reads records by position.
type ranged struct {
	head []byte
	scan func(lo, hi []byte, fn func(key, value []byte) bool) error
}

func (r ranged) key(pos ring.Pos, more ...byte) []byte {
	return append(append(append([]byte{}, r.head...), pos[:]...), more...)
}

// Next implements handoff.Reader.
func (r ranged) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	err = r.scan(r.key(from), []byte{'h' + 1}, func(key, _ []byte) bool {
		pos, ok = ring.Pos(key[len(r.head):]), true
		return false
	})
	return pos, ok, err
}

// Export implements handoff.Reader.
func (r ranged) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := r.key(pos)
	if from != nil {
		lo = from
	}
	return r.scan(lo, r.key(pos, 0xff), fn)
}

// copiesOf finds the hosts in the copies.
type copiesOf struct{ p *pc }

// Sources implements handoff.Copies.
func (c copiesOf) Sources() (ids []peer.ID, err error) {
	names, err := c.p.proc.copies.Sources()
	for _, name := range names {
		ids = append(ids, peer.ID(name))
	}
	slices.Sort(ids)
	return ids, err
}

// Of implements handoff.Copies.
func (c copiesOf) Of(source peer.ID) handoff.Reader {
	return ranged{[]byte{'h'}, func(lo, hi []byte, fn func(key, value []byte) bool) error {
		return c.p.proc.copies.Scan(string(source), append([]byte{hosts}, lo...), append([]byte{hosts}, hi...), func(key, value []byte) bool {
			return fn(key[1:], value)
		})
	}}
}
