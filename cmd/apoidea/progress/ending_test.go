package progress

import (
	"context"
	"io"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

// ended is a peer whose crawl has ended, and how often it was asked for its status.
type ended struct {
	told
	job   control.Job
	asked int
}

func (e *ended) Job(context.Context, string) (*control.Job, error) { return &e.job, nil }

func (e *ended) Why(context.Context, string) (*control.Why, error) {
	return &control.Why{Text: "it failed"}, nil
}

func (e *ended) Status(context.Context, bool) (*control.Status, error) {
	e.asked++
	return &control.Status{Counters: control.Counters{Pages: int64(10 * e.asked)}}, nil
}

// TestCrawl: what came of a crawl is what was counted since it began; that its job fetched nothing is told beside that.
func TestCrawl(t *testing.T) {
	for name, c := range map[string]struct {
		job     string
		fetched int64
		fails   bool
	}{
		"no job":                     {},
		"a job with pages":           {job: "x", fetched: 3},
		"a job that fetched nothing": {job: "x", fails: true},
	} {
		peer := &ended{told: told{progressAt(1, 20, true)}}
		peer.job.Spec.URLs, peer.job.Outcomes = []string{"http://a/"}, map[string]int64{"ok": c.fetched}
		crawl, err := Begin(t.Context(), peer)
		if err != nil {
			t.Fatal(err)
		}
		ran, err := crawl.End(t.Context(), c.job, true, 0, Screen{Err: io.Discard}, io.Discard)
		if ran == nil || ran.Run.Pages != 10 || ran.Pages != 20 || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", name, ran, err)
		}
	}
}
