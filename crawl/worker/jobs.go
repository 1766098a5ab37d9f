package worker

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
)

const (
	// maxSpecs bounds the jobs remembered; beyond it they are asked for anew.
	maxSpecs = 1024
	// specTimeout bounds asking for a spec. Without it links go unfiltered, which the owners make good.
	specTimeout = 2 * time.Second
)

// jobRef is a job that URLs are held of.
type jobRef struct {
	id   job.ID
	spec *job.Spec // nil if it was not to be had
	salt uint64    // tells the link hashes of jobs apart
}

// specs remembers the jobs met.
type specs struct {
	jobs Jobs
	seed maphash.Seed

	mu   sync.Mutex
	refs map[job.ID]*jobRef
}

func newSpecs(jobs Jobs, seed maphash.Seed) *specs {
	return &specs{jobs: jobs, seed: seed, refs: make(map[job.ID]*jobRef)}
}

// get returns a job, asking for its spec if need be.
func (s *specs) get(ctx context.Context, id job.ID) *jobRef {
	s.mu.Lock()
	ref := s.refs[id]
	s.mu.Unlock()
	if ref != nil {
		return ref
	}
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	spec, err := s.jobs.Spec(ctx, id)
	ref = &jobRef{id: id, spec: spec, salt: maphash.Bytes(s.seed, id[:])}
	if err != nil || spec == nil {
		ref.spec = nil
		return ref
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.refs[id]; other != nil {
		return other
	}
	if len(s.refs) >= maxSpecs {
		clear(s.refs)
	}
	s.refs[id] = ref
	return ref
}
