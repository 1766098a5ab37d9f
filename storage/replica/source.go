package replica

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Config configures a Source. A zero field means its default.
type Config struct {
	// Incarnation is that of the source's process: its stream numbers exceed those of earlier ones.
	Incarnation uint64
	// Message is the decoded size in bytes at which a message is full. Larger ones mean fewer, but
	// longer calls.
	Message int
	// Span is the size in bytes of the ranges that are compared. Smaller ones find differences more
	// precisely.
	Span int
	// Reads is the maximum number of records read by one scan, including skipped ones, so that it
	// yields the disk now and then.
	Reads int
	// MaxLog is the maximum size of the entries in memory, in bytes. A follower that lags more is
	// synced again.
	MaxLog int
	// SyncPause is the delay between two steps of range sync, which leaves disk and network to the
	// crawl.
	SyncPause time.Duration
	// Pace is the minimum interval between two messages of entries to one follower, unless a message
	// is full or Hurry is set. Each costs the follower a disk sync and both ends some wake-ups, which
	// waiting entries share.
	Pace time.Duration
	// Retry is the delay after a failed call.
	Retry time.Duration
}

func (c *Config) fill() {
	c.Message = cmp.Or(c.Message, 1<<20)
	c.Span = cmp.Or(c.Span, 32<<10)
	c.Reads = cmp.Or(c.Reads, 16<<10)
	c.MaxLog = cmp.Or(c.MaxLog, 64<<20)
	c.SyncPause = cmp.Or(c.SyncPause, 10*time.Millisecond)
	c.Pace = cmp.Or(c.Pace, 200*time.Millisecond)
	c.Retry = cmp.Or(c.Retry, 200*time.Millisecond)
}

// Source is the sending side: it tracks the state of its followers and what to send next. It is not
// safe for concurrent use.
//
// Drive it so: Append each batch once it is visible in the store; Follow when the set of followers
// changes; after each of these, after an answer, and at the time that Next returned, call Next and
// perform its calls and scans.
type Source struct {
	cfg       Config
	streams   uint64
	calls     uint64
	log       []entry // consecutive, oldest first
	logSize   int
	seq       uint64 // of the last entry
	hurry     bool   // entries are sent without delay
	followers []*follower
	packed    packedEntries
}

// packedEntries caches the last packed entries: followers at the same position get the same bytes.
type packedEntries struct {
	acked, seq uint64 // the positions of follower and log
	sending    uint64
	bytes      []byte
}

type entry struct {
	seq  uint64
	size int
	ops  []Op
}

// follower is the state of one follower. It has at most one call or scan in flight.
type follower struct {
	name    string
	current bool // in the present set; else it must drop its copy
	stream  uint64
	forgets bool   // the message in flight makes it drop its copy
	n       uint64 // messages sent on the stream
	acked   uint64 // entries up to it are on its disk, for keys before the cursor
	level   bool
	was     bool   // it was level, its stream broke, and it is not replaced yet
	had     uint64 // acked then
	message []byte // in flight
	resend  bool   // message was not answered
	cursor  []byte // keys before it are synced up to acked; all of them once level
	busy    uint64 // the call or scan in flight; 0: none
	sending uint64 // acked after the message in flight
	split   int    // ops of the entry after acked already sent
	rest    []Op   // records of differing spans still to send
	ahead   []byte // the cursor once rest is sent; nil: the end
	atEnd   bool
	walked  bool      // all records were compared
	reach   uint64    // the last entry then
	spans   []scanned // being compared
	again   time.Time
	pace    time.Time // earliest time of the next message of entries, unless full
}

// NewSource returns a source without followers.
func NewSource(cfg Config) *Source {
	cfg.fill()
	return &Source{cfg: cfg, streams: cfg.Incarnation << 24}
}

func (s *Source) find(name string) *follower {
	for _, f := range s.followers {
		if f.name == name {
			return f
		}
	}
	return nil
}

// under returns the follower with that call or scan in flight.
func (s *Source) under(id uint64) *follower {
	for _, f := range s.followers {
		if f.busy == id {
			return f
		}
	}
	return nil
}

// Append adds a batch that was applied to the store and returns its number. It keeps the keys and
// values: they must not change.
func (s *Source) Append(ops []Op) uint64 {
	s.seq++
	if len(s.followers) == 0 {
		return s.seq
	}
	e := entry{seq: s.seq, ops: ops}
	for i := range ops {
		e.size += ops[i].size()
	}
	s.log = append(s.log, e)
	s.logSize += e.size
	s.trim()
	return s.seq
}

// Hurry sets whether entries are sent at once, without waiting to share a message: while a caller
// waits for one after another.
func (s *Source) Hurry(on bool) { s.hurry = on }

// Seq returns the number of the last entry.
func (s *Source) Seq() uint64 { return s.seq }

// Durable returns the number up to which every follower of the present set that is or was level has
// the entries on disk. A follower with a broken stream, unreachable or restarted, counts until it
// is level again or replaced.
func (s *Source) Durable() uint64 {
	least := s.seq
	for _, f := range s.followers {
		switch {
		case !f.current:
		case f.level:
			least = min(least, f.acked)
		case f.was:
			least = min(least, f.had)
		}
	}
	return least
}

// Level returns the number of level followers of the present set, and its size.
func (s *Source) Level() (level, all int) {
	for _, f := range s.followers {
		if f.current {
			all++
			if f.level {
				level++
			}
		}
	}
	return level, all
}

// Follow sets the followers. Former ones are sent a request to drop their copy once all new ones
// are level; gone reports which of them are dead and need none.
func (s *Source) Follow(names []string, gone func(name string) bool) {
	for _, name := range names {
		f := s.find(name)
		switch {
		case f == nil:
			f = &follower{name: name}
			s.followers = append(s.followers, f)
			s.restart(f)
		case !f.current:
			s.renew(f)
		}
		f.current = true
	}
	s.followers = slices.DeleteFunc(s.followers, func(f *follower) bool {
		f.current = slices.Contains(names, f.name)
		return !f.current && gone(f.name)
	})
	s.trim()
}

// renew begins a new stream when the call in flight has returned.
func (s *Source) renew(f *follower) {
	if f.busy == 0 {
		s.restart(f)
		return
	}
	f.stream = 0
	f.lapse()
}

// Lost begins a new stream to a follower that lost its copy.
func (s *Source) Lost(name string) {
	if f := s.find(name); f != nil && f.level {
		s.renew(f)
	}
}

// lapse marks a follower as not level, and records what it has. A follower that joins the set again
// is not waited for before it is level.
func (f *follower) lapse() {
	if f.level {
		f.was, f.had = true, f.acked
	}
	f.was, f.level = f.was && f.current, false
}

// restart begins a new stream.
func (s *Source) restart(f *follower) {
	f.lapse()
	s.streams++
	*f = follower{
		name: f.name, current: f.current, stream: s.streams, acked: s.seq, again: f.again, pace: f.pace, cursor: []byte{}, was: f.was, had: f.had,
	}
}

// trim drops entries that all followers have.
func (s *Source) trim() {
	least := s.seq
	for _, f := range s.followers {
		if f.current {
			least = min(least, f.acked)
		}
	}
	for len(s.log) > 0 && s.log[0].seq <= least {
		s.logSize -= s.log[0].size
		s.log[0] = entry{}
		s.log = s.log[1:]
	}
	if s.logSize <= s.cfg.MaxLog {
		return
	}
	for _, f := range s.followers {
		if f.current && f.acked < s.seq {
			s.renew(f)
		}
	}
	s.log, s.logSize = nil, 0
}

// Call is a message to send to a follower; pass its result to Result.
type Call struct {
	ID      uint64 // for Result
	To      string // ID of the follower
	Message []byte // encoded
}

// Next returns what to do now, and when to call it again if nothing happens before (zero: never).
func (s *Source) Next(now time.Time) (calls []Call, scans []Scan, again time.Time) {
	for _, f := range s.followers {
		switch {
		case f.busy != 0:
			continue
		case now.Before(f.again):
			again = earlier(again, f.again)
			continue
		case f.resend && f.current:
			s.calls++
			f.busy, f.resend = s.calls, false
			calls = append(calls, Call{f.busy, f.name, f.message})
			continue
		}
		m, scan, ok := s.next(now, f)
		if !ok {
			if s.paced(now, f) {
				again = earlier(again, f.pace)
			}
			continue
		}
		s.calls++
		f.busy = s.calls
		if scan != nil {
			scan.ID = f.busy
			scans = append(scans, *scan)
		} else {
			f.message = m.encode()
			calls = append(calls, Call{f.busy, f.name, f.message})
		}
	}
	return calls, scans, again
}

// paced reports whether entries must wait for others.
func (s *Source) paced(now time.Time, f *follower) bool {
	if !f.current || f.acked == s.seq || s.hurry || !now.Before(f.pace) {
		return false
	}
	if s.logSize < s.cfg.Message {
		return true // the common case; called for each entry
	}
	size := 0
	for i := len(s.log) - 1; i >= 0 && s.log[i].seq > f.acked && size < s.cfg.Message; i-- {
		size += s.log[i].size
	}
	return size < s.cfg.Message
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func (s *Source) next(now time.Time, f *follower) (*message, *Scan, bool) {
	if !f.current {
		if !s.allLevel() {
			return nil, nil, false
		}
		s.restart(f)
		f.forgets = true
		return s.message(f, &message{forget: true}), nil, true
	}
	switch {
	case len(f.rest) > 0:
		return s.message(f, s.records(f)), nil, true
	case f.acked < s.seq && !s.paced(now, f):
		f.pace = now.Add(s.cfg.Pace)
		return s.entries(f), nil, true
	case !f.walked:
		return nil, &Scan{Lo: f.cursor, Bytes: s.cfg.Message}, true
	default:
		return nil, nil, false
	}
}

func (s *Source) allLevel() bool {
	level, all := s.Level()
	return level == all
}

func (s *Source) message(f *follower, m *message) *message {
	f.n++
	m.stream, m.n = f.stream, f.n
	return m
}

// entries puts entries into a message, as many as fit, or a part of one that is too large.
func (s *Source) entries(f *follower) *message {
	if p := &s.packed; f.level && f.split == 0 && p.bytes != nil && p.acked == f.acked && p.seq == s.seq {
		f.sending = p.sending
		return s.message(f, &message{packed: p.bytes})
	}
	m := &message{}
	f.sending = f.acked
	size := 0
	first := len(s.log) - int(s.seq-f.acked) //nolint:gosec // the log reaches back to acked, see trim
	for _, e := range s.log[first:] {
		if size > 0 && size+e.size > s.cfg.Message {
			break
		}
		if e.size > s.cfg.Message {
			if len(m.ops) > 0 {
				break
			}
			s.part(f, &e, m)
			return s.message(f, m)
		}
		size += e.size
		m.ops = append(m.ops, f.concern(e.ops)...)
		f.sending = e.seq
	}
	m.ops = latest(m.ops)
	m.packed = pack(m.ops)
	if f.level {
		s.packed = packedEntries{acked: f.acked, seq: s.seq, sending: f.sending, bytes: m.packed}
	}
	return s.message(f, m)
}

// latest sorts changes by key and drops those that a later change of the same key overrides. A
// message is applied atomically, and records of a busy host are rewritten often. Sorted neighbors
// share prefixes, and are adjacent in the follower's memory table. Changes before the deletion of a
// range stay before it.
func latest(ops []Op) []Op {
	kept := make([]Op, 0, len(ops))
	for {
		n := slices.IndexFunc(ops, func(op Op) bool { return op.Kind == DeleteRange })
		if n < 0 {
			return appendOrdered(kept, ops)
		}
		kept = append(appendOrdered(kept, ops[:n]), ops[n])
		ops = ops[n+1:]
	}
}

// appendOrdered is latest for changes of single keys.
func appendOrdered(kept, ops []Op) []Op {
	order := make([]int32, len(ops))
	for i := range order {
		order[i] = int32(i) //nolint:gosec // as many as fit into a message
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(bytes.Compare(ops[a].Key, ops[b].Key), int(a-b))
	})
	for i, at := range order {
		if i+1 == len(order) || !bytes.Equal(ops[at].Key, ops[order[i+1]].Key) {
			kept = append(kept, ops[at])
		}
	}
	return kept
}

// part sends the next part of a large entry. The follower applies it after the last one.
func (s *Source) part(f *follower, e *entry, m *message) {
	size := 0
	from := f.split
	for f.split < len(e.ops) && (f.split == from || size < s.cfg.Message) {
		size += e.ops[f.split].size()
		f.split++
	}
	m.ops = f.concern(e.ops[from:f.split])
	if m.part = f.split < len(e.ops); !m.part {
		f.sending, f.split = e.seq, 0
	}
}

// concern returns the ops before the cursor: the other records are not synced yet.
func (f *follower) concern(ops []Op) []Op {
	if f.level {
		return ops
	}
	var out []Op
	for _, op := range ops {
		if op, ok := op.before(f.cursor); ok {
			out = append(out, op)
		}
	}
	return out
}

// Result takes the answer to a call, or its error.
func (s *Source) Result(now time.Time, id uint64, reply []byte, err error) {
	f := s.under(id)
	if f == nil {
		return
	}
	f.busy = 0
	if err != nil && f.stream != 0 && f.current {
		f.resend, f.again = true, now.Add(s.cfg.Retry) // the follower ignores the duplicate if only its answer was lost
		return
	}
	var a answer
	if err == nil {
		a, err = decodeAnswer(reply, len(f.spans))
	}
	f.message = nil
	switch {
	case f.stream == 0 || err != nil:
		s.broken(now, f)
	case f.forgets:
		s.followers = slices.DeleteFunc(s.followers, func(g *follower) bool { return f == g })
	case !f.current: // it was current when the message was sent
		s.trim()
	case a.lost:
		s.broken(now, f)
		f.again = now
	default:
		f.acked = f.sending
		s.compared(now, f, a.differ)
		s.trim()
	}
}

// broken begins a new stream after the retry delay.
func (s *Source) broken(now time.Time, f *follower) {
	s.restart(f)
	f.again = now.Add(s.cfg.Retry)
	s.trim()
}

// Followers returns the number of peers that keep copies, or must still drop theirs.
func (s *Source) Followers() int { return len(s.followers) }
