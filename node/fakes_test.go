package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/urlsets"
)

var quietLog = slog.New(slog.DiscardHandler)

// newPeers draws names of peers.
func newPeers(t *testing.T, n int) []peer.ID {
	t.Helper()
	ids := make([]peer.ID, n)
	for i := range ids {
		key, err := p2p.GenerateIdentity(1, func([]peer.ID) int { return 0 })
		if err == nil {
			ids[i], err = p2p.IdentityPeer(key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// fakeRing is a ring in which somebody else says who owns what. Believed is what is guessed without asking, true is what a lookup finds.
type fakeRing struct {
	self peer.ID

	mu          sync.Mutex
	believed    func(ring.Key) peer.ID
	real        func(ring.Key) peer.ID
	lookups     int
	unreachable []peer.ID
	hints       int
}

var _ ringView = (*fakeRing)(nil)

func ownedBy(id peer.ID) func(ring.Key) peer.ID { return func(ring.Key) peer.ID { return id } }

func (r *fakeRing) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *fakeRing) Serves(key ring.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.real(key) == r.self
}

func (r *fakeRing) Guess(key ring.Key) (dht.Peer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.believed(key)
	return dht.Peer{ID: id}, id != ""
}

func (r *fakeRing) Hint(key ring.Key) *dhtwire.Hint {
	id := []byte(r.real(key))
	end := ring.PeerKey(id)
	return &dhtwire.Hint{Owner: &dhtwire.Peer{Id: id}, Start: make([]byte, ring.KeySize), End: end[:]}
}

// Learn believes from now on what is true.
func (r *fakeRing) Learn(hints ...*dhtwire.Hint) {
	r.set(func() {
		r.hints += len(hints)
		r.believed = r.real
	})
}

// Lookup finds what is true, and is remembered.
func (r *fakeRing) Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups++
	id := r.real(key)
	if id == "" {
		return dht.Lookup{}, errors.Join(dht.ErrNoOwner, ctx.Err())
	}
	r.believed = r.real
	return dht.Lookup{Owner: dht.Peer{ID: id}}, ctx.Err()
}

func (r *fakeRing) Unreachable(id peer.ID) {
	r.set(func() { r.unreachable = append(r.unreachable, id) })
}

// fakeNet carries calls to functions.
type fakeNet struct {
	mu    sync.Mutex
	serve map[peer.ID]func(ctx context.Context, service string, req []byte) ([]byte, error)
	calls []peer.ID
}

var _ caller = (*fakeNet)(nil)

func newFakeNet() *fakeNet {
	return &fakeNet{serve: make(map[peer.ID]func(context.Context, string, []byte) ([]byte, error))}
}

func (n *fakeNet) Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	n.mu.Lock()
	n.calls = append(n.calls, to)
	serve := n.serve[to]
	n.mu.Unlock()
	if serve == nil {
		return nil, fmt.Errorf("call %s: %w", to, p2p.ErrUnreachable)
	}
	return serve(ctx, service, req)
}

func (n *fakeNet) at(id peer.ID, serve func(ctx context.Context, service string, req []byte) ([]byte, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serve[id] = serve
}

func (n *fakeNet) called() []peer.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]peer.ID(nil), n.calls...)
}

// gatedStore is a store of an owner whose disk does what a test says.
type gatedStore struct {
	mu    sync.Mutex
	inner *crawltest.Store
	disk  func() error // called by each wait
}

func newGatedStore(disk func() error) *gatedStore {
	return &gatedStore{inner: crawltest.NewStore(), disk: disk}
}

func (s *gatedStore) Get(key []byte) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Get(key)
}

func (s *gatedStore) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Scan(lo, hi, fn)
}

func (s *gatedStore) Update(fn func(job.Batch)) (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.inner.Update(fn); err != nil {
		return nil, err
	}
	return s.disk, nil
}

// oneJob knows a single job.
type oneJob struct{ spec *job.Spec }

func (j oneJob) Job(id job.ID) (*job.Spec, job.State, bool) {
	return j.spec, job.StateRunning, id == j.spec.ID
}

func newSpec(t *testing.T, change func(*wire.JobSpec), seeds ...string) *job.Spec {
	t.Helper()
	id := job.NewID()
	m := &wire.JobSpec{Id: id[:], Scope: []string{"*.example"}, CreatedMs: 1, Poster: []byte("p")}
	for _, s := range seeds {
		m.Seeds = append(m.Seeds, []byte(s))
	}
	if change != nil {
		change(m)
	}
	spec, err := job.FromWire(m)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// newOwner returns an owner of everything that serves says, over a store.
func newOwner(t *testing.T, self peer.ID, store owner.Store, spec *job.Spec, serves mine, clock func() int64) *owner.Owner {
	t.Helper()
	sets := urlsets.New(dedup.Exact, 1<<20)
	o, err := owner.New(owner.DefaultConfig(string(self)), store, sets, oneJob{spec}, serves, unixMilli(clock()))
	if err != nil {
		t.Fatal(err)
	}
	sets.ReadFrom(o)
	return o
}

// slowRing looks owners up as slowly as its context allows.
type slowRing struct{ *fakeRing }

func (r slowRing) Lookup(ctx context.Context, _ ring.Key) (dht.Lookup, error) {
	<-ctx.Done()
	return dht.Lookup{}, ctx.Err()
}
