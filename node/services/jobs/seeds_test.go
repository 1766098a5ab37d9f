package jobs

import (
	"context"
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/node/control"
)

// TestSeedsAreOnDisk: a job may have megabytes of seeds, which whoever works for it has no use for
// in memory; they are there when it is listed, or told to its next owner.
func TestSeedsAreOnDisk(t *testing.T) {
	const seeds = 100
	var urls []string
	for i := range seeds {
		urls = append(urls, fmt.Sprintf("http://%d.example/", i))
	}
	spec := crawltest.Job(t, nil, urls...)
	w := &jobWorld{present: newJobs(t, nil)}
	book := newBookOf(t, w)
	if _, err := book.post(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	inMemory := func(when string) {
		t.Helper()
		got, _, ok := book.Job(spec.ID)
		if !ok || len(got.Seeds) > 0 || !got.Seeded("7.example") || got.Seeded("other.example") || !got.InScope("7.example") {
			t.Errorf("%s: in memory is %v, with %d seeds", when, ok, len(got.Seeds))
		}
	}
	inMemory("posted")
	for _, state := range []job.State{job.StatePaused, job.StateRunning} {
		if _, _, err := w.present.State.SetState(1, spec.ID, job.Standing{State: state}); err != nil {
			t.Fatal(err)
		}
		book.refresh(t.Context(), w.later())
		inMemory("refreshed")
	}
	w.present = newJobs(t, nil) // it knows nothing
	book.refresh(t.Context(), w.later())
	rec, err := w.present.State.Get(spec.ID)
	if err != nil || len(rec.GetSpec().GetSeeds()) != seeds || job.State(rec.GetState()) != job.StateRunning {
		t.Errorf("the next owner knows %v, %v", rec, err)
	}
	w.present = nil
	p := NewPoster(PosterDeps{Registry: book, Ring: func(context.Context) (*control.Ring, error) { return &control.Ring{}, nil }})
	list, err := p.Jobs(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Spec.URLs) != seeds {
		t.Errorf("listed are %v, %v", list, err)
	}
}
