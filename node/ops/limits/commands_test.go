package limits

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// TestCommands: each command answers with what holds at once, a wrong one changes nothing.
func TestCommands(t *testing.T) {
	c := limitsOn(t, storagetest.New(t), new(bench)).Commands()
	if l, err := c.Pause(t.Context(), time.Hour); err != nil || !l.Paused || l.Holds[0].Rule != volunteer.ByUser || l.Holds[0].Until.IsZero() {
		t.Errorf("paused for an hour: %+v, %v", l, err)
	}
	if l, err := c.Pause(t.Context(), 0); err != nil || !l.Paused || !l.Holds[0].Until.IsZero() {
		t.Errorf("paused without end: %+v, %v", l, err)
	}
	if l, err := c.Resume(t.Context()); err != nil || l.Paused {
		t.Errorf("resumed: %+v, %v", l, err)
	}
	if l, err := c.SetLimits(t.Context(), map[string]string{"bandwidth": "fast"}); control.KindOf(err) != control.KindUsage {
		t.Errorf("a wrong value: %+v, %v", l, err)
	}
	if l, err := c.Limits(t.Context()); err != nil || l.Paused || l.Used.DiskFree != 1<<30 {
		t.Errorf("read: %+v, %v", l, err)
	}
}
