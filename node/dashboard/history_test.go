package dashboard

import (
	"math"
	"testing"
	"time"
)

// start is a moment at the beginning of a minute.
var start = time.Unix(1_800_000_000, 0)

// sampled is a history of samples a second apart, each with ten pages more, until the last at start+seconds.
func sampled(seconds int) *history {
	h := newHistory()
	for i := range seconds + 1 {
		h.add(start.Add(time.Duration(i)*time.Second), Gauges{Pages: int64(10 * i), Queue: 7})
	}
	return h
}

func TestHistory(t *testing.T) {
	for name, c := range map[string]struct {
		track   func(*history) *track
		after   time.Duration // when it is asked
		n, per  int
		unknown int // of the means, from the oldest
	}{
		"seconds":               {func(h *history) *track { return &h.fine }, 300 * time.Second, 10, 1, 0},
		"means of seconds":      {func(h *history) *track { return &h.fine }, 300 * time.Second, 200, 3, 100},
		"minutes":               {func(h *history) *track { return &h.coarse }, 300 * time.Second, 10, 1, 5},
		"nothing of the future": {func(h *history) *track { return &h.fine }, 299 * time.Second, 10, 1, 0},
		"asked long after":      {func(h *history) *track { return &h.fine }, 901 * time.Second, 600, 1, 600},
	} {
		t.Run(name, func(t *testing.T) {
			h := sampled(300)
			means := c.track(h).means(start.Add(c.after), c.n, c.per)
			for i, m := range means {
				if known := !math.IsNaN(m.Pages); known != (i >= c.unknown) {
					t.Fatalf("mean %d of %d known: %v", i, len(means), known)
				} else if known && (math.Abs(m.Pages-10) > 1e-9 || m.Queue != 7) {
					t.Errorf("mean %d is %+v, want 10 pages a second and a queue of 7", i, m)
				}
			}
		})
	}
}

func TestHistoryWrapsAround(t *testing.T) {
	h := sampled(3 * 600)
	for i, m := range h.fine.means(start.Add(1800*time.Second), 599, 1) {
		if math.Abs(m.Pages-10) > 1e-9 {
			t.Fatalf("second %d is %+v", i, m)
		}
	}
}

// A peer whose process was stopped did nothing meanwhile, and did not do it all at once afterwards.
func TestHistoryHasGaps(t *testing.T) {
	h := sampled(10)
	h.add(start.Add(100*time.Second), Gauges{Pages: 5000})
	h.add(start.Add(101*time.Second), Gauges{Pages: 5003})
	means := h.fine.means(start.Add(102*time.Second), 100, 1)
	if m := means[50]; !math.IsNaN(m.Pages) {
		t.Errorf("in the gap %v pages a second", m.Pages)
	}
	if m := means[99]; m.Pages != 3 {
		t.Errorf("after the gap %v pages a second, want 3", m.Pages)
	}
}

func TestHistoryOfClocksSetBack(t *testing.T) {
	h := sampled(10)
	h.add(start.Add(-time.Hour), Gauges{Pages: 200})
	h.add(start.Add(-time.Hour+time.Second), Gauges{Pages: 204})
	if m := h.fine.means(start.Add(-time.Hour+2*time.Second), 2, 1); m[1].Pages != 4 || !math.IsNaN(m[0].Pages) {
		t.Errorf("%+v", m)
	}
}
