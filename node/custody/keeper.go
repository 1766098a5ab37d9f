package custody

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Reader finds the records of a space: this peer's own, or those of a copy.
type Reader interface {
	// Next returns the first position from the given one on at which there are records; false if
	// there is none up to the end of the circle.
	Next(from ring.Pos) (pos ring.Pos, ok bool, err error)
	// Export calls fn for the records at a position, from a key on (nil: the first), in the order
	// of keys, until it returns false; key and value are lent.
	Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error
}

// Space is one kind of records: hosts, jobs or bodies.
type Space interface {
	Reader
	// Note is what goes along with the last of the records at a position, such as a lease that is
	// alive; nil for nothing.
	Note(pos ring.Pos) []byte
	// Remove forgets the records at a position. They are on disk elsewhere.
	Remove(pos ring.Pos) error
}

// Copies finds the copies of other peers' records of this space.
type Copies interface {
	Sources() ([]peer.ID, error) // lists the peers of whose records there is a copy
	Of(source peer.ID) Reader    // opens the copy of one of them
}

// View is what this peer believes of the ring at present. Version changes whenever another answer
// may be different.
type View interface {
	Version() uint64 // returns the number of what is believed at present
	// Serves says whether this peer answers for a position, and where the arc ends which it serves.
	Serves(pos ring.Pos) bool
	// Owner names the peer that answers for a position, as far as is known; this peer itself too
	// while it does not serve it yet.
	Owner(pos ring.Pos) (peer.ID, bool)
	// Departs says that a peer is leaving and hands over what it holds by itself, Knows that it is
	// near on the ring.
	Departs(id peer.ID) bool
	Knows(id peer.ID) bool
}

// Push is a batch of records for one peer.
type Push struct {
	Records []kv.Record // in the order of their positions
	// Notes go with the positions of which the push holds the last record.
	Notes []Note
	// From is the peer of whose copy the records are, empty if they are the sender's own.
	From peer.ID
	// Gone is how long ago From left or died, as who brings the push saw it; 0 if it did not.
	// Whoever carries the push sets it.
	Gone time.Duration
}

// Note is what goes along with the records of a position; see Space.
type Note struct {
	Pos  ring.Pos // position that it is about
	Note []byte   // as Space encoded it
}

// Call is a push to be made: to this peer itself if the records are to be merged here. It has
// succeeded when they are on disk at the receiver and its replicas; its end goes to Result.
type Call struct {
	ID   uint64  // of this call, to be given to Result
	To   peer.ID // the receiver
	Push Push    // what it is to get
}

// Drop is a part of a source's copy that is not needed any more: the records at positions from Lo
// to Hi, both included.
type Drop struct {
	Source peer.ID  // peer whose copy it is
	Lo, Hi ring.Pos // first and last position
}

// Ready is what a Keeper wants done.
type Ready struct {
	Calls []Call // to be made, each at once
	Drops []Drop // not needed any more
	// Next is when to call Tick again; zero: when the view changes.
	Next time.Time
}

// Config holds the knobs of a Keeper. The zero value of a field means its default.
type Config struct {
	// Part is the size in bytes from which a push is full.
	Part int
	// Again is the wait before records that could not be pushed are tried again; Every that between
	// two walks while nothing changes.
	Again, Every time.Duration
	// Steps bounds the positions looked at in one Tick.
	Steps int
}

func (c *Config) fill() {
	fill(&c.Part, 1<<20)
	fill(&c.Again, 300*time.Millisecond)
	fill(&c.Every, 30*time.Second)
	fill(&c.Steps, 1024)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Keeper walks over the records of one space and sends them where they belong. Not safe for
// concurrent use.
type Keeper struct {
	cfg    Config
	self   peer.ID
	space  Space
	copies Copies
	view   View

	walk  *walk
	clean uint64 // the version of the view at the last walk that left nothing, plus one
	next  time.Time
	call  uint64 // under way; 0: none
	last  uint64
	sent  sent
	gone  []gone // own records that are elsewhere by now and still to be removed here; nothing else is done before
	moved int64
	// kept says since when records are kept that were handed to others, by source.
	kept map[peer.ID]time.Time
	// refused are peers that did not take the last push: the next one is small, until one is taken.
	refused map[peer.ID]bool
}

// walk is one walk over the own records and then the copies.
type walk struct {
	version uint64
	sources []peer.ID // still to be walked over, the present one in front; own records before them
	own     bool      // the own records are being walked over
	cursor  ring.Pos
	ended   bool   // of this source
	from    []byte // where the rest of the records at cursor begins, nil if none went out
	sum     maphash.Hash
	left    int
	kept    kept             // what was seen of the present source, if it is of those that are kept
	failed  map[peer.ID]bool // peers that did not take a push in this walk
}

// sent is the push under way.
type sent struct {
	source peer.ID    // empty: own records
	whole  []ring.Pos // positions of which it holds the last record
	sums   []uint64   // of their records
	bytes  int
	to     peer.ID
	cursor ring.Pos // where the walk goes on
	from   []byte
	ended  bool
}

// gone is a position whose records another peer has on disk.
type gone struct {
	pos ring.Pos
	sum uint64 // of what was pushed
}

// NewKeeper returns a keeper of one space. Copies may be nil.
func NewKeeper(cfg Config, self peer.ID, space Space, copies Copies, view View) *Keeper {
	cfg.fill()
	return &Keeper{cfg: cfg, self: self, space: space, copies: copies, view: view, kept: make(map[peer.ID]time.Time), refused: make(map[peer.ID]bool)}
}

// Clean says that this peer, as it sees the ring now, holds nothing of this space that another peer
// should have, nor copies of a peer that is gone.
func (k *Keeper) Clean() bool { return k.clean == k.view.Version()+1 }

// CleanAt is the version of the view, plus one, in which this peer was Clean at the last walk; zero
// if never.
func (k *Keeper) CleanAt() uint64 { return k.clean }

// Free says whether nothing lies here that is to be moved into this arc, whoever's it is. Another
// arc may still hold up Clean: a third peer does not serve yet what is to be moved to it.
func (k *Keeper) Free(arc ring.Arc) (bool, error) {
	if k.Clean() {
		return true, nil
	}
	held, err := k.holds(arc)
	return !held, err
}

// holds says whether records of an arc lie here that somebody else should have: own records, unless
// the arc is this peer's, and copies, but for those of the peer whose arc it is and of peers that
// are leaving, which hand over by themselves.
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

// within says whether there are records at a position of an arc, which may lead over the end of the
// circle.
func within(r Reader, arc ring.Arc) (bool, error) {
	for _, from := range []ring.Pos{ring.PosOf(arc.Start).Next(), {}} {
		if pos, ok, err := r.Next(from); err != nil || ok && arc.Contains(pos.Key()) {
			return err == nil, err
		}
	}
	return false, nil
}

// Moved counts the positions whose records were handed on or taken over.
func (k *Keeper) Moved() int64 { return k.moved }

// Tick walks on. At most one push is under way at a time.
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
		k.walk = nil // begin again with what is believed now
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

// step looks at one position, or goes on to the next source.
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
		w.ended = err == nil // what could not be read is looked at again
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

// pass goes on behind a position.
func (k *Keeper) pass(pos ring.Pos) {
	w := k.walk
	w.cursor, w.from = pos.Next(), nil
	w.ended = w.cursor == ring.Pos{}
}

// skip goes on behind the arc in which records are in their place: this peer's own, or that of the
// source. Either ends at the position of its peer.
func (k *Keeper) skip(pos ring.Pos) {
	w := k.walk
	id := k.self
	if !w.own {
		id = Owner(w.sources[0])
	}
	end := ring.PosOf(ring.PeerKey([]byte(id)))
	if bytes.Compare(end[:], pos[:]) < 0 || !w.own && k.view.Departs(id) {
		w.ended = true // the arc passes zero, or all of it is in its place
		return
	}
	w.cursor, w.from = end.Next(), nil
	w.ended = w.cursor == ring.Pos{}
}

// destination says where the records at a position belong; "" if they are in their place. It is not
// known while the ring is settling.
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
		return "", true // as long as it is there, it is to hand it on itself
	case !ok:
		return "", false
	case w.own:
		return owner, owner != k.self
	case owner == Owner(w.sources[0]) || k.view.Departs(Owner(w.sources[0])):
		return "", true // it keeps them itself
	default:
		return owner, owner != k.self
	}
}

// push gathers records for one peer, from a position on, while those that follow belong there as
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
				p.Notes = append(p.Notes, Note{pos, note})
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

// smallPart is about the size in bytes of a push to a peer that took none lately: it may not serve
// yet what comes into its arc.
const smallPart = 4 << 10

// MaxPositions bounds the positions of which one push holds records: who gathers them holds up the
// state machine meanwhile.
const MaxPositions = 256

func clone(b []byte) []byte { return append([]byte{}, b...) }

// Result brings the end of a push, and what is to be dropped because of it. Own records were
// changed meanwhile only if this peer serves them again; then both keep them, and they merge.
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
		if w.from != nil { // the rest of a large one is of no use without its beginning
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

// removedAtOnce bounds the positions that one call removes: each costs a batch, and whoever has the
// state machine waits.
const removedAtOnce = 64

// removeSome removes some of the own records that were pushed, unless they are others by now. Tick
// goes on with it.
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

// remove removes own records that were pushed, unless they are others by now.
func (k *Keeper) remove(pos ring.Pos, sum uint64) (removed bool, err error) {
	if same, err := k.unchanged(pos, sum); err != nil || !same {
		return false, err
	}
	if err := k.space.Remove(pos); err != nil {
		return false, err
	}
	return true, nil
}

// unchanged says whether own records that were pushed are still another peer's, and still what was
// pushed: this peer may have served them again for a moment.
func (k *Keeper) unchanged(pos ring.Pos, sum uint64) (bool, error) {
	if k.view.Serves(pos) {
		return false, nil
	}
	var now maphash.Hash // the walk's own may be in the middle of a position
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

// merged puts drops of one source together that follow each other in a walk: nothing of it lies
// between them.
func merged(drops []Drop) []Drop {
	if len(drops) == 0 {
		return nil
	}
	return []Drop{{drops[0].Source, drops[0].Lo, drops[len(drops)-1].Hi}}
}
