package bandwidth

import (
	"slices"
	"testing"
	"time"
)

// scene is a queue under a governor.
type scene struct {
	t     *testing.T
	g     Governor
	queue []Candidate
	now   time.Time
}

// At implements Queue.
func (s *scene) At(depth int) (Candidate, bool) {
	if depth >= len(s.queue) {
		return Candidate{}, false
	}
	return s.queue[depth], true
}

// admit starts all that may start, and returns their IDs.
func (s *scene) admit() (ids []uint64) {
	for {
		a, ok := s.g.Admit(s.now, s)
		if !ok {
			return ids
		}
		ids = append(ids, s.queue[a.Depth].ID)
		s.queue = slices.Delete(s.queue, a.Depth, a.Depth+1)
	}
}

func (s *scene) want(what string, got []uint64, want ...uint64) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: started %v, want %v", what, got, want)
	}
}

// paperScene has a cap of 100, and servers 1 to 5 that are downloaded from at 10 to 50 and server 9
// at 200; a candidate's ID ends in its server's number.
func paperScene(t *testing.T, depth int, ids ...uint64) (*scene, *Estimates) {
	e := NewEstimates(EstimatesConfig{Location: time.UTC})
	for i := range 5 {
		e.Learn(monday, addr(i+1), float64(10*(i+1)))
	}
	e.Learn(monday, addr(9), 200)
	g, err := New(PaperGovernor, Config{Rate: 100, MaxDepth: depth, Fetchers: 10}, e)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, g: g, now: monday}
	s.add(ids...)
	return s, e
}

func (s *scene) add(ids ...uint64) {
	for _, id := range ids {
		s.queue = append(s.queue, Candidate{ID: id, Server: addr(int(id % 10))})
	}
}

// TestPaperAdmission: Diligenti et al., 2: CB + B(u) <= L, searched to the depth, no URL skipped
// when the queue closes up, estimates frozen.
func TestPaperAdmission(t *testing.T) {
	s, e := paperScene(t, 3, 15, 25, 34, 44, 51, 61)
	s.want("at first", s.admit(), 15, 25) // 50 + 50; 40, 40 and 10 do not fit
	s.g.End(s.now, 15, Result{Bytes: 1000, Took: time.Second})
	if r, _ := e.Rate(s.now, addr(5)); r <= 50 {
		t.Errorf("nothing was learnt: %v", r)
	}
	s.want("one has ended", s.admit(), 34, 51) // its frozen 50 is free again: 40, then 10 past a 40 that does not fit
	s.g.End(s.now, 25, Result{})
	s.want("another has", s.admit(), 44, 61)
	if got := s.g.Expected(s.now); got != 100 {
		t.Errorf("CB %v, want 100", got)
	}
	for _, id := range []uint64{34, 44, 51, 61, 61, 77} {
		s.g.End(s.now, id, Result{})
	}
	if got := s.g.Expected(s.now); got != 0 {
		t.Errorf("CB %v when nothing runs", got)
	}
}

// TestPaperDepth: beyond the depth nothing is looked at. If nothing runs, the head starts although
// it does not fit.
func TestPaperDepth(t *testing.T) {
	s, _ := paperScene(t, 2, 15, 25, 19, 29, 31)
	s.want("at first", s.admit(), 15, 25)
	s.g.End(s.now, 15, Result{})
	s.want("two that do not fit before one that does", s.admit())
	s.g.SetRate(260)
	s.want("a larger limit", s.admit(), 19, 31)
	for _, id := range []uint64{25, 19, 31} {
		s.g.End(s.now, id, Result{})
	}
	s.g.SetRate(100)
	s.want("nothing runs", s.admit(), 29)
}

// TestPaperStrangers: a server that is not known counts as the median of those that are, and L/10
// when none is.
func TestPaperStrangers(t *testing.T) {
	s, _ := paperScene(t, 6, 106, 116, 126, 136)
	s.want("median 40", s.admit(), 106, 116)
	g, err := New(PaperGovernor, Config{Rate: 100, MaxDepth: 6, Fetchers: 100}, NewEstimates(EstimatesConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	s = &scene{t: t, g: g, now: monday}
	for id := range uint64(20) {
		s.add(id)
	}
	if got := len(s.admit()); got != 10 {
		t.Errorf("%d strangers at once, want 10", got)
	}
}

// TestStarvationGuard: what was passed over during max_d completions and during the mean download
// time is reserved: nothing else starts before it. One that is faster than the limit runs alone,
// and its rate is not learned if the limiter reduced it.
func TestStarvationGuard(t *testing.T) {
	for _, tt := range []struct {
		name  string
		depth int
		took  time.Duration // of each download
		gap   time.Duration // between completions
		after time.Duration // the reservation
	}{
		{"completions decide", 8, time.Second, time.Second, 8 * time.Second},
		{"the mean time decides", 2, 5 * time.Second, time.Second, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, e := paperScene(t, tt.depth, 11)
			running := s.admit() // 10, so that the fast one does not find an idle peer
			s.queue = nil
			s.add(19)
			for id := uint64(21); id < 2000; id += 10 {
				s.add(id) // 10 each
			}
			running = append(running, s.admit()...)
			if len(running) != 10 {
				t.Fatalf("%d run, want 10 of 10 each", len(running))
			}
			held := time.Time{} // when nothing followed a completion
			for len(running) > 0 {
				s.now = s.now.Add(tt.gap)
				s.g.End(s.now, running[0], Result{Bytes: int64(10 * tt.took.Seconds()), Took: tt.took})
				running = running[1:]
				started := s.admit()
				if slices.Contains(started, 19) {
					if len(started) != 1 || len(running) != 0 {
						t.Errorf("the fast one runs beside %v and %v", started, running)
					}
					break
				}
				if len(started) == 0 && held.IsZero() {
					held = s.now
				}
				running = append(running, started...)
			}
			if d := held.Sub(monday); d != tt.after {
				t.Errorf("reserved after %v, want %v", d, tt.after)
			}
			before, _ := e.Rate(s.now, addr(9))
			s.g.End(s.now, 19, Result{Bytes: 1000, Took: 10 * time.Second, Held: time.Second})
			if after, _ := e.Rate(s.now, addr(9)); after != before {
				t.Errorf("a rate that the limiter reduced was learned: %v, before %v", after, before)
			}
			if got := s.admit(); len(got) != 10 {
				t.Errorf("%v started afterwards", got)
			}
		})
	}
}

// TestStartStop: a fetcher more for each second under the cap, one less for each above.
func TestStartStop(t *testing.T) {
	g, err := New(StartStopGovernor, Config{Rate: 100, MaxDepth: 1, Fetchers: 4}, NewEstimates(EstimatesConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, g: g, now: monday}
	for id := range uint64(100) {
		s.add(id)
	}
	var running []uint64
	for second, tt := range []struct {
		bytes int64
		want  int
	}{{0, 1}, {50, 2}, {50, 3}, {50, 4}, {50, 4}, {100, 4}, {300, 3}, {300, 2}, {300, 1}, {300, 1}, {0, 2}} {
		if second > 0 {
			s.now = s.now.Add(time.Second)
			s.g.Sample(s.now, running[len(running)-1], Progress{Bytes: tt.bytes, Left: -1})
			running = append(running, s.admit()...)
			for _, id := range running { // all end, and count no second time
				s.g.End(s.now, id, Result{})
			}
		}
		if running = s.admit(); len(running) != tt.want {
			t.Errorf("second %d: %d fetchers, want %d", second, len(running), tt.want)
		}
	}
}

// TestOursForecast: ours counts what is running by its present rate, has what is about to end
// replaced before it has, and starts the head alone.
func TestOursForecast(t *testing.T) {
	e := NewEstimates(EstimatesConfig{Location: time.UTC})
	for i := range 3 {
		e.Learn(monday, addr(i), 400)
		e.learnFlow(addr(i), 400, 0.2)
	}
	g, err := New(Ours, Config{Rate: 1000, MaxDepth: 1, Fetchers: 10}, e)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, g: g, now: monday}
	s.add(0, 1, 2)
	s.want("two of 400 under 0.9 of 1000", s.admit(), 0, 1)
	total := int64(0)
	for range 20 {
		s.now = s.now.Add(forecastEvery)
		total += 20 // half as fast as expected
		for id := range uint64(2) {
			s.g.Sample(s.now, id, Progress{Bytes: total, Left: 10_000})
		}
	}
	if got := s.g.Expected(s.now); got < 390 || got > 450 {
		t.Errorf("expected %v, they run at 400", got)
	}
	s.want("there is room", s.admit(), 2)
	s.add(10)
	s.want("no more", s.admit())
	for id := range uint64(3) {
		s.g.Sample(s.now.Add(forecastEvery), id, Progress{Bytes: total, Left: 1})
	}
	s.now = s.now.Add(forecastEvery)
	s.want("all are about to end", s.admit(), 10)
}

// TestNew names what is wrong.
func TestNew(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		ok   bool
	}{
		{Ours, Config{Rate: 1, MaxDepth: 1, Fetchers: 1}, true},
		{None, Config{Rate: 1, MaxDepth: 1, Fetchers: 1}, true},
		{"theirs", Config{Rate: 1, MaxDepth: 1, Fetchers: 1}, false},
		{Ours, Config{Rate: -1, MaxDepth: 1, Fetchers: 1}, false},
		{Ours, Config{Rate: 1, MaxDepth: 0, Fetchers: 1}, false},
		{Ours, Config{Rate: 1, MaxDepth: MaxMaxDepth + 1, Fetchers: 1}, false},
		{Ours, Config{Rate: 1, MaxDepth: 1}, false},
	} {
		if _, err := New(tt.name, tt.cfg, NewEstimates(EstimatesConfig{})); (err == nil) != tt.ok {
			t.Errorf("%s %+v: %v", tt.name, tt.cfg, err)
		}
	}
}
