package dht

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// maxRelays bounds the pings made at one time on behalf of other peers.
const maxRelays = 8

// toldAtOnce bounds the events that are told before calls are made again.
const toldAtOnce = 64

// maxEntries bounds the entry peers asked by one Join.
const maxEntries = 32

// DHT is one peer of the ring over a real transport. All methods are safe for concurrent use.
type DHT struct {
	cfg       Config
	transport Transport
	members   Membership
	log       *slog.Logger
	relays    chan struct{} // a token for each ping on behalf of another peer
	wake      chan struct{} // something happened that Run should look at

	mu     sync.Mutex // guards what follows; never held over the network
	ring   *Ring
	hear   []func(Event)
	events []Event // not yet told
	calls  []Call  // not yet sent
}

// New returns a DHT that does nothing before Run. Self must carry the addresses under which others
// reach it; when its incarnation is zero it follows the one in Config.Memory.
func New(cfg Config, self Peer, transport Transport, members Membership, log *slog.Logger) (*DHT, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("dht config: %w", err)
	}
	if self.ID == "" {
		return nil, errors.New("dht: this peer has no ID")
	}
	return &DHT{
		cfg: cfg.withDefaults(), transport: transport, members: members, log: log, ring: NewRing(cfg, self, members),
		relays: make(chan struct{}, maxRelays), wake: make(chan struct{}, 1),
	}, nil
}

// Subscribe calls hear for each event, in order, from the goroutine of Run: it must not block, nor
// wait for Run. Subscribe before Run.
func (d *DHT) Subscribe(hear func(Event)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hear = append(d.hear, hear)
}

// Run keeps this peer's place in the ring until ctx ends, and returns ctx's error. It does not say
// goodbye: see Leave.
func (d *DHT) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()

	slots := make(chan struct{}, d.cfg.MaxCalls)
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
		for n := 0; n < toldAtOnce && d.tellNext(); n++ {
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

// do gives the ring one input and lets Run look at what came of it.
func (d *DHT) do(input func(r *Ring, now time.Time)) {
	d.mu.Lock()
	input(d.ring, d.cfg.Now())
	d.collect()
	d.mu.Unlock()
}

// collect keeps for Run what the ring wants done. The caller holds mu.
func (d *DHT) collect() {
	ready := d.ring.Ready()
	d.events = append(d.events, ready.Events...)
	d.calls = append(d.calls, ready.Calls...)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// look returns the ring as it is at this moment and not at its last tick: when the process was
// stopped meanwhile the ring stops serving before it is asked anything. The caller holds mu.
func (d *DHT) look() *Ring {
	if d.ring.Notice(d.cfg.Now()) {
		d.collect()
	}
	return d.ring
}

// read asks the ring for what does not depend on the moment, readNow looks at the clock before it
// asks.
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

// tellNext tells the subscribers of one event; false when there is none.
func (d *DHT) tellNext() bool {
	d.mu.Lock()
	if len(d.events) == 0 {
		d.mu.Unlock()
		return false
	}
	e, hear := d.events[0], d.hear
	d.events = d.events[1:]
	d.mu.Unlock()
	d.note(e)
	for _, fn := range hear {
		fn(e)
	}
	return true
}

func (d *DHT) note(e Event) {
	switch e := e.(type) {
	case PeerUp:
		d.members.Add(e.Peer)
	case PeerDead:
		d.log.Info("neighbour is dead", "peer", e.Peer)
	case PeerSuspect:
		d.log.Debug("neighbour does not answer", "peer", e.Peer)
	case StateChanged:
		d.log.Info("ring state changed", "old", e.Old, "new", e.New)
	case CutOff:
		d.log.Info("other peers cannot dial this one")
	case AttachedChanged:
		d.log.Debug("attached workers or ring peers changed")
	case ArcChanged:
		d.log.Debug("served arc changed", "arc", e.New, "serves", e.Has)
	}
}

// nextCall takes a call and a slot for it; false when there is none of either. A freed slot wakes
// Run by the call's result.
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

// untilTick is how long Run has time: none while there is something to tell.
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

// relay pings a neighbour for a peer that cannot reach it.
func (d *DHT) relay(ctx context.Context, target peer.ID) (*wire.Message, error) {
	d.mu.Lock()
	to, ok := d.ring.Relay(target)
	d.mu.Unlock()
	if !ok {
		return refusal(wire.Reason_REASON_INVALID, "not a neighbour of this peer"), nil
	}
	select {
	case d.relays <- struct{}{}:
		defer func() { <-d.relays }()
	default:
		return refusal(wire.Reason_REASON_BUSY, "too many pings for others"), nil
	}
	_, err := d.call(ctx, to, pingRequest(""), d.cfg.CallTimeout/2)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return pingResponse(err == nil), nil
}

// Disconnected tells that the last connection to a peer dropped; a neighbour is probed at once.
func (d *DHT) Disconnected(id peer.ID) {
	d.do(func(r *Ring, now time.Time) { r.Disconnected(now, id) })
}

// Unreachable tells that a peer did not answer requests of other protocols: it is not guessed as an
// owner for a while.
func (d *DHT) Unreachable(id peer.ID) {
	d.do(func(r *Ring, now time.Time) { r.Unreachable(now, id) })
}

// Join asks entry peers for live peers and joins the ring through them all. It returns once the
// entries answered or failed, long before the peer serves (see StateChanged). When none answered
// the error names each and what it said; the entries are kept and tried again by Run all the same.
func (d *DHT) Join(ctx context.Context, entries []Peer) error {
	entries = entries[:min(len(entries), maxEntries)]
	found := make([][]Peer, len(entries))
	errs := make([]error, len(entries))
	var asking sync.WaitGroup
	for i, entry := range entries {
		asking.Go(func() {
			answer, err := d.call(ctx, entry, entryRequest(d.Self()), d.cfg.CallTimeout)
			switch {
			case err != nil:
				errs[i] = fmt.Errorf("entry %s: %w", entry, err)
			case answer.GetEntryResponse() == nil:
				errs[i] = fmt.Errorf("entry %s: refused: %s", entry, answer.GetRefusal().GetText())
			default:
				found[i] = member.List(answer.GetEntryResponse().GetPeers())
				d.members.Add(entry)
			}
		})
	}
	asking.Wait()
	answered := len(entries) == 0
	ways := slices.Clone(entries)
	for i := range entries {
		answered = answered || errs[i] == nil
		ways = append(ways, found[i]...)
	}
	d.do(func(r *Ring, now time.Time) { r.Join(now, ways...) })
	if answered {
		return nil
	}
	return fmt.Errorf("join: %w", errors.Join(errs...))
}

// Leave stops serving and says goodbye to the neighbours. Hand over what is served before; Run goes
// on, so that requests for the old arc are still told where to go. The error is ctx's: a neighbour
// that cannot be told finds out by itself.
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
				d.log.Debug("neighbour was not told of leaving", "peer", call.To, "err", err)
			}
		})
	}
	telling.Wait()
}

// Observe tells whether other peers can dial this one; see workers.Reach. Without it the role stays
// as Config.Role says.
func (d *DHT) Observe(seen workers.Reachability) {
	d.do(func(r *Ring, now time.Time) { r.Observe(now, seen) })
}

// Hold keeps a peer that does not serve yet from serving, whatever others say, or ends that:
// somebody serves its ring who would not understand it.
func (d *DHT) Hold(held bool) {
	d.do(func(r *Ring, now time.Time) { r.Hold(now, held) })
}

// StepDown makes a worker of a ring peer that CutOff told to become one: it stops serving, says
// goodbye to its neighbours and attaches itself to some of them. Hand over what is served before.
// It does nothing to a peer that is a worker or leaving. The error is ctx's.
func (d *DHT) StepDown(ctx context.Context) error {
	var calls []Call
	d.do(func(r *Ring, now time.Time) { calls = r.StepDown(now) })
	d.farewell(ctx, calls)
	return ctx.Err()
}

// Attached returns the workers attached to this peer, by position: at most workers.MaxAttached.
// They cannot be dialled; a call to one must go over the connection that it holds. The slice is the
// caller's.
func (d *DHT) Attached() []Peer { return read(d, (*Ring).Attached) }

// Candidates returns up to workers.AttachedUsed of the attached workers, chosen by key so that each
// gets its share of hosts.
func (d *DHT) Candidates(key ring.Key) []Peer {
	return read(d, func(r *Ring) []Peer { return r.Candidates(key) })
}

// Attachments returns the ring peers that a worker is attached to, nearest first: workers.AttachTo
// when all is well, none for a ring peer.
func (d *DHT) Attachments() []Peer { return read(d, (*Ring).Attachments) }

// Guess names the believed owner of key without the network: our own arc, the leaf set, learnt
// arcs. See Ring.Guess.
func (d *DHT) Guess(key ring.Key) (Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look().Guess(key)
}

// Hint is what to answer a peer that asked us for a key of another: the best known owner and its
// arc, nil when there is none.
func (d *DHT) Hint(key ring.Key) *wire.Hint {
	return readNow(d, func(r *Ring) *wire.Hint { return r.Hint(key) })
}

// Learn takes hints that passed Validate.
func (d *DHT) Learn(hints ...*wire.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring.Learn(hints...)
}

// Self is this peer, with its incarnation.
func (d *DHT) Self() Peer { return read(d, (*Ring).Self) }

// SetAddrs replaces the addresses under which this peer tells others to reach it.
func (d *DHT) SetAddrs(addrs [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring.SetAddrs(addrs)
}

// State is where this peer stands in its life. State, Arc, Serves, Guess and Hint look at the clock
// before they answer: a peer that was stopped does not answer from before.
func (d *DHT) State() State { return readNow(d, (*Ring).State) }

// Arc is the arc served now; false while none is.
func (d *DHT) Arc() (ring.Arc, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look().Arc()
}

// Serves says whether this peer answers for key now.
func (d *DHT) Serves(key ring.Key) bool {
	return readNow(d, func(r *Ring) bool { return r.Serves(key) })
}

// Leaves returns the leaf peers, nearest first; the slices are the caller's. In a small ring a peer
// is on both sides.
func (d *DHT) Leaves() (preds, succs []Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.Leaves()
}

// LeafSet returns the leaf peers as this one sees them, in clockwise order from it; the slice is
// the caller's.
func (d *DHT) LeafSet() []Leaf { return read(d, (*Ring).LeafSet) }

// Members returns the peers known, in clockwise order from this one, without it: all in a small
// ring, a part of a large one.
func (d *DHT) Members() []Peer { return read(d, (*Ring).Members) }

// Size is the number of peers in the ring, this one included: exact in a small ring, an estimate in
// a large one.
func (d *DHT) Size() int { return read(d, (*Ring).Size) }

// Leaf says whether a peer is in the leaf set, and whether it has answered a call of ours.
func (d *DHT) Leaf(id peer.ID) (is, proven bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.Leaf(id)
}

// Suspect says whether a leaf peer has not answered since it last spoke.
func (d *DHT) Suspect(id peer.ID) bool {
	return read(d, func(r *Ring) bool { return r.Suspect(id) })
}

// Stable says whether the neighbourhood has been quiet for two rounds.
func (d *DHT) Stable() bool { return read(d, (*Ring).Stable) }

// Snapshot is what to store for the next run, as ParseMemory reads it: once before Run, and after
// each StateChanged, ArcChanged and LeavesChanged.
func (d *DHT) Snapshot() ([]byte, error) {
	return read(d, (*Ring).Snapshot).Bytes()
}
