package reports

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
)

const (
	// maxSpecs bounds the cached jobs; beyond it they are requested again.
	maxSpecs = 1024
	// specTimeout is the timeout of a request for a spec. Without one, links are unfiltered here;
	// their owners filter them.
	specTimeout = 2 * time.Second
	// askedAtOnce bounds the concurrent requests for specs.
	askedAtOnce = 32
)

// Job is a job that URLs were granted for.
type Job struct {
	// ID is the job's ID.
	ID job.ID
	// Spec is nil if it was not available.
	Spec *job.Spec
	// NotTaken reports whether nothing is to be fetched for it.
	NotTaken bool

	salt uint64 // separates the link hashes of jobs
}

// Specs looks up the specs of jobs. Spec may use the network; an error means that the spec is not
// available now, and job.ErrNotTaken that nothing is to be fetched for the job.
type Specs interface {
	Spec(ctx context.Context, id job.ID) (*job.Spec, error) // returns the spec of a job
}

// Jobs caches the specs of jobs. Safe for concurrent use.
type Jobs struct {
	specs Specs
	seed  maphash.Seed

	mu   sync.Mutex
	refs map[job.ID]*Job
}

// NewJobs returns an empty cache that requests missing specs.
func NewJobs(from Specs) *Jobs {
	return &Jobs{specs: from, seed: maphash.MakeSeed(), refs: make(map[job.ID]*Job)}
}

// All returns jobs. It requests missing specs concurrently, within the timeout of one, because
// leases are prolonged only afterwards.
func (j *Jobs) All(ctx context.Context, ids []job.ID) []*Job {
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	list := make([]*Job, len(ids))
	turns := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i, id := range ids {
		turns <- struct{}{}
		asking.Go(func() {
			list[i] = j.Get(ctx, id)
			<-turns
		})
	}
	asking.Wait()
	return list
}

// Get returns a job, requesting its spec if necessary.
func (j *Jobs) Get(ctx context.Context, id job.ID) *Job {
	j.mu.Lock()
	ref := j.refs[id]
	j.mu.Unlock()
	if ref != nil {
		return ref
	}
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	spec, err := j.specs.Spec(ctx, id)
	ref = &Job{ID: id, Spec: spec, salt: maphash.Bytes(j.seed, id[:])}
	if err != nil || spec == nil {
		ref.Spec, ref.NotTaken = nil, errors.Is(err, job.ErrNotTaken)
		return ref
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if other := j.refs[id]; other != nil {
		return other
	}
	if len(j.refs) >= maxSpecs {
		clear(j.refs)
	}
	j.refs[id] = ref
	return ref
}
