package dashboard

import (
	"math"
	"testing"
	"time"
)

// start is a moment at the beginning of a minute.
var start = time.Unix(1_800_000_000, 0)

// sampled is a history of samples a second apart, each with ten pages more, until the last at
// start+seconds.
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

// A chart of a young peer shows the part of its span in which there is something to see.
func TestLately(t *testing.T) {
	for name, c := range map[string]struct {
		span, samples int
		asked         time.Duration
		title         string
		points, known int
	}{
		"nothing known":     {0, 0, 0, "2 minutes", 120, 0},
		"half a minute":     {0, 30, 30 * time.Second, "2 minutes", 120, 30},
		"two minutes":       {0, 122, 122 * time.Second, "4 minutes", 240, 121},
		"five minutes":      {0, 300, 300 * time.Second, "10 minutes", 200, 100},
		"an hour":           {0, 3600, 3600 * time.Second, "10 minutes", 200, 200},
		"stopped long ago":  {0, 30, 2000 * time.Second, "2 minutes", 120, 0},
		"stopped of late":   {0, 30, 200 * time.Second, "4 minutes", 240, 30},
		"an hour of a day":  {1, 3600, 3600 * time.Second, "4 hours", 240, 60},
		"five hours of one": {1, 18000, 18000 * time.Second, "12 hours", 240, 100},
	} {
		t.Run(name, func(t *testing.T) {
			l := sampled(c.samples).lately(start.Add(c.asked), &spans[c.span])
			known := 0
			for _, p := range l.points {
				if !math.IsNaN(p.Pages) {
					known++
				}
			}
			if l.title != c.title || len(l.points) != c.points || known < c.known-1 || known > c.known+1 {
				t.Errorf("%s in %d points, %d of them known; want %s, %d, %d", l.title, len(l.points), known, c.title, c.points, c.known)
			}
		})
	}
}
