package dht

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// maxRelays is the maximum number of concurrent pings on behalf of other peers.
const maxRelays = 8

// toldAtOnce is the maximum number of events delivered before calls are made again.
const toldAtOnce = 64

// maxEntries is the maximum number of entry peers asked by one Join.
const maxEntries = 32

// DHT is one peer of the ring over a real transport. All methods are safe for concurrent use.
type DHT struct {
	cfg       Config
	transport Transport
	members   Membership
	log       *slog.Logger
	relays    chan struct{} // a token for each ping on behalf of another peer
	wake      chan struct{} // Run has something to process

	mu          sync.Mutex // guards the fields below; never held during network I/O
	ring        *Ring
	subscribers []func(Event)
	events      []Event // not yet delivered
	calls       []Call  // not yet sent
}

// New returns a DHT that does nothing before Run. Self must carry its advertised addresses; a zero
// incarnation is replaced by the one after that of Config.Memory.
func New(cfg Config, self Peer, transport Transport, members Membership, log *slog.Logger) (*DHT, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("dht config: %w", err)
	}
	if self.ID == "" {
		return nil, errors.New("dht: self has no ID")
	}
	return &DHT{
		cfg: cfg.withDefaults(), transport: transport, members: members, log: log, ring: NewRing(cfg, self, members),
		relays: make(chan struct{}, maxRelays), wake: make(chan struct{}, 1),
	}, nil
}

// Subscribe registers hear, which Run calls for each event, in order: it must not block or wait for
// Run. Call Subscribe before Run.
func (d *DHT) Subscribe(hear func(Event)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, hear)
}

// Run keeps this peer's place in the ring until ctx ends, and returns ctx's error. It sends no
// goodbyes: see Leave.
func (d *DHT) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()

	slots := make(chan struct{}, maxCalls)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			d.do(func(r *Ring, now time.Time) { r.Tick(now) })
		case <-d.wake:
		}
		for n := 0; n < toldAtOnce && d.deliverNext(); n++ {
		}
		for {
			call, ok := d.nextCall(slots)
			if !ok {
				break
			}
			calls.Go(func() {
				answer, err := d.call(ctx, call.To, call.Request, call.Timeout)
				<-slots
				d.do(func(r *Ring, now time.Time) { r.Result(now, call.ID, answer, err) })
			})
		}
		timer.Reset(d.untilTick())
	}
}

// do passes one input to the ring and wakes Run for the results.
func (d *DHT) do(input func(r *Ring, now time.Time)) {
	d.mu.Lock()
	input(d.ring, d.cfg.Now())
	d.collect()
	d.mu.Unlock()
}

// collect queues the ring's calls and events for Run. The caller holds mu.
func (d *DHT) collect() {
	ready := d.ring.Ready()
	d.events = append(d.events, ready.Events...)
	d.calls = append(d.calls, ready.Calls...)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// look returns the ring at the present time: if the process was suspended, the ring stops serving
// before it is queried. The caller holds mu.
func (d *DHT) look() *Ring {
	if d.ring.Notice(d.cfg.Now()) {
		d.collect()
	}
	return d.ring
}

// read queries state that does not depend on the time; readNow advances the ring's clock first.
func read[T any](d *DHT, ask func(*Ring) T) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ask(d.ring)
}

func readNow[T any](d *DHT, ask func(*Ring) T) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ask(d.look())
}

// deliverNext delivers one event to the subscribers; false if there is none.
func (d *DHT) deliverNext() bool {
	d.mu.Lock()
	if len(d.events) == 0 {
		d.mu.Unlock()
		return false
	}
	e, hear := d.events[0], d.subscribers
	d.events = d.events[1:]
	d.mu.Unlock()
	d.logEvent(e)
	for _, fn := range hear {
		fn(e)
	}
	return true
}

func (d *DHT) logEvent(e Event) {
	switch e := e.(type) {
	case PeerUp:
		d.members.Add(e.Peer)
	case PeerDead:
		d.log.Info("neighbor is dead", "peer", e.Peer)
	case PeerSuspect:
		d.log.Debug("neighbor does not answer", "peer", e.Peer)
	case StateChanged:
		d.log.Info("ring state changed", "old", e.Old, "new", e.New)
	case CutOff:
		d.log.Info("peer is not reachable from outside")
	case AttachedChanged:
		d.log.Debug("attached workers or ring peers changed")
	case ArcChanged:
		d.log.Debug("served arc changed", "arc", e.New, "serves", e.Has)
	}
}

// nextCall takes a call and a slot for it; false if either is missing. The call's result wakes Run
// again.
func (d *DHT) nextCall(slots chan struct{}) (Call, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) == 0 {
		return Call{}, false
	}
	select {
	case slots <- struct{}{}:
	default:
		return Call{}, false
	}
	call := d.calls[0]
	d.calls = d.calls[1:]
	return call, true
}

// untilTick returns the time until Run must act: zero if an event is pending.
func (d *DHT) untilTick() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.events) > 0 {
		return 0
	}
	return max(0, d.ring.Next().Sub(d.cfg.Now()))
}

func (d *DHT) call(ctx context.Context, to Peer, req *wire.Message, timeout time.Duration) (*wire.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.transport.Call(ctx, to, req)
}

// Handle answers a request of another peer; it is the Handler of the transport. It blocks only for
// a ping on behalf of the sender. The error is ctx's.
func (d *DHT) Handle(ctx context.Context, from peer.ID, req *wire.Message) (*wire.Message, error) {
	if target := req.GetPingRequest().GetTarget(); len(target) > 0 {
		return d.relay(ctx, peer.ID(target))
	}
	var answer *wire.Message
	d.do(func(r *Ring, now time.Time) { answer = r.Handle(now, from, req) })
	return answer, nil
}

// relay pings a neighbor for a peer that cannot reach it.
func (d *DHT) relay(ctx context.Context, target peer.ID) (*wire.Message, error) {
	d.mu.Lock()
	to, ok := d.ring.Relay(target)
	d.mu.Unlock()
	if !ok {
		return refusal(wire.Reason_REASON_INVALID, "not a neighbor of this peer"), nil
	}
	select {
	case d.relays <- struct{}{}:
		defer func() { <-d.relays }()
	default:
		return refusal(wire.Reason_REASON_BUSY, "too many relayed pings"), nil
	}
	_, err := d.call(ctx, to, pingRequest(""), callTimeout/2)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return pingResponse(err == nil), nil
}

// Disconnected reports that the last connection to a peer dropped; a neighbor is probed at once.
func (d *DHT) Disconnected(id peer.ID) {
	d.do(func(r *Ring, now time.Time) { r.Disconnected(now, id) })
}

// Unreachable reports that a peer did not answer another protocol: it is not guessed as an owner
// for a while.
func (d *DHT) Unreachable(id peer.ID) {
	d.do(func(r *Ring, now time.Time) { r.Unreachable(now, id) })
}

// Join asks entry peers for live peers and joins the ring through them. It returns when all entries
// have answered or failed, long before the peer serves (see StateChanged). If all failed, the error
// lists each with its cause; Run retries the entries anyway.
func (d *DHT) Join(ctx context.Context, entries []Peer) error {
	entries = entries[:min(len(entries), maxEntries)]
	found := make([][]Peer, len(entries))
	errs := make([]error, len(entries))
	ids, charters := make([]peer.ID, len(entries)), make([]*wire.Admission, len(entries))
	var asking sync.WaitGroup
	for i, entry := range entries {
		ids[i] = entry.ID
		asking.Go(func() {
			answer, err := d.call(ctx, entry, entryRequest(), callTimeout)
			switch {
			case err != nil:
				errs[i] = fmt.Errorf("entry %s: %w", entry, err)
			case answer.GetEntryResponse() == nil:
				errs[i] = fmt.Errorf("entry %s: refused: %s", entry, answer.GetRefusal().GetText())
			default:
				charters[i] = answer.GetEntryResponse().GetAdmission()
				found[i] = member.List(answer.GetEntryResponse().GetPeers())
				d.members.Add(entry)
			}
		})
	}
	asking.Wait()
	answered := len(entries) == 0
	var ways, named []Peer
	d.do(func(r *Ring, now time.Time) {
		for i, err := range r.book.Agree(ids, charters) {
			if errs[i] = cmp.Or(errs[i], err); err == nil {
				ways, named = append(ways, entries[i]), append(named, found[i]...)
			}
			answered = answered || errs[i] == nil
		}
		r.Join(now, append(ways, named...)...)
	})
	if answered {
		return nil
	}
	return fmt.Errorf("join: %w", errors.Join(errs...))
}

// Leave stops serving and sends goodbyes to the neighbors. Hand over the arc's data first. Run
// continues, so requests for the old arc still get hints. The error is ctx's: a neighbor that gets
// no goodbye detects the departure.
func (d *DHT) Leave(ctx context.Context) error {
	var calls []Call
	d.do(func(r *Ring, now time.Time) { calls = r.Leave(now) })
	d.farewell(ctx, calls)
	return ctx.Err()
}

// farewell makes the calls and waits for them.
func (d *DHT) farewell(ctx context.Context, calls []Call) {
	var telling sync.WaitGroup
	for _, call := range calls {
		telling.Go(func() {
			if _, err := d.call(ctx, call.To, call.Request, call.Timeout); err != nil {
				d.log.Debug("goodbye to neighbor failed", "peer", call.To, "err", err)
			}
		})
	}
	telling.Wait()
}

// Admission passes charter and certificates to an input, and applies its changes. It must not keep
// the book.
func (d *DHT) Admission(input func(b *admission.Book, now time.Time)) {
	d.do(func(r *Ring, now time.Time) { r.Admission(now, func(b *admission.Book) { input(b, now) }) })
}

// Observe reports whether other peers can dial this one; see workers.Reach. Without it the role
// stays Config.Role.
func (d *DHT) Observe(seen workers.Reachability) {
	d.do(func(r *Ring, now time.Time) { r.Observe(now, seen) })
}

// Hold keeps a peer that does not serve yet from serving, or releases it: a member of its ring runs
// an incompatible version.
func (d *DHT) Hold(held bool) {
	d.do(func(r *Ring, now time.Time) { r.Hold(now, held) })
}

// StepDown turns a ring peer into a worker after CutOff: it stops serving, sends goodbyes to its
// neighbors and attaches itself to some of them. Hand over the arc's data first. It does nothing if
// the peer is a worker or leaving. The error is ctx's.
func (d *DHT) StepDown(ctx context.Context) error {
	var calls []Call
	d.do(func(r *Ring, now time.Time) { calls = r.StepDown(now) })
	d.farewell(ctx, calls)
	return ctx.Err()
}

// Attached returns the workers attached to this peer, by position: at most workers.MaxAttached.
// They cannot be dialed; calls to them use the connection that they opened. The caller owns the
// slice.
func (d *DHT) Attached() []Peer { return read(d, (*Ring).Attached) }

// Candidates returns up to workers.AttachedUsed attached workers, chosen by key so that each gets
// its share of hosts.
func (d *DHT) Candidates(key ring.Key) []Peer {
	return read(d, func(r *Ring) []Peer { return r.Candidates(key) })
}

// Attachments returns the ring peers that this worker is attached to, nearest first:
// workers.AttachTo normally, none for a ring peer.
func (d *DHT) Attachments() []Peer { return read(d, (*Ring).Attachments) }

// Guess returns the likely owner of key without network calls: from our own arc, the leaf set, or
// cached arcs. See Ring.Guess.
func (d *DHT) Guess(key ring.Key) (Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look().Guess(key)
}

// Hint returns the best known owner of key and its arc, for a peer that sent us a request for key;
// nil if none is known.
func (d *DHT) Hint(key ring.Key) *wire.Hint {
	return readNow(d, func(r *Ring) *wire.Hint { return r.Hint(key) })
}

// Learn takes hints that passed Validate.
func (d *DHT) Learn(hints ...*wire.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring.Learn(hints...)
}

// Self returns this peer, with its incarnation.
func (d *DHT) Self() Peer { return read(d, (*Ring).Self) }

// SetAddrs replaces the addresses that this peer advertises.
func (d *DHT) SetAddrs(addrs [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring.SetAddrs(addrs)
}

// State returns the state of this peer in the ring. State, Arc, Serves, Guess and Hint advance the
// ring's clock first: after a suspension they never return stale answers.
func (d *DHT) State() State { return readNow(d, (*Ring).State) }

// Arc returns the arc served now; false if there is none.
func (d *DHT) Arc() (ring.Arc, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look().Arc()
}

// Serves reports whether this peer serves key now.
func (d *DHT) Serves(key ring.Key) bool {
	return readNow(d, func(r *Ring) bool { return r.Serves(key) })
}

// Leaves returns the leaf peers, nearest first; the caller owns the slices. In a small ring a peer
// is on both sides.
func (d *DHT) Leaves() (preds, succs []Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.Leaves()
}

// Members returns the known ring peers, clockwise from this one, without it: all in a small ring, a
// part of a large one.
func (d *DHT) Members() []Peer { return read(d, (*Ring).Members) }

// Size returns the number of peers in the ring, including this one: exact in a small ring, an
// estimate in a large one.
func (d *DHT) Size() int { return read(d, (*Ring).Size) }

// Leaf reports whether a peer is in the leaf set, and whether it has answered a call of ours.
func (d *DHT) Leaf(id peer.ID) (is, proven bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.Leaf(id)
}

// Served reports whether a peer was seen to serve a key, as a neighbor in the last hour.
func (d *DHT) Served(id peer.ID, key ring.Key) bool {
	return read(d, func(r *Ring) bool { return r.Served(d.cfg.Now(), id, key) })
}

// Suspect reports whether a leaf peer has failed to answer since its last message.
func (d *DHT) Suspect(id peer.ID) bool {
	return read(d, func(r *Ring) bool { return r.Suspect(id) })
}

// Stable reports whether the neighborhood has not changed for two rounds.
func (d *DHT) Stable() bool { return read(d, (*Ring).Stable) }

// Snapshot returns the state to store for the next run, for ParseMemory. Store it before Run, and
// after each StateChanged, ArcChanged and LeavesChanged.
func (d *DHT) Snapshot() ([]byte, error) {
	return read(d, (*Ring).Snapshot).Bytes()
}

// ErrNoOwner reports a lookup that found no owner of the key within its limit of calls.
var ErrNoOwner = lookup.ErrNoOwner

// Lookup is the result of a lookup.
type Lookup = lookup.Found

// Lookup finds the owner of key. It needs no call if this peer is the owner, one if the owner is
// known or guessed, two or three in a large ring. If its own search fails it asks
// Membership.Closest once, and continues. The error wraps ErrNoOwner or ctx's; the trace is always
// filled in.
func (d *DHT) Lookup(ctx context.Context, key ring.Key) (Lookup, error) {
	search := readNow(d, func(r *Ring) *lookup.Search { return r.Search(key) })
	search.Admit(func(_ time.Time, from peer.ID, answer *wire.NextHopResponse) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.ring.Admits(d.cfg.Now(), from, answer)
	})
	lookup.Drive(ctx, d.transport.Call, search, callTimeout)
	found, err := search.Found()
	if err != nil && ctx.Err() == nil {
		near, nearErr := d.members.Closest(ctx, key)
		search.Add(near...)
		lookup.Drive(ctx, d.transport.Call, search, callTimeout)
		if found, err = search.Found(); err != nil && nearErr != nil {
			err = fmt.Errorf("%w; closest peers: %w", err, nearErr)
		}
	}
	if ctx.Err() != nil {
		return found, fmt.Errorf("look up %s: %w", key, ctx.Err())
	}
	d.do(func(r *Ring, now time.Time) {
		for _, hop := range found.Trace {
			if hop.Err != nil {
				r.Unreachable(now, hop.Peer.ID)
			}
		}
		if err == nil {
			r.Found(found)
		}
	})
	return found, err
}

// after returns the key after k: its owner is the successor of a peer at k.
func after(k ring.Key) ring.Key { return k.Add(ring.Key{ring.KeySize - 1: 1}) }
