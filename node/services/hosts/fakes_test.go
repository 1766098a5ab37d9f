package hosts

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/storage/kv"
)

var quiet = slog.New(slog.DiscardHandler)

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

func (s *gatedStore) Update(fn func(kv.Batch)) (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.inner.Update(fn); err != nil {
		return nil, err
	}
	return s.disk, nil
}

// newOwner returns an owner of everything that serves says, over a store.
func newOwner(t *testing.T, self peer.ID, store kv.Store, spec *job.Spec, serves mine, clock func() int64) *owner.Owner {
	t.Helper()
	var o *owner.Owner
	sets := dedup.NewSets(dedup.Exact, func(set owner.SetID, yield func(uint64) bool) error { return o.Hashes(set, yield) }, 1<<20)
	o, err := owner.New(owner.DefaultConfig(string(self)), store, sets, crawltest.OneJob{Spec: spec}, serves, time.UnixMilli(clock()))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
