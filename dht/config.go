package dht

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Config configures the ring. A zero field means its default.
type Config struct {
	// R is the number of leaf peers on each side; default 8. Each costs an occasional call and a few
	// addresses of memory.
	R int
	// Interval is the time between stabilize rounds while the neighborhood changes; default 1 s, with
	// a jitter of a fifth. A joining peer uses half of it.
	Interval time.Duration
	// MaxInterval is the limit to which Interval doubles while nothing changes; default 5 s. It bounds
	// the time to detect a silent failure of a neighbor, except the predecessor, which is probed every
	// 2 s.
	MaxInterval time.Duration
	// TakeOver is the delay before this peer serves the arc of a dead predecessor, counted from the
	// second unanswered call: one lease TTL, 8 s by default, so that a predecessor wrongly taken for
	// dead has stopped.
	TakeOver time.Duration
	// RejoinGrace is how long a restarted peer waits, from its first contact, for the predecessor that
	// it remembers; default 20 s. When a whole ring restarts, no peer then serves the arc of a peer
	// that is about to return.
	RejoinGrace time.Duration
	// Origin returns the network that a peer is connected from; peers of one origin share quotas. An
	// empty result means unknown, as in a private network. Nil: always unknown.
	Origin func(id peer.ID) string
	// Role is the initial role. A worker serves nothing until Observe has reported it as public for
	// Promote.
	Role Role
	// Promote is how long a worker must be observed as public before it joins the ring, default 15
	// min; Demote is how long a member must be observed as private before it becomes a worker, default
	// 1 min.
	Promote, Demote time.Duration
	// Admission decides which peers may be members; nil: all. The ring owns it: see Ring.Admission.
	Admission *admission.Book
	// Seed seeds jitter and random choices. Equal seeds and inputs give equal behavior.
	Seed uint64
	// Found lets a peer without known peers serve the whole circle: it founds a ring, or continues
	// alone.
	Found bool
	// Memory is the stored Snapshot of the last run; nil at the first start.
	Memory *Memory
	// Now is the clock; nil means time.Now. It must be monotonic and should include time asleep, or a
	// peer after sleep learns only from others that its arc was taken over. Its times are not compared
	// with other clocks.
	Now func() time.Time
}

const (
	// callTimeout is the timeout of a call.
	callTimeout = lookup.DefaultTimeout
	// suspectGap is the delay before a peer that did not answer is retried.
	suspectGap = 500 * time.Millisecond
	// deadFor is how long gossip about a dead peer is ignored.
	deadFor = time.Minute
	// maxArcs is the maximum number of cached arcs, of about 250 bytes each.
	maxArcs = 4096
	// maxCalls is the maximum number of calls in flight for ring maintenance.
	maxCalls = 64
)

// pause is the delay of a tick from which the peer assumes that it was suspended, and confirms its
// position before it serves again. The peer wakes twice in that time, so it detects a suspension
// after at most 1.5 times as long, before another peer may serve its arc.
func (c *Config) pause() time.Duration { return max(c.TakeOver/2, time.Second) }

// DefaultConfig returns the defaults that the fields document.
func DefaultConfig() Config {
	return Config{
		R: ring.DefaultR, Interval: time.Second, MaxInterval: 5 * time.Second,
		TakeOver: 8 * time.Second, RejoinGrace: 20 * time.Second, Promote: 15 * time.Minute, Demote: time.Minute,
	}
}

// Validate returns an error that names an invalid field.
func (c Config) Validate() error {
	switch {
	case c.R < 0 || c.R > maxR:
		return fmt.Errorf("leaf set R: %d, expected 1 to %d", c.R, maxR)
	case c.Interval < 0 || c.MaxInterval < 0 || c.MaxInterval > 0 && c.MaxInterval < c.Interval:
		return fmt.Errorf("MaxInterval %v is less than Interval %v", c.MaxInterval, c.Interval)
	case c.TakeOver < 0 || c.RejoinGrace < 0:
		return fmt.Errorf("TakeOver, RejoinGrace: negative duration")
	case c.Promote < 0 || c.Demote < 0:
		return fmt.Errorf("durations Promote and Demote: negative")
	}
	return nil
}

// maxR keeps both sides of a leaf set within the list limit of dht/wire.
const maxR = 32

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	orDefault(&c.R, d.R)
	orDefault(&c.Interval, d.Interval)
	orDefault(&c.MaxInterval, max(d.MaxInterval, c.Interval))
	orDefault(&c.TakeOver, d.TakeOver)
	orDefault(&c.RejoinGrace, d.RejoinGrace)
	orDefault(&c.Promote, d.Promote)
	orDefault(&c.Demote, d.Demote)
	if c.Admission == nil {
		c.Admission = admission.Open()
	}
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

// Transport sends one request to a peer and returns its answer.
//
// It may use the addresses in Peer to dial; it may block until ctx ends, not longer. An answer is a
// message that passed wire.Decode. A refusal is an answer, not an error. It is safe for concurrent
// use and does not retry.
type Transport interface {
	// Call blocks until there is an answer or an error.
	Call(ctx context.Context, to Peer, req *wire.Message) (*wire.Message, error)
}

// Table is the local part of a Membership, without network calls.
type Table interface {
	// Nearest returns up to n peers of the local table by XOR distance to key, nearest first.
	Nearest(key ring.Key, n int) []Peer
	// All returns every peer of the local table.
	All() []Peer
}

// Membership is the Kademlia routing table: the known ring beyond the leaf set. It never contains
// this peer itself, and may contain peers that are gone. It is safe for concurrent use; the caller
// owns the slices.
type Membership interface {
	Table
	// Closest asks the network for the peers nearest to key (GetClosestPeers): exact, but some thirty
	// messages. It blocks.
	Closest(ctx context.Context, key ring.Key) ([]Peer, error)
	// Add offers peers that have answered. It must not block on the network.
	Add(peers ...Peer)
}

// Handler answers the requests of other peers, as (*DHT).Handle does. A transport calls it for each
// request that passed wire.Decode, with the authenticated peer, and sends the answer; on an error
// it sends nothing.
type Handler func(ctx context.Context, from peer.ID, req *wire.Message) (*wire.Message, error)

// Peer identifies a peer and its addresses.
type Peer = member.Peer

// NewPeer returns a peer whose position is computed once.
func NewPeer(id peer.ID, addrs [][]byte) Peer { return member.New(id, addrs) }

// Role is the role of a peer, by whether others can dial it.
type Role = member.Role

const (
	// RoleMember peers can be dialed: they are ring members and own an arc.
	RoleMember = member.RoleMember
	// RoleWorker peers cannot: they own nothing, and work over connections that they opened.
	RoleWorker = member.RoleWorker
)
