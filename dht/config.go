package dht

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
)

// Config holds the knobs of the ring. The zero value of a field means its default.
type Config struct {
	// R is the number of leaf peers on each side, 8 by default. Each costs a call now and then, and
	// memory of a few addresses.
	R int
	// Interval is the time between two rounds of stabilize while something changes, 1 s by default,
	// with a fifth of jitter. A joining peer runs twice as fast.
	Interval time.Duration
	// MaxInterval is what Interval grows to, by doubling, while nothing changes; 5 s by default. It
	// bounds how long the silent death of a neighbour (no connection that drops) goes unnoticed,
	// but for the predecessor's, which is asked every 2 s.
	MaxInterval time.Duration
	// CallTimeout bounds one call, 2 s by default.
	CallTimeout time.Duration
	// SuspectGap is the wait before a peer that did not answer is tried again, 500 ms by default.
	SuspectGap time.Duration
	// DeadFor is how long what others say of a dead peer is not believed, 60 s by default: gossip
	// outlives the dead.
	DeadFor time.Duration
	// TakeOver is how long the arc of a dead predecessor rests, from the second question that it
	// left unanswered, before this peer serves it: one lease TTL, 8 s by default, so that a peer
	// that only seemed dead has stopped.
	TakeOver time.Duration
	// RejoinGrace is how long a restarted peer waits, from its first contact, for the predecessor
	// it remembers; 20 s by default. So when a whole ring restarts in any order, nobody serves the
	// arc of a peer that is about to return.
	RejoinGrace time.Duration
	// Pause is the lateness from which the peer believes it was suspended and confirms its place
	// before it serves on. By default half of TakeOver, 4 s, and not less than a second, which a
	// busy machine may be late by. A peer wakes twice in that time, so one that was stopped notices
	// after 1.5 times Pause at most: before the first moment at which another may serve its arc.
	Pause time.Duration
	// Origin says where a peer is connected from: those of one origin share what there is a bound
	// of. Empty: that tells nothing, as in a network of one's own. Nil: it never does.
	Origin func(id peer.ID) string
	// Role to begin with. A worker serves nothing until it was told by Observe that it can be
	// dialled for Promote.
	Role Role
	// Promote is how long a worker must be seen as public before it joins the ring, 15 min by
	// default; Demote how long a member must be seen as private before it is to become a worker, 1
	// min by default.
	Promote, Demote time.Duration
	// LookupCalls bounds the calls of one lookup, 16 by default.
	LookupCalls int
	// ArcCache bounds the learnt arcs kept, 4096 by default (about 250 bytes each).
	ArcCache int
	// MaxCalls bounds the calls in flight that DHT makes for the ring's upkeep, 64 by default.
	MaxCalls int
	// Seed feeds jitter and choices at random. With equal seeds and inputs a Ring does the same.
	Seed uint64
	// Found lets a peer that knows of no other serve the whole circle: it founds a ring, or is told
	// to go on alone.
	Found bool
	// Memory is what Snapshot kept of the last run; nil at a first start.
	Memory *Memory
	// Now is the clock by which DHT tells its Ring the time; nil: time.Now. It must not go back and
	// should count the time during which the machine sleeps, or a peer that slept learns only from
	// others that its arc was taken over. Its times must compare with each other, and need not with
	// those of other clocks.
	Now func() time.Time
}

// leastPause is the shortest Pause taken by default.
const leastPause = time.Second

// DefaultConfig returns the defaults that the fields name.
func DefaultConfig() Config {
	return Config{
		R: ring.DefaultR, Interval: time.Second, MaxInterval: 5 * time.Second, CallTimeout: lookup.DefaultTimeout,
		SuspectGap: 500 * time.Millisecond, DeadFor: time.Minute, TakeOver: 8 * time.Second, RejoinGrace: 20 * time.Second,
		Pause: 4 * time.Second, Promote: 15 * time.Minute, Demote: time.Minute, LookupCalls: lookup.DefaultCalls, ArcCache: 4096, MaxCalls: 64,
	}
}

// Validate says which field makes no sense.
func (c Config) Validate() error {
	switch {
	case c.R < 0 || c.R > maxR:
		return fmt.Errorf("leaf set R: %d, want 1 to %d", c.R, maxR)
	case c.Interval < 0 || c.MaxInterval < 0 || c.MaxInterval > 0 && c.MaxInterval < c.Interval:
		return fmt.Errorf("MaxInterval: %v is shorter than Interval %v", c.MaxInterval, c.Interval)
	case c.CallTimeout < 0 || c.SuspectGap < 0 || c.DeadFor < 0 || c.TakeOver < 0 || c.RejoinGrace < 0 || c.Pause < 0:
		return fmt.Errorf("CallTimeout, SuspectGap, DeadFor, TakeOver, RejoinGrace, Pause: negative duration")
	case c.Promote < 0 || c.Demote < 0:
		return fmt.Errorf("durations Promote and Demote: negative")
	case c.LookupCalls < 0 || c.ArcCache < 0 || c.MaxCalls < 0:
		return fmt.Errorf("LookupCalls, ArcCache, MaxCalls: negative number")
	}
	return nil
}

// maxR keeps both sides of a leaf set within a wire list.
const maxR = 32

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	orDefault(&c.R, d.R)
	orDefault(&c.Interval, d.Interval)
	orDefault(&c.MaxInterval, max(d.MaxInterval, c.Interval))
	orDefault(&c.CallTimeout, d.CallTimeout)
	orDefault(&c.SuspectGap, d.SuspectGap)
	orDefault(&c.DeadFor, d.DeadFor)
	orDefault(&c.TakeOver, d.TakeOver)
	orDefault(&c.RejoinGrace, d.RejoinGrace)
	orDefault(&c.Pause, max(c.TakeOver/2, leastPause))
	orDefault(&c.Promote, d.Promote)
	orDefault(&c.Demote, d.Demote)
	orDefault(&c.LookupCalls, d.LookupCalls)
	orDefault(&c.ArcCache, d.ArcCache)
	orDefault(&c.MaxCalls, d.MaxCalls)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
