package handoff

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Reader iterates over the records of a space: this peer's own, or those of a copy.
type Reader interface {
	// Next returns the first position with records at or after the given one; false if there is none
	// up to the end of the circle.
	Next(from ring.Pos) (pos ring.Pos, ok bool, err error)
	// Export calls fn for the records at a position, from a key on (nil: the first), in the order of
	// keys, until it returns false; key and value are valid during the call.
	Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error
}

// Space is one kind of records: hosts, jobs or bodies.
type Space interface {
	Reader
	// Note returns what is sent with the last of the records at a position, such as a live lease; nil
	// for nothing.
	Note(pos ring.Pos) []byte
	// Remove deletes the records at a position. They are on disk elsewhere.
	Remove(pos ring.Pos) error
}

// Copies gives access to the copies of other peers' records of this space.
type Copies interface {
	Sources() ([]peer.ID, error) // lists the peers whose records are copied here
	Of(source peer.ID) Reader    // opens the copy of one of them
}

// View is this peer's current view of the ring. Version changes whenever another answer may be
// different.
type View interface {
	Version() uint64 // returns the version of the view
	// Serves reports whether this peer serves a position.
	Serves(pos ring.Pos) bool
	// Owner returns the presumed owner of a position; this peer itself too while it does not serve it
	// yet.
	Owner(pos ring.Pos) (peer.ID, bool)
	// Departs reports whether a peer is leaving and hands over its records itself, Knows whether it is
	// near on the ring.
	Departs(id peer.ID) bool
	Knows(id peer.ID) bool
}

// Push is a batch of records for one peer.
type Push struct {
	Records []kv.Record // in the order of their positions
	// Notes go with the positions of which the push holds the last record.
	Notes []Attachment
	// From is the peer whose copy the records are from, empty for the sender's own.
	From peer.ID
	// Gone is how long ago From left or died, in the sender's view; 0 if it did not. The caller of the
	// push sets it.
	Gone time.Duration
}

// Attachment is sent with the records of a position; see Space.
type Attachment struct {
	Pos  ring.Pos // its position
	Note []byte   // as encoded by Space
}

// Call is a push to be made: to this peer itself if the records are to be merged here. It has
// succeeded when they are on disk at the receiver and its replicas; its result goes to Result.
type Call struct {
	ID   uint64  // to be passed to Result
	To   peer.ID // the receiver
	Push Push    // the records
}

// Drop is an obsolete part of a source's copy: the records at positions from Lo to Hi, both
// included.
type Drop struct {
	Source peer.ID  // peer whose copy it is
	Lo, Hi ring.Pos // first and last position
}

// Ready are the actions that a Keeper requests.
type Ready struct {
	Calls []Call // to be made, each at once
	Drops []Drop // to be deleted
	// Next is when to call Tick again; zero: when the view changes.
	Next time.Time
}

// Config is the configuration of a Keeper. The zero value of a field selects its default.
type Config struct {
	// Part is the size in bytes at which a push is full.
	Part int
	// Again is the delay before a failed push is retried; Every that between two walks without
	// changes.
	Again, Every time.Duration
	// Steps bounds the positions examined in one Tick.
	Steps int
}

func (c *Config) fill() {
	c.Part = cmp.Or(c.Part, 1<<20)
	c.Again = cmp.Or(c.Again, 300*time.Millisecond)
	c.Every = cmp.Or(c.Every, 30*time.Second)
	c.Steps = cmp.Or(c.Steps, 1024)
}

// Keeper walks over the records of one space and sends them to their owners. Not safe for
// concurrent use.
type Keeper struct {
	cfg    Config
	self   peer.ID
	space  Space
	copies Copies
	view   View

	walk  *walk
	clean uint64 // version of the view at the last walk that left nothing, plus one
	next  time.Time
	call  uint64 // ID of the push under way; 0: none
	last  uint64
	sent  sent
	gone  []gone // own records that are elsewhere and still to be removed here, before anything else
	moved int64  // positions whose records were handed on or taken over
	// kept maps sources to the time since which their handed-off records are retained.
	kept map[peer.ID]time.Time
	// refused are peers that rejected the last push: the next one is small, until one is accepted.
	refused map[peer.ID]bool
}

// walk is one walk over the own records and then the copies.
type walk struct {
	version uint64
	sources []peer.ID // remaining sources, the present one first; own records come before them
	own     bool      // the walk is in the own records
	cursor  ring.Pos
	ended   bool   // the source is complete
	from    []byte // start of the remaining records at cursor, nil if none were sent
	sum     maphash.Hash
	left    int
	kept    kept             // state of the present source, if it is retained
	failed  map[peer.ID]bool // peers that rejected a push in this walk
}

// sent is the push under way.
type sent struct {
	source peer.ID    // empty: own records
	whole  []ring.Pos // positions of which it holds the last record
	sums   []uint64   // of their records
	bytes  int
	to     peer.ID
	cursor ring.Pos // where the walk continues
	from   []byte
	ended  bool
}

// gone is a position whose records another peer has on disk.
type gone struct {
	pos ring.Pos
	sum uint64 // checksum of the pushed records
}

// NewKeeper returns a keeper of one space. Copies may be nil.
func NewKeeper(cfg Config, self peer.ID, space Space, copies Copies, view View) *Keeper {
	cfg.fill()
	return &Keeper{cfg: cfg, self: self, space: space, copies: copies, view: view, kept: make(map[peer.ID]time.Time), refused: make(map[peer.ID]bool)}
}

// Clean reports whether this peer, in its view of the ring, holds nothing of this space that
// belongs to another peer, nor copies of a peer that is gone.
func (k *Keeper) Clean() bool { return k.clean == k.view.Version()+1 }

// CleanAt returns the version of the view, plus one, in which this peer was Clean at the last walk;
// zero if never.
func (k *Keeper) CleanAt() uint64 { return k.clean }

// Free reports whether nothing is here that must be moved into this arc, whatever its owner.
// Another arc may still prevent Clean: its owner may not serve it yet.
func (k *Keeper) Free(arc ring.Arc) (bool, error) {
	if k.Clean() {
		return true, nil
	}
	held, err := k.holds(arc)
	return !held, err
}

// holds reports whether records of an arc are here that belong to another peer: own records, unless
// the arc is this peer's, and copies, except for those of the arc's owner and of leaving peers,
// which hand over their records themselves.
func (k *Keeper) holds(arc ring.Arc) (bool, error) {
	if arc.End != ring.PeerKey([]byte(k.self)) {
		if held, err := within(k.space, arc); held || err != nil {
			return held, err
		}
	}
	if k.copies == nil {
		return false, nil
	}
	sources, err := k.copies.Sources()
	if err != nil {
		return false, err
	}
	for _, source := range sources {
		if of := Owner(source); ring.PeerKey([]byte(of)) == arc.End || k.view.Departs(of) || IsKept(source) && k.view.Knows(of) {
			continue
		}
		if held, err := within(k.copies.Of(source), arc); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// within reports whether there are records in an arc, which may wrap around zero.
func within(r Reader, arc ring.Arc) (bool, error) {
	for _, from := range []ring.Pos{ring.PosOf(arc.Start).Next(), {}} {
		if pos, ok, err := r.Next(from); err != nil || ok && arc.Contains(pos.Key()) {
			return err == nil, err
		}
	}
	return false, nil
}

// Tick continues the walk. At most one push is under way at a time.
func (k *Keeper) Tick(now time.Time) (r Ready, err error) {
	if k.call != 0 {
		return r, nil
	}
	if len(k.gone) > 0 {
		err := k.removeSome()
		return Ready{Next: now}, err
	}
	version := k.view.Version()
	if k.walk != nil && k.walk.version != version {
		k.walk = nil // restart with the current view
	}
	if k.walk == nil {
		if k.Clean() && now.Before(k.next) || !k.Clean() && now.Before(k.next) && k.next.Sub(now) <= k.cfg.Again {
			return Ready{Next: k.next}, nil
		}
		if err := k.begin(version); err != nil {
			return r, err
		}
	}
	for range k.cfg.Steps {
		call, done, err := k.step(now, &r)
		if err != nil {
			return r, err
		}
		if call != nil {
			r.Calls = append(r.Calls, *call)
			return r, nil
		}
		if done {
			k.end(now)
			r.Next = k.next
			return r, nil
		}
	}
	r.Next = now
	return r, nil
}

func (k *Keeper) begin(version uint64) error {
	w := &walk{version: version, own: true, failed: make(map[peer.ID]bool)}
	if k.copies != nil {
		var err error
		if w.sources, err = k.copies.Sources(); err != nil {
			return err
		}
	}
	k.walk = w
	return nil
}

// end closes a walk. If the view changed meanwhile, the next one begins at once.
func (k *Keeper) end(now time.Time) {
	w := k.walk
	k.walk = nil
	k.next = now.Add(k.cfg.Every)
	switch {
	case w.left > 0:
		k.clean, k.next = 0, now.Add(k.cfg.Again)
	case w.version == k.view.Version():
		k.clean = w.version + 1
		clear(k.refused)
	default:
		k.next = now
	}
}

// step examines one position, or continues with the next source.
func (k *Keeper) step(now time.Time, r *Ready) (call *Call, done bool, err error) {
	w := k.walk
	if w.ended {
		w.ended, w.cursor, w.from = false, ring.Pos{}, nil
		if !w.own {
			if k.spent(now, w.sources[0]) {
				r.Drops = append(r.Drops, Drop{Source: w.sources[0], Hi: lastPos})
			}
			w.sources = w.sources[1:]
		}
		w.own, w.kept = false, kept{}
	}
	if !w.own && len(w.sources) == 0 {
		return nil, true, nil
	}
	reader := Reader(k.space)
	if !w.own {
		reader = k.copies.Of(w.sources[0])
	}
	pos, ok, err := reader.Next(w.cursor)
	if err != nil || !ok {
		w.ended = err == nil // after a read error it is retried
		return nil, false, err
	}
	w.kept.some = true
	to, ok := k.destination(pos)
	if ok && to == "" {
		shown, err := k.shown(pos)
		if shown {
			k.pass(pos)
		} else {
			w.kept.unshown = true
			k.skip(pos)
		}
		return nil, false, err
	}
	if !ok || w.failed[to] {
		w.left++
		w.kept.left = true
		k.pass(pos)
		return nil, false, nil
	}
	call, err = k.push(reader, pos, to)
	return call, false, err
}

// pass continues after a position.
func (k *Keeper) pass(pos ring.Pos) {
	w := k.walk
	w.cursor, w.from = pos.Next(), nil
	w.ended = w.cursor == ring.Pos{}
}

// skip continues after the arc whose records are in their place: this peer's own, or that of the
// source. Either ends at the position of its peer.
func (k *Keeper) skip(pos ring.Pos) {
	w := k.walk
	id := k.self
	if !w.own {
		id = Owner(w.sources[0])
	}
	end := ring.PosOf(ring.PeerKey([]byte(id)))
	if bytes.Compare(end[:], pos[:]) < 0 || !w.own && k.view.Departs(id) {
		w.ended = true // the arc passes zero, or covers everything
		return
	}
	w.cursor, w.from = end.Next(), nil
	w.ended = w.cursor == ring.Pos{}
}

// destination returns the peer to which the records at a position belong; "" if they are in their
// place. It is unknown while the ring is converging.
func (k *Keeper) destination(pos ring.Pos) (to peer.ID, known bool) {
	w := k.walk
	if k.view.Serves(pos) {
		if w.own {
			return "", true
		}
		return k.self, true
	}
	owner, ok := k.view.Owner(pos)
	switch {
	case !w.own && IsKept(w.sources[0]) && k.view.Knows(Owner(w.sources[0])):
		return "", true // while it is here, it hands them over itself
	case !ok:
		return "", false
	case w.own:
		return owner, owner != k.self
	case owner == Owner(w.sources[0]) || k.view.Departs(Owner(w.sources[0])):
		return "", true // it retains them itself
	default:
		return owner, owner != k.self
	}
}

// push collects records for one peer, from a position on, while the following ones belong there as
// well.
func (k *Keeper) push(reader Reader, pos ring.Pos, to peer.ID) (*Call, error) {
	w := k.walk
	s := sent{to: to}
	p := Push{}
	if !w.own {
		s.source, p.From = w.sources[0], Owner(w.sources[0])
	}
	part := k.cfg.Part
	if k.refused[to] {
		part = min(part, smallPart)
	}
	for {
		full := false
		var rest []byte
		if w.from == nil {
			w.sum.Reset()
		}
		err := reader.Export(pos, w.from, func(key, value []byte) bool {
			if s.bytes > 0 && s.bytes+len(key)+len(value) > part {
				full, rest = true, clone(key)
				return false
			}
			p.Records = append(p.Records, kv.Record{Key: clone(key), Value: clone(value)})
			add(&w.sum, key, value)
			s.bytes += len(key) + len(value)
			return true
		})
		if err != nil {
			return nil, err
		}
		if full {
			s.cursor, s.from = pos, rest
			break
		}
		s.whole, s.sums = append(s.whole, pos), append(s.sums, w.sum.Sum64())
		if w.own {
			if note := k.space.Note(pos); note != nil {
				p.Notes = append(p.Notes, Attachment{pos, note})
			}
		}
		w.from = nil
		s.cursor = pos.Next()
		if s.ended = s.cursor == (ring.Pos{}); s.ended || len(s.whole) >= MaxPositions || k.refused[to] {
			break
		}
		next, ok, err := reader.Next(s.cursor)
		if err != nil {
			return nil, err
		}
		if !ok {
			s.ended = true
			break
		}
		if d, known := k.destination(next); !known || d != to {
			break
		}
		pos = next
	}
	k.last++
	k.call, k.sent = k.last, s
	return &Call{k.call, to, p}, nil
}

// smallPart is the approximate size in bytes of a push to a peer that rejected the last one: it may
// not serve its new arc yet.
const smallPart = 4 << 10

// MaxPositions bounds the positions in one push: collecting them blocks the state machine.
const MaxPositions = 256

func clone(b []byte) []byte { return append([]byte{}, b...) }

// Result processes the end of a push, and returns what must be dropped because of it. Own records
// changed meanwhile only if this peer serves them again; then both retain them, and they are
// merged.
func (k *Keeper) Result(id uint64, failed error) (drops []Drop, err error) {
	if id != k.call {
		return nil, nil
	}
	k.call = 0
	w, s := k.walk, &k.sent
	w.cursor, w.from, w.ended = s.cursor, s.from, s.ended
	if failed != nil {
		k.refused[s.to] = true
		w.failed[s.to] = true
		w.left++
		w.kept.left = true
		if w.from != nil { // the rest of a large one is useless without its beginning
			w.cursor, w.from = w.cursor.Next(), nil
			w.ended = w.cursor == ring.Pos{}
		}
		return nil, nil
	}
	delete(k.refused, s.to)
	for i, pos := range s.whole {
		k.moved++
		if s.source != "" {
			drops = append(drops, Drop{s.source, pos, pos})
		} else {
			k.gone = append(k.gone, gone{pos, s.sums[i]})
			delete(k.kept, Kept(s.to)) // from now on
		}
	}
	return merged(drops), k.removeSome()
}

// removedAtOnce bounds the positions that one call removes: each costs a batch, during which the
// state machine is blocked.
const removedAtOnce = 64

// removeSome removes some of the pushed own records, unless they have changed. Tick continues it.
func (k *Keeper) removeSome() error {
	n := min(removedAtOnce, len(k.gone))
	var failures []error
	for _, g := range k.gone[:n] {
		removed, err := k.remove(g.pos, g.sum)
		if !removed {
			k.walk.left++
			failures = append(failures, err)
		}
	}
	if k.gone = k.gone[n:]; len(k.gone) == 0 {
		k.gone = nil
	}
	return errors.Join(failures...)
}

// remove removes pushed own records, unless they have changed.
func (k *Keeper) remove(pos ring.Pos, sum uint64) (removed bool, err error) {
	if same, err := k.unchanged(pos, sum); err != nil || !same {
		return false, err
	}
	if err := k.space.Remove(pos); err != nil {
		return false, err
	}
	return true, nil
}

// unchanged reports whether pushed own records still belong to another peer, and equal what was
// pushed: this peer may have served them again for a moment.
func (k *Keeper) unchanged(pos ring.Pos, sum uint64) (bool, error) {
	if k.view.Serves(pos) {
		return false, nil
	}
	var now maphash.Hash // that of the walk may be in use
	now.SetSeed(k.walk.sum.Seed())
	err := k.space.Export(pos, nil, func(key, value []byte) bool {
		add(&now, key, value)
		return true
	})
	return now.Sum64() == sum, err
}

func add(h *maphash.Hash, key, value []byte) {
	var length [8]byte
	binary.BigEndian.PutUint32(length[:4], uint32(len(key)))   // a key is short
	binary.BigEndian.PutUint32(length[4:], uint32(len(value))) // bounded by a message
	for _, b := range [][]byte{length[:], key, value} {
		_, _ = h.Write(b) // never fails
	}
}

// merged joins adjacent drops of one source: there are no other records between them.
func merged(drops []Drop) []Drop {
	if len(drops) == 0 {
		return nil
	}
	return []Drop{{drops[0].Source, drops[0].Lo, drops[len(drops)-1].Hi}}
}
