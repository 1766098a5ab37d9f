package dashboard

import (
	"math"
	"testing"
	"time"
)

// start is a moment at the beginning of a slot.
var start = time.Unix(1_800_000_000, 0)

// sampled is a history of samples a second apart, each with ten pages more, until the last at
// start+seconds.
func sampled(seconds int) *history {
	h := new(history)
	for i := range seconds + 1 {
		h.add(start.Add(time.Duration(i)*time.Second), Gauges{Pages: int64(10 * i), Queue: 7})
	}
	return h
}

func TestHistory(t *testing.T) {
	for name, c := range map[string]struct {
		samples int
		after   time.Duration // when it is asked
		from    int           // the first known mean
		to      int           // the one after the last
	}{
		"five minutes":          {300, 300 * time.Second, 99, 199},
		"nothing of the future": {300, 299 * time.Second, 100, 199},
		"asked later":           {300, 420 * time.Second, 59, 160},
		"asked long after":      {300, 903 * time.Second, 0, 0},
		"wrapped around":        {1800, 1800 * time.Second, 0, 199},
	} {
		t.Run(name, func(t *testing.T) {
			means := sampled(c.samples).means(start.Add(c.after))
			for i, m := range means {
				if known := !math.IsNaN(m.Pages); known != (i >= c.from && i < c.to) {
					t.Fatalf("mean %d of %d known: %v", i, len(means), known)
				} else if known && (math.Abs(m.Pages-10) > 1e-9 || m.Queue != 7) {
					t.Errorf("mean %d is %+v, want 10 pages a second and a queue of 7", i, m)
				}
			}
		})
	}
}

// A peer whose process was stopped did nothing meanwhile, and did not do it all at once afterwards.
func TestHistoryHasGaps(t *testing.T) {
	h := sampled(10)
	h.add(start.Add(100*time.Second), Gauges{Pages: 5000})
	h.add(start.Add(101*time.Second), Gauges{Pages: 5003})
	means := h.means(start.Add(102 * time.Second))
	if m := means[len(means)-17]; !math.IsNaN(m.Pages) {
		t.Errorf("in the gap %v pages a second", m.Pages)
	}
	if m := means[len(means)-1]; m.Pages != 3 {
		t.Errorf("after the gap %v pages a second, want 3", m.Pages)
	}
}

func TestHistoryOfClocksSetBack(t *testing.T) {
	h := sampled(10)
	h.add(start.Add(-time.Hour), Gauges{Pages: 200})
	h.add(start.Add(-time.Hour+time.Second), Gauges{Pages: 204})
	means := h.means(start.Add(-time.Hour + 3*time.Second))
	if m := means[len(means)-1]; m.Pages != 4 || !math.IsNaN(means[len(means)-2].Pages) {
		t.Errorf("%+v", m)
	}
}
