package custody

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// replicas is r: a record lies with its owner and with r-1 successors.
const replicas = 3

// part is the size in bytes of a push in these worlds: records of up to 60 bytes make most positions fit, and some not.
const part = 120

// shelf is an ordered map of records: position and suffix, to a version with padding.
type shelf map[string]string

func version(value string) uint64 { return binary.BigEndian.Uint64([]byte(value)) }

// Next implements Reader.
func (s shelf) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if key >= string(from[:]) {
			return ring.Pos([]byte(key)), true, nil
		}
	}
	return pos, false, nil
}

// Export implements Reader.
func (s shelf) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(key, string(pos[:])) && key >= string(from) && !fn([]byte(key), []byte(s[key])) {
			return nil
		}
	}
	return nil
}

func (s shelf) drop(lo, hi ring.Pos) {
	maps.DeleteFunc(s, func(key, _ string) bool {
		return key[:ring.PosSize] >= string(lo[:]) && key[:ring.PosSize] <= string(hi[:])
	})
}

func (s shelf) merge(key, value string) {
	if had, ok := s[key]; !ok || version(value) > version(had) {
		s[key] = value
	}
}

// standing is where a peer stands in its life.
type standing uint8

const (
	absent standing = iota // dead, or never there
	member
	leaving
)

// world is a few peers on a ring of which each has its own, late, picture.
type world struct {
	t              *testing.T
	rnd            *rand.Rand
	now            time.Time
	peers          []*keep
	truth          map[peer.ID]standing
	acked          map[string]uint64 // records that somebody was told are safe
	fly            []*flight
	late           []*flight // whose sender gave them up
	loss           float64
	last           uint64 // version given to a record
	moved, settled int
}

// keep is a peer: it keeps records.
type keep struct {
	w       *world
	id      peer.ID
	key     ring.Key
	up      bool
	gone    bool
	own     shelf
	copies  map[peer.ID]shelf
	level   map[peer.ID]bool // followers with everything
	view    map[peer.ID]standing
	changes uint64
	serves  bool
	arc     ring.Arc
	keeper  *Keeper
	settler *Settler
	fails   int // reads that are still to fail
	sticky  int // removals that are
}

// flight is a push or a question on its way.
type flight struct {
	from, to *keep
	call     Call
	ask      Ask // else a push
	boot     *Keeper
	done     bool // it arrived
	failed   error
	answer   Answer
}

var errNet = errors.New("no answer")

func newWorld(t *testing.T, seed uint64, peers int, loss float64) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1e9, 0), truth: make(map[peer.ID]standing), acked: make(map[string]uint64),
		loss: loss,
	}
	for range peers {
		w.add()
	}
	return w
}

// add makes a peer that never was in the ring.
func (w *world) add() {
	id := peer.ID(fmt.Sprintf("peer %d", len(w.peers)))
	w.peers = append(w.peers, &keep{w: w, id: id, key: ring.PeerKey([]byte(id))})
}

func (w *world) peer(id peer.ID) *keep {
	for _, p := range w.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}

// start brings a peer up with what is on its disk. A name that lost its disk never comes back.
func (p *keep) start() {
	if p.gone {
		return
	}
	if p.own == nil {
		p.own, p.copies = make(shelf), make(map[peer.ID]shelf)
	}
	p.up, p.serves, p.level = true, false, make(map[peer.ID]bool)
	p.view = maps.Clone(p.w.truth)
	p.w.truth[p.id] = member
	p.view[p.id] = member
	p.changes++
	p.keeper = NewKeeper(Config{Part: part, Steps: 3}, p.id, space{p}, copiesOf{p}, p)
	p.settler = NewSettler(time.Minute, 50*time.Millisecond, p, p.free)
}

func (p *keep) free(arc ring.Arc) bool {
	free, err := p.keeper.Free(arc)
	return free && err == nil
}

// stop ends the process, and with it what it sent.
func (p *keep) stop(disk bool) {
	p.up, p.serves = false, false
	p.w.truth[p.id] = absent
	if !disk {
		p.own, p.copies, p.gone = nil, nil, true
		p.w.add()
	}
	for _, other := range p.w.peers {
		delete(other.level, p.id)
	}
}

// learn brings the picture of one peer up to date, and the arc with it: less is served at once, more after a while.
func (p *keep) learn(id peer.ID) {
	if p.view[id] == p.w.truth[id] || id == p.id {
		return
	}
	p.view[id] = p.w.truth[id]
	p.changes++
	if known, ok := p.known(); p.serves && (!ok || p.arc.Holds(known)) {
		p.serves, p.arc = ok, known
	}
}

// suspect takes a living peer for dead.
func (p *keep) suspect(id peer.ID) {
	if p.view[id] == member && id != p.id {
		p.view[id] = absent
		p.changes++
	}
}

// known is the arc that would be this peer's.
func (p *keep) known() (arc ring.Arc, ok bool) {
	if p.view[p.id] != member {
		return arc, false
	}
	arc = ring.Arc{Start: p.key, End: p.key}
	for id, s := range p.view {
		key := ring.PeerKey([]byte(id))
		if s == member && id != p.id && (arc.Start == p.key || ring.Between(arc.Start, key, p.key)) {
			arc.Start = key
		}
	}
	return arc, true
}

// grow begins to serve all of the arc, once the peer that served it before knows.
func (p *keep) grow() {
	known, ok := p.known()
	if !ok || p.serves && p.arc == known {
		return
	}
	for _, other := range p.w.peers {
		if other != p && other.up && other.serves && other.arc.Contains(p.key) {
			return
		}
	}
	p.serves, p.arc = true, known
	p.changes++
}

// Version implements View.
func (p *keep) Version() uint64 { return p.changes }

// Serves implements View.
func (p *keep) Serves(pos ring.Pos) bool { return p.serves && p.arc.Contains(pos.Key()) }

// Owner implements View.
func (p *keep) Owner(pos ring.Pos) (owner peer.ID, ok bool) {
	var best ring.Key
	for id, s := range p.view {
		if s != member {
			continue
		}
		if d := ring.PeerKey([]byte(id)).Sub(pos.Key()); !ok || d.Compare(best) < 0 {
			owner, best, ok = id, d, true
		}
	}
	return owner, ok
}

// Departs implements View.
func (p *keep) Departs(id peer.ID) bool { return p.view[id] == leaving }

// Left implements Neighbours.
func (p *keep) Left(peer.ID) (at time.Time, seen bool) { return time.Time{}, false }

// Arc implements Neighbours.
func (p *keep) Arc() (ring.Arc, bool) { return p.arc, p.serves }

// Neighbours implements Neighbours.
func (p *keep) Neighbours() (ids []peer.ID) {
	for id, s := range p.view {
		if id != p.id && s != absent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// followers are the next peers on the ring, as far as this one knows.
func (p *keep) followers() (ids []peer.ID) {
	for id, s := range p.view {
		if s == member && id != p.id {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b peer.ID) int {
		return ring.PeerKey([]byte(a)).Sub(p.key).Compare(ring.PeerKey([]byte(b)).Sub(p.key))
	})
	return ids[:min(len(ids), replicas-1)]
}

// ship brings the followers level; false if one of them serves what this peer believes its own, so that nothing may be acknowledged.
func (p *keep) ship() (ok bool) {
	ok = true
	followers := p.followers()
	for _, id := range followers {
		f := p.w.peer(id)
		switch {
		case !f.up:
		case f.Serves(ring.PosOf(p.key)):
			ok = false
		default:
			f.copies[p.id] = maps.Clone(p.own)
			p.level[id] = true
		}
	}
	for _, f := range p.w.peers {
		if f != p && f.up && p.level[f.id] && !slices.Contains(followers, f.id) {
			delete(f.copies, p.id)
			delete(p.level, f.id)
		}
	}
	return ok
}

// space is a peer's own records.
type space struct{ p *keep }

func (s space) Next(from ring.Pos) (ring.Pos, bool, error) {
	if s.p.fails > 0 {
		s.p.fails--
		return ring.Pos{}, false, errNet
	}
	return s.p.own.Next(from)
}

func (s space) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return s.p.own.Export(pos, from, fn)
}

func (s space) Note(pos ring.Pos) []byte { return pos[:1] }

// Remove holds that one living disk has all that is removed, as one.
func (s space) Remove(pos ring.Pos) error {
	p := s.p
	if p.sticky > 0 {
		p.sticky--
		return errNet
	}
	p.w.moved++
	if p.Serves(pos) {
		p.w.t.Fatalf("%s removes what it serves, at %x", p.id, pos[:2])
	}
	var holders []string
	for _, q := range p.w.peers {
		if q == p || q.own == nil {
			continue
		}
		if p.w.covers(q.own, p.own, pos) {
			return p.remove(pos)
		}
		for _, c := range q.copies {
			if p.w.covers(c, p.own, pos) {
				return p.remove(pos)
			}
		}
		holders = append(holders, string(q.id))
	}
	p.w.t.Fatalf("%s removes %x, and nobody of %v has all of it", p.id, pos[:2], holders)
	return nil
}

func (p *keep) remove(pos ring.Pos) error {
	p.own.drop(pos, pos)
	p.ship()
	return nil
}

// covers says whether one shelf has all that another has at a position.
func (w *world) covers(got, want shelf, pos ring.Pos) bool {
	for key, value := range want {
		if ring.Pos([]byte(key)) != pos {
			continue
		}
		if had, ok := got[key]; !ok || version(had) < version(value) {
			return false
		}
	}
	return true
}

// copiesOf finds the copies here.
type copiesOf struct{ p *keep }

func (c copiesOf) Sources() ([]peer.ID, error) { return slices.Sorted(maps.Keys(c.p.copies)), nil }
func (c copiesOf) Of(source peer.ID) Reader    { return c.p.copies[source] }

// take merges a push. It is refused unless all of it is this peer's, and if it goes on with a position of which the beginning is not here.
func (p *keep) take(from *keep, push Push) error {
	seen := make(map[ring.Pos]bool)
	for _, r := range push.Records {
		pos := ring.Pos(r.Key)
		if p != from && !p.Serves(pos) {
			return errNet
		}
		if _, ok := p.own[string(pos[:])+"\x00"]; !ok && !seen[pos] && r.Key[ring.PosSize] != 0 {
			return errNet
		}
		seen[pos] = true
	}
	for _, r := range push.Records {
		p.own.merge(string(r.Key), string(r.Value))
	}
	if !p.ship() {
		return errNet
	}
	return nil
}

// write gives a record a new version at a peer that serves it; it is acknowledged when the followers have it.
func (w *world) write() {
	pos := ring.Pos{byte(w.rnd.IntN(24) * 11)}
	suffix := 0
	if w.rnd.IntN(3) > 0 {
		suffix = w.rnd.IntN(5)
	}
	for _, p := range w.peers {
		if !p.up || !p.Serves(pos) {
			continue
		}
		ok := true
		for s := range suffix + 1 {
			key := string(pos[:]) + string([]byte{byte(s)})
			if _, had := p.own[key]; had && s < suffix {
				continue
			}
			w.last++
			value := binary.BigEndian.AppendUint64(nil, w.last)
			p.own[key] = string(append(value, bytes.Repeat([]byte{'x'}, w.rnd.IntN(40))...))
			if ok = p.ship() && ok; ok {
				w.acked[key] = w.last
			}
		}
		return
	}
}

// step does one thing somewhere.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(60)) * time.Millisecond)
	p := w.peers[w.rnd.IntN(len(w.peers))]
	switch w.rnd.IntN(8) {
	case 0:
		w.write()
	case 1, 2:
		if p.up {
			p.learn(w.peers[w.rnd.IntN(len(w.peers))].id)
		}
	case 3:
		if p.up {
			p.grow()
		}
	case 4, 5:
		w.deliver()
	default:
		p.tick()
	}
}

func (p *keep) tick() {
	if !p.up {
		return
	}
	w := p.w
	ready, err := p.keeper.Tick(w.now)
	if err != nil && !errors.Is(err, errNet) {
		w.t.Fatal(err)
	}
	for _, call := range ready.Calls {
		p.checkCall(&call)
		w.fly = append(w.fly, &flight{from: p, to: w.peer(call.To), call: call, boot: p.keeper})
	}
	asks, changed, _ := p.settler.Tick(w.now)
	for _, ask := range asks {
		w.fly = append(w.fly, &flight{from: p, to: w.peer(ask.To), ask: ask, boot: p.keeper})
	}
	if changed {
		p.checkSettled()
	}
}

// checkCall holds that records go to whom the sender believes their owner, in order, and none is larger than a part or alone.
func (p *keep) checkCall(call *Call) {
	w := p.w
	size := 0
	for i, r := range call.Push.Records {
		owner, ok := p.Owner(ring.Pos(r.Key))
		if p.Serves(ring.Pos(r.Key)) {
			owner = p.id
		}
		if !ok || owner != call.To {
			w.t.Fatalf("%s pushes %x to %s and believes it %s's", p.id, r.Key[:2], call.To, owner)
		}
		if i > 0 && bytes.Compare(call.Push.Records[i-1].Key, r.Key) >= 0 {
			w.t.Fatalf("%s pushes keys out of order", p.id)
		}
		size += len(r.Key) + len(r.Value)
	}
	if size > part && len(call.Push.Records) > 1 || len(call.Push.Records) == 0 {
		w.t.Fatalf("%s pushes %d bytes in %d records", p.id, size, len(call.Push.Records))
	}
}

// deliver brings one message on, which may get lost, as may its answer. What was given up may still arrive.
func (w *world) deliver() {
	if len(w.late) > 0 && w.rnd.IntN(3) == 0 {
		i := w.rnd.IntN(len(w.late))
		f := w.late[i]
		if w.rnd.IntN(2) == 0 {
			w.late = slices.Delete(w.late, i, i+1)
		}
		if f.to.up {
			_ = f.to.take(f.from, f.call.Push)
		}
	}
	if len(w.fly) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.fly))
	f := w.fly[i]
	if !f.done {
		f.done = true
		if f.to != f.from && w.rnd.Float64() < w.loss {
			f.failed = errNet
			if f.ask.ID == 0 && f.to.up {
				w.late = append(w.late, f)
			}
		} else {
			f.arrive()
		}
		return
	}
	w.fly = slices.Delete(w.fly, i, i+1)
	if f.to != f.from && w.rnd.Float64() < w.loss {
		f.failed, f.answer = errNet, NotYet
	}
	if f.from.up && f.boot == f.from.keeper {
		f.end()
	}
}

func (f *flight) arrive() {
	switch {
	case !f.to.up || f.from == f.to && f.boot != f.to.keeper:
		f.failed = errNet
	case f.ask.ID > 0:
		f.answer = Answers(f.from.id, f.ask.Arc, f.to, f.to.free(f.ask.Arc))
	default:
		f.failed = f.to.take(f.from, f.call.Push)
	}
}

func (f *flight) end() {
	p := f.from
	if f.ask.ID > 0 {
		p.settler.Result(p.w.now, f.ask.ID, f.answer)
		return
	}
	drops, err := p.keeper.Result(f.call.ID, f.failed)
	if err != nil && !errors.Is(err, errNet) {
		p.w.t.Fatal(err)
	}
	for _, d := range drops {
		if c := p.copies[d.Source]; c != nil {
			c.drop(d.Lo, d.Hi)
		}
		if source := p.w.peer(d.Source); source.up {
			delete(source.level, p.id)
		}
	}
}

// checkSettled holds that nobody that this peer knows keeps records of the arc that has just settled which this peer lacks: own ones, or in the copy of a peer
// that is gone.
func (p *keep) checkSettled() {
	if !p.serves {
		return
	}
	p.w.settled++
	for _, q := range p.w.peers {
		if q == p || !q.up || p.view[q.id] == absent || q.view[q.id] == absent {
			continue
		}
		p.checkLacks(q, "own", q.own)
		for source, c := range q.copies {
			if s := p.w.peer(source); !s.up && !slices.ContainsFunc(p.w.peers, func(o *keep) bool { return o.up && o.view[source] == leaving }) {
				p.checkLacks(q, "copy of "+string(source), c)
			}
		}
	}
}

func (p *keep) checkLacks(q *keep, what string, records shelf) {
	for key, value := range records {
		pos := ring.Pos([]byte(key))
		if !p.Serves(pos) || !p.settler.Settled(pos) || q.Serves(pos) {
			continue
		}
		if had, ok := p.own[key]; !ok || version(had) < version(value) {
			p.w.t.Fatalf("%s has settled, and %s, %s, has %x", p.id, q.id, what, pos[:2])
		}
	}
}

// converge lets everybody see the truth, and everything come to rest.
func (w *world) converge() {
	w.t.Helper()
	loss := w.loss
	w.loss, w.late = 0, nil
	for round := range 3000 {
		for _, p := range w.peers {
			if !p.up {
				continue
			}
			for _, q := range w.peers {
				p.learn(q.id)
			}
			p.grow()
			p.ship()
			p.tick()
		}
		for range len(w.fly) * 2 {
			w.deliver()
		}
		w.now = w.now.Add(50 * time.Millisecond)
		if round > 5 && len(w.fly) == 0 && w.rest() {
			w.loss = loss
			return
		}
	}
	for _, p := range w.peers {
		w.t.Logf("%s: up %v, serves %v, clean %v, %d own, copies of %d", p.id, p.up, p.serves, p.up && p.keeper.Clean(), len(p.own), len(p.copies))
	}
	w.t.Fatal("no rest although the ring stands still")
}

// rest says whether every peer is clean and has settled.
func (w *world) rest() bool {
	for _, p := range w.peers {
		if p.up && (!p.keeper.Clean() || p.serves && !p.settler.All()) {
			return false
		}
	}
	return true
}

// spared says whether a copy of all that was acknowledged lies on the disks that are left without some.
func (w *world) spared(without []*keep) bool {
	for key, version := range w.acked {
		if !w.lies(key, version, without) {
			return false
		}
	}
	return true
}

func (w *world) lies(key string, v uint64, without []*keep) bool {
	for _, p := range w.peers {
		if slices.Contains(without, p) {
			continue
		}
		if value, ok := p.own[key]; ok && version(value) >= v {
			return true
		}
		for _, c := range p.copies {
			if value, ok := c[key]; ok && version(value) >= v {
				return true
			}
		}
	}
	return false
}

// audit holds that all that was acknowledged is with its owner, and that nobody keeps what is not its own.
func (w *world) audit() {
	w.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.acked)) {
		var where []string
		found := false
		for _, p := range w.peers {
			if value, ok := p.own[key]; ok && p.up {
				where = append(where, fmt.Sprintf("%s has %d", p.id, version(value)))
				found = found || p.Serves(ring.Pos([]byte(key))) && version(value) >= w.acked[key]
			}
		}
		if !found {
			w.t.Fatalf("record %x %x, version %d, is not with its owner; %v", key[:1], key[ring.PosSize:], w.acked[key], where)
		}
	}
	for _, p := range w.peers {
		if !p.up {
			continue
		}
		for key := range p.own {
			if !p.Serves(ring.Pos([]byte(key))) {
				w.t.Fatalf("%s is clean and has %x, which is not its own", p.id, key[:1])
			}
		}
		for source, c := range p.copies {
			if w.truth[source] == absent && len(c) > 0 {
				w.t.Fatalf("%s is clean and has a copy of %s, which is gone", p.id, source)
			}
		}
	}
}
