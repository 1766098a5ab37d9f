package crawltest

import (
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
