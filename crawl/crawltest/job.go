package crawltest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Job returns a new job for all hosts below .example, with what change makes of it.
func Job(t testing.TB, change func(*wire.JobSpec), seeds ...string) *job.Spec {
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

// Key is a job key, the same for a number.
func Key(n byte) job.Key {
	return job.NewKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
}

// SignedJob is Job, signed by a key.
func SignedJob(t testing.TB, key job.Key, change func(*wire.JobSpec), seeds ...string) *job.Spec {
	t.Helper()
	spec := Job(t, change, seeds...)
	if err := key.Sign(spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// OneJob is who knows a single job, of which no budget can be drawn: its owner does not answer.
type OneJob struct{ Spec *job.Spec }

// Job returns the job, which runs.
func (j OneJob) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	return j.Spec, job.Posted(), id == j.Spec.ID
}

// Want does nothing.
func (OneJob) Want(job.ID) {}

// Draw waits until ctx ends.
func (OneJob) Draw(ctx context.Context, _ job.ID, _ *wire.Draw) (*wire.JobReply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
