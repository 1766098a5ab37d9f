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
	// maxSpecs bounds the jobs remembered; beyond it they are asked for anew.
	maxSpecs = 1024
	// specTimeout bounds asking for a spec. Without it links go unfiltered, which the owners make
	// good.
	specTimeout = 2 * time.Second
	// askedAtOnce bounds the specs that are asked for at a time.
	askedAtOnce = 32
)

// Job is a job that URLs are held of.
type Job struct {
	// ID names it.
	ID job.ID
	// Spec is nil if it was not to be had.
	Spec *job.Spec
	// NotTaken says that nothing is to be fetched for it.
	NotTaken bool

	salt uint64 // tells the link hashes of jobs apart
}

// Specs knows the specs of jobs. Spec may ask the network; an error means that it is not to be had
// now, and job.ErrNotTaken that nothing is to be fetched for it.
type Specs interface {
	Spec(ctx context.Context, id job.ID) (*job.Spec, error) // returns the spec of a job
}

// Jobs remembers the jobs met. Safe for concurrent use.
type Jobs struct {
	specs Specs
	seed  maphash.Seed

	mu   sync.Mutex
	refs map[job.ID]*Job
}

// NewJobs returns a memory of jobs that asks for those it does not have.
func NewJobs(from Specs) *Jobs {
	return &Jobs{specs: from, seed: maphash.MakeSeed(), refs: make(map[job.ID]*Job)}
}

// All returns jobs, asking for those that are not at hand at once, in the time that one may take:
// leases are prolonged only behind that.
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

// Get returns a job, asking for its spec if need be.
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
