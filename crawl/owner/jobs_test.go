package owner_test

import (
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestJobsAreForgotten: of a hundred thousand jobs those are in memory of which something waits or
// a host there is; the others are known all the same, and come back when something of them arrives.
func TestJobsAreForgotten(t *testing.T) {
	const all, fetched, waiting = 100_000, 500, 20
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxHosts = 64 })
	var ids []job.ID
	host := func(i int) string { return fmt.Sprintf("h%d.example", i) }
	add := func(i int) job.ID {
		id := s.jobs.add(t, &wire.JobSpec{Id: fmt.Appendf(nil, "%016d", i), Seeds: [][]byte{[]byte("http://" + host(i) + "/")}, Scope: []string{host(i)}})
		ids = append(ids, id)
		return id
	}
	for i := range fetched + waiting {
		id, url := add(i), "http://"+host(i)+"/"
		ready := s.do(func(o *owner.Owner) { o.Links(links(id, 0, url)) })
		if i >= fetched {
			continue
		}
		s.placed(ready, "w")
		g := s.ask("w", host(i), nil, 1)
		f := s.got(url, link.OutcomeOK)
		f.Job = id[:]
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host(i), Epoch: g.GetEpoch(), Release: true, Fetched: []*wire.Fetched{f}}}})
	}
	for len(ids) < all {
		s.do(func(o *owner.Owner) {
			for range 500 {
				o.Links(links(add(len(ids)), 1, "http://out-of-scope.example/"))
			}
		})
	}
	if n := owner.JobsInMemory(s.owner); n > 2*owner.IdleJobs {
		t.Errorf("%d of %d jobs are in memory", n, all)
	}
	look := func(when string) {
		t.Helper()
		if got := s.owner.Totals(); got.Pages != fetched || got.URLsSeen != fetched+waiting || got.URLsPending != waiting {
			t.Errorf("%s: %+v", when, got)
		}
		done, open := 0, 0
		for _, c := range s.owner.AllCounts() {
			done += int(c.Done)
			open += int(c.Pending)
		}
		if done != fetched || open != waiting {
			t.Errorf("%s: %d URLs done and %d pending in all jobs", when, done, open)
		}
		if c := s.owner.Counts(ids[3]); c.Done != 1 || c.Accepted != 1 {
			t.Errorf("%s: a job that was forgotten has %+v", when, c)
		}
		if err := ownertest.Check(s.owner); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	look("forgotten")
	s.do(func(o *owner.Owner) { o.Links(links(ids[3], 1, "http://"+host(3)+"/", "http://"+host(3)+"/more")) })
	if c := s.owner.Counts(ids[3]); c.Done != 1 || c.Accepted != 2 || c.Pending != 1 {
		t.Errorf("a job that came back has %+v", c)
	}
	if got := s.owner.Totals(); got.Pages != fetched || got.URLsSeen != fetched+waiting+1 {
		t.Errorf("with a job that came back: %+v", got)
	}
}
