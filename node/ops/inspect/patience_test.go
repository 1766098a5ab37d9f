package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/node/control"
)

// TestPutOffIsIdle: a walk counts as idle only where what is left is put off, at whichever member,
// and asks with the patience of whoever waits.
func TestPutOffIsIdle(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		for _, of := range []string{"", someJob.String()} {
			w := newWalkWorld(t, 3)
			for i := range 3 {
				w.add(i, func(c *control.JobCounts) { c.Pending, c.PutOff = 4, 4 })
				w.members[w.ids[i]].URLsPutOff = 4
			}
			w.add(1, func(c *control.JobCounts) { c.Pending = 5 })
			w.visit = func(step int, _ peer.ID) {
				if step == 20 {
					w.add(1, func(c *control.JobCounts) { c.Pending = 4 })
				}
			}
			wk := w.walker()
			wk.patience = time.Minute
			ask := wk.report
			wk.report = func(ctx context.Context, of peer.ID, patience time.Duration) (*report, error) {
				if patience != time.Minute {
					t.Errorf("asked with a patience of %v", patience)
				}
				return ask(ctx, of, patience)
			}
			var last control.Progress
			err := wk.waitIdle(t.Context(), of, func(p control.Progress) error { last = p; return nil })
			if err != nil || w.steps < 23 || last.URLsPutOff != 12 {
				t.Errorf("%v after %d reports, %+v", err, w.steps, last)
			}
		}
	})
}

// TestPatienceLasts: sites that want a little more again and again are waited for no longer than
// the patience and the first waits between tries, whatever they say; each page begins it anew, and
// without end is without end.
func TestPatienceLasts(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := lasting{patience: 10 * time.Minute, since: now}
	for _, step := range []struct {
		after time.Duration
		pages int64
		want  time.Duration
	}{
		{0, 0, 10 * time.Minute},
		{65 * time.Second, 0, 10 * time.Minute},
		{5 * time.Minute, 0, 310 * time.Second},
		{time.Minute, 1, 10 * time.Minute},
		{10 * time.Minute, 1, patienceLeast},
		{24 * time.Hour, 1, patienceLeast},
	} {
		now = now.Add(step.after)
		if got := l.left(&control.Counters{Pages: step.pages}, now); got != step.want {
			t.Errorf("%v later, with %d pages: patience for %v, want %v", step.after, step.pages, got, step.want)
		}
	}
	for _, patience := range []time.Duration{0, time.Second, time.Minute} {
		l := lasting{patience: patience, since: now}
		if got := l.left(&control.Counters{}, now.Add(time.Hour)); got != patience {
			t.Errorf("of a patience of %v there is %v left", patience, got)
		}
	}
}
