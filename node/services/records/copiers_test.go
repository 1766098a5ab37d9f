package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// wires carries requests between peers in one process, unless a test is in the way.
type wires struct {
	mu    sync.Mutex
	serve map[peer.ID]map[string]calls.Handler
	// going and coming are asked of each request and of each answer; an error, or a wait for ctx,
	// is what the caller sees.
	going, coming func(ctx context.Context, m crossing) error
	count         map[string]int
}

// crossing is a request on its way.
type crossing struct {
	from, to peer.ID
	service  string
	request  []byte
}

func newWires() *wires {
	return &wires{serve: make(map[peer.ID]map[string]calls.Handler), count: make(map[string]int)}
}

func (w *wires) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// calls counts the requests to a service.
func (w *wires) calls(service string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[service]
}

// at has a peer serve; without handlers it cannot be reached.
func (w *wires) at(id peer.ID, handlers map[string]calls.Handler) {
	w.set(func() { w.serve[id] = handlers })
}

// hold is an answer to going and coming: what it holds back has not come when its caller gives up.
func hold(ctx context.Context, _ crossing) error {
	<-ctx.Done()
	return ctx.Err()
}

// line is a peer's end of the wires.
type line struct {
	*wires
	self peer.ID
}

// Call implements caller.
func (l line) Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	l.mu.Lock()
	serve, going, coming := l.serve[to][service], l.going, l.coming
	l.count[service]++
	l.mu.Unlock()
	m := crossing{l.self, to, service, req}
	if going != nil {
		if err := going(ctx, m); err != nil {
			return nil, err
		}
	}
	if serve == nil {
		return nil, fmt.Errorf("call %s: %w", to, calls.ErrUnreachable)
	}
	reply, err := serve(ctx, l.self, req)
	if coming != nil {
		if err := coming(ctx, m); err != nil {
			return nil, err
		}
	}
	return reply, errors.Join(ctx.Err(), err)
}

// circle is a ring of which everybody believes the same, unless told otherwise.
type circle struct {
	mu      sync.Mutex
	members []peer.ID
}

func (c *circle) set(members ...peer.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = members
}

// seat is a peer's place in a circle.
type seat struct {
	circle *circle
	self   peer.ID

	own      []peer.ID // what this peer believes of the members, if not the same as the others
	joining  bool
	attached []dht.Peer
	hints    int
}

var (
	_ Place    = (*seat)(nil)
	_ rpc.Ring = (*seat)(nil)
)

func (s *seat) believe(members ...peer.ID) { s.set(func() { s.own = members }) }

func (s *seat) set(change func()) {
	s.circle.mu.Lock()
	defer s.circle.mu.Unlock()
	change()
}

// around are the members, clockwise from this peer's position on, without it; in says whether it is
// one.
func (s *seat) around() (others []dht.Peer, in bool) {
	s.circle.mu.Lock()
	defer s.circle.mu.Unlock()
	members := s.circle.members
	if s.own != nil {
		members = s.own
	}
	for _, id := range members {
		if id != s.self {
			others = append(others, dht.NewPeer(id, nil))
		}
	}
	here := ring.PeerKey([]byte(s.self))
	slices.SortFunc(others, func(a, b dht.Peer) int { return a.Key().Sub(here).Compare(b.Key().Sub(here)) })
	return others, slices.Contains(members, s.self)
}

func (s *seat) State() dht.State {
	_, in := s.around()
	s.circle.mu.Lock()
	defer s.circle.mu.Unlock()
	switch {
	case s.joining:
		return dht.Joining
	case in:
		return dht.Serving
	default:
		return dht.Leaving
	}
}

func (s *seat) Arc() (ring.Arc, bool) {
	others, _ := s.around()
	arc := ring.Arc{End: ring.PeerKey([]byte(s.self))}
	arc.Start = arc.End
	if len(others) > 0 {
		arc.Start = others[len(others)-1].Key()
	}
	return arc, s.State() == dht.Serving
}

func (s *seat) Serves(key ring.Key) bool {
	arc, ok := s.Arc()
	return ok && arc.Contains(key)
}

func (s *seat) Guess(key ring.Key) (dht.Peer, bool) {
	others, in := s.around()
	if in {
		others = append(others, dht.NewPeer(s.self, nil))
	}
	if len(others) == 0 {
		return dht.Peer{}, false
	}
	return slices.MinFunc(others, func(a, b dht.Peer) int { return a.Key().Sub(key).Compare(b.Key().Sub(key)) }), true
}

func (s *seat) Leaves() (preds, succs []dht.Peer) {
	succs, _ = s.around()
	preds = slices.Clone(succs)
	slices.Reverse(preds)
	return preds, succs
}

func (s *seat) Attachments() []dht.Peer { return s.attached }

func (s *seat) Hint(key ring.Key) *dhtwire.Hint {
	p, ok := s.Guess(key)
	if !ok {
		return nil
	}
	end := p.Key()
	return &dhtwire.Hint{Owner: &dhtwire.Peer{Id: []byte(p.ID)}, Start: make([]byte, ring.KeySize), End: end[:]}
}

func (s *seat) Learn(hints ...*dhtwire.Hint) { s.set(func() { s.hints += len(hints) }) }

func (s *seat) Lookup(_ context.Context, key ring.Key) (dht.Lookup, error) {
	p, _ := s.Guess(key)
	return dht.Lookup{Owner: p}, nil
}

func (s *seat) Unreachable(peer.ID) {}

// copier is a peer with a store of its own, which keeps copies of others and is copied.
type copier struct {
	id    peer.ID
	seat  *seat
	watch *Watch
	store *storage.Store
	ship  *Replication
	stop  func()
}

// newCopier starts a peer of a ring.
func newCopier(t *testing.T, net *wires, c *circle, id peer.ID, change ...func(*Replication)) *copier {
	t.Helper()
	p := &copier{id: id, seat: &seat{circle: c, self: id}, store: storagetest.New(t)}
	p.watch = NewWatch(p.seat, id)
	p.ship = replicationOf(id, line{net, id}, p.store, replica.Config{Incarnation: 1, Message: 1024, Span: 256}, quietLog)
	p.ship.watch(p.watch, 3)
	for _, change := range change {
		change(p.ship)
	}
	p.serve(net)
	p.stop = background(t, p.ship.Serve, p.ship.Run)
	return p
}

func (p *copier) serve(net *wires) {
	net.at(p.id, map[string]calls.Handler{ServiceReplica: p.ship.Handle})
}

// background runs parts until stop is called, or the test ends; none of them may fail.
func background(t *testing.T, parts ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			if err := part(ctx); err != nil {
				t.Errorf("a part ended: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// space is a keyspace of the peer that is shipped.
func (p *copier) space(prefix byte) Shipped {
	return p.ship.Space(prefix)
}

// set writes a record, and returns what tells that it is safe.
func (p *copier) set(t *testing.T, prefix byte, key, value string) <-chan error {
	t.Helper()
	wait, err := p.space(prefix).Update(func(b kv.Batch) { b.Set([]byte(key), []byte(value)) })
	if err != nil {
		t.Fatal(err)
	}
	safe := make(chan error, 1)
	go func() { safe <- wait() }()
	return safe
}

// own are the records of a peer that have replicas, as these are to have them.
func (p *copier) own(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, space := range replicated {
		keyspace := p.store.Keyspace(space.Prefix)
		if err := keyspace.Scan(space.Head, kv.PrefixEnd(space.Head), func(key, value []byte) bool {
			ok := true
			if space.record != nil {
				var err error
				if value, ok, err = space.record(key, value, keyspace.Get); err != nil {
					t.Error(err)
				}
			}
			if ok {
				all[string(space.Prefix)+string(key)] = string(value)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// copyOf is what a peer keeps of another.
func (p *copier) copyOf(t *testing.T, source peer.ID) map[string]string {
	t.Helper()
	all := make(map[string]string)
	if err := p.ship.copies.Scan(string(source), nil, nil, func(key, value []byte) bool {
		all[string(key)] = string(value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// ended says what came of a wait, once nothing happens any more by itself: still is true if it goes
// on.
func ended(safe <-chan error) (err error, still bool) { //nolint:revive // the error first reads better where it is used
	synctest.Wait()
	select {
	case err = <-safe:
		return err, false
	default:
		return nil, true
	}
}

// level fails the test unless so many replicas are there, and level, once there was time for it: in
// virtual time, as all these tests are.
func (p *copier) level(t *testing.T, want int) {
	t.Helper()
	time.Sleep(5 * time.Second)
	if level, all := p.ship.Level(); level != want || all != want {
		t.Fatalf("%d of %d replicas are level, want %d", level, all, want)
	}
}

// inBubble runs a test with peers a, b and c of one ring in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, net *wires, c *circle, peers []*copier)) {
	t.Helper()
	crawltest.Bubble(t, func(t *testing.T) {
		net, c := newWires(), &circle{}
		c.set("a", "b", "c")
		var peers []*copier
		for _, id := range []peer.ID{"a", "b", "c"} {
			peers = append(peers, newCopier(t, net, c, id))
		}
		for _, p := range peers {
			p.ship.Nudge()
			p.level(t, 2)
		}
		test(t, net, c, peers)
		for _, p := range peers {
			p.stop()
		}
	})
}
