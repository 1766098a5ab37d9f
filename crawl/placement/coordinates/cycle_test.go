package coordinates

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// scene is a cycle whose estimators answer at once.
type scene struct {
	t       *testing.T
	c       *Cycle
	now     time.Time
	out     map[netip.Addr]int // URLs of a server that are with an estimator
	fetched map[string]int
	given   map[string]string // peer by URL
	to      map[string]int
	calls   int // of Assign in a step
}

func newScene(t *testing.T, change func(*CycleConfig)) *scene {
	cfg := DefaultCycleConfig()
	cfg.Hosts = 4
	change(&cfg)
	c := NewCycle(cfg, NewServers(DefaultServersConfig(), 1), 1)
	return &scene{t: t, c: c, now: start, out: make(map[netip.Addr]int), fetched: make(map[string]int), given: make(map[string]string), to: make(map[string]int), calls: 50}
}

func hostAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i), 1}) }

func (s *scene) ready(hosts, urls int) {
	for i := range hosts {
		var b Bucket
		for k := range urls {
			b.URLs = append(b.URLs, URL{URL: fmt.Sprintf("http://h%d/%d", i, k), Host: fmt.Sprintf("h%d", i), Addr: hostAddr(i)})
		}
		s.c.Add(b)
	}
}

// step is ten seconds: estimators answer those of the last step.
func (s *scene) step(took func(addr netip.Addr, at *Place) time.Duration) {
	s.now = s.now.Add(10 * time.Second)
	var ids []string
	for _, e := range estimators() {
		ids = append(ids, e.Peer)
	}
	to, urls := s.c.Tick(s.now, ids)
	var results []Result
	at := estimators()[max(slices.Index(ids, to), 0)]
	for i := range urls {
		u := &urls[i]
		if s.out[u.Addr]++; s.out[u.Addr] > 1 {
			s.t.Errorf("two URLs of %v are out at once", u.Addr)
		}
		s.fetched[u.URL]++
		if d := took(u.Addr, &at); d > 0 {
			results = append(results, Result{URL: *u, Took: d})
			s.out[u.Addr]--
		} else {
			results = append(results, Result{URL: *u, Failed: true})
			s.out[u.Addr]--
		}
	}
	if to != "" {
		s.c.Report(s.now, to, &at.At, results)
	}
	for range s.calls {
		a, ok := s.c.Assign(s.now, estimators())
		if !ok {
			break
		}
		if len(a.URLs) > s.c.cfg.Message {
			s.t.Errorf("a message of %d URLs", len(a.URLs))
		}
		for _, u := range a.URLs {
			if s.given[u.URL] != "" || s.fetched[u.URL] > 0 {
				s.t.Errorf("%s is given away twice, or was fetched", u.URL)
			}
			s.given[u.URL] = a.To
			s.to[a.To]++
		}
		s.c.sendAt = time.Time{}
	}
}

// corners are the servers' places: each beside another estimator.
func corners(addr netip.Addr, at *Place) time.Duration {
	c := estimators()[addr.As4()[2]%4].At
	c.Height = 60
	return time.Duration(c.Distance(&at.At) * float64(time.Millisecond))
}

func TestCycleAssignsToTheNearest(t *testing.T) {
	s := newScene(t, func(*CycleConfig) {})
	s.ready(3, 200)
	for range 5 {
		s.step(corners)
	}
	if s.c.Estimating() {
		t.Fatal("estimates with three hosts ready, want four")
	}
	s.c.Add(Bucket{Host: "h3", URLs: []URL{{URL: "http://h3/0", Addr: hostAddr(3)}, {URL: "http://h3/1", Addr: hostAddr(3)}}})
	for i := range 300 {
		s.step(corners)
		if i > 2 && !s.c.Estimating() {
			break
		}
	}
	for _, host := range []int{0, 1, 2} {
		if got, want := s.given[fmt.Sprintf("http://h%d/199", host)], estimators()[host].Peer; got != want {
			t.Errorf("h%d is given to %q, want %q", host, got, want)
		}
	}
	st := s.c.Stats()
	if st.Batches != 1 || len(st.Updates) != 4 || st.AtBound != 0 || st.Took[0] <= 0 {
		t.Errorf("%+v", st)
	}
	if n := len(s.fetched) + len(s.given); n != 602 {
		t.Errorf("%d URLs were fetched or given away, want all 602", n)
	}
}

// TestCycleGathers: with time for stragglers one message asks for the whole batch; beyond that time
// those that are free are asked for.
func TestCycleGathers(t *testing.T) {
	for _, tt := range []struct {
		gather time.Duration
		want   []int // URLs asked for each ten seconds, while one of four servers does not answer at first
	}{
		{0, []int{4, 3, 3, 3, 3, 4}},
		{30 * time.Second, []int{4, 0, 0, 3, 0, 4}},
	} {
		s := newScene(t, func(c *CycleConfig) { c.Gather = tt.gather })
		s.ready(4, 50)
		var late *URL
		var from string
		for i, want := range tt.want {
			now := start.Add(time.Duration(i) * 10 * time.Second)
			at := &estimators()[0].At
			if i == len(tt.want)-1 {
				s.c.Report(now, from, at, []Result{{URL: *late, Took: time.Second}})
			}
			to, urls := s.c.Tick(now, []string{"a"})
			if len(urls) != want {
				t.Errorf("gathering %v, %d0 s: asked for %d URLs, want %d", tt.gather, i, len(urls), want)
			}
			var results []Result
			for k := range urls {
				if late == nil {
					late, from = &urls[k], to
					continue
				}
				results = append(results, Result{URL: urls[k], Took: time.Second})
			}
			s.c.Report(now, to, at, results)
		}
	}
}

func TestCycleEndsAtItsBound(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 1))
	wild := func(netip.Addr, *Place) time.Duration { return time.Duration(1+noise.IntN(2000)) * time.Millisecond }
	failing := func(netip.Addr, *Place) time.Duration { return 0 }
	tests := map[string]struct {
		took func(netip.Addr, *Place) time.Duration
		rest Rest
		want func(s *scene) bool
	}{
		"as they stand":                  {wild, RestAsTheyStand, func(s *scene) bool { return len(s.given) == 4*(60-50) }},
		"geo":                            {wild, RestGeo, func(s *scene) bool { return s.to["d"] == 40 }},
		"random":                         {wild, RestRandom, func(s *scene) bool { return len(s.to) > 1 && len(s.given) == 40 }},
		"nothing known is placed anyhow": {failing, RestAsTheyStand, func(s *scene) bool { return len(s.given) == 40 && s.c.stats.Failed == 200 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(c *CycleConfig) {
				c.MaxUpdates, c.Theta, c.Rest, c.Mode = 50, 0.02, tt.rest, ModeSingle
				c.Geo = func(netip.Addr) string { return "d" }
			})
			s.ready(4, 60)
			for range 60 {
				s.step(tt.took)
			}
			st := s.c.Stats()
			if st.AtBound != 1 || st.Asked != 200 || !s.c.Stopped() || !tt.want(s) {
				t.Errorf("%+v, given %d to %v", st, len(s.given), s.to)
			}
			s.ready(4, 60)
			if s.step(tt.took); s.c.Estimating() {
				t.Error("a single batch is followed by another")
			}
		})
	}
}

func TestCycleWaitsForAnEstimate(t *testing.T) {
	s := newScene(t, func(c *CycleConfig) { c.Hosts = 1 })
	s.ready(1, 5)
	to, urls := s.c.Tick(s.now, []string{"a"})
	if to != "a" || len(urls) != 1 {
		t.Fatalf("%v to %q", urls, to)
	}
	if _, again := s.c.Tick(s.now.Add(time.Minute), []string{"b"}); len(again) != 0 {
		t.Errorf("another of the server's URLs goes out: %v", again)
	}
	e := estimators()[1]
	s.c.Report(s.now, "b", &e.At, []Result{{URL: urls[0], Took: time.Second}})
	if s.c.servers.Updates(hostAddr(0)) != 0 {
		t.Error("a result that was not asked of b counts")
	}
	if _, late := s.c.Tick(s.now.Add(3*time.Minute), []string{"b"}); len(late) != 1 || late[0] == urls[0] || s.c.stats.TimedOut != 1 {
		t.Errorf("after the timeout %v goes out, want the next URL", late)
	}
}

func TestCyclePersistentAssignsAgainAndAgain(t *testing.T) {
	s := newScene(t, func(c *CycleConfig) { c.Mode, c.Hosts, c.Round = ModePersistent, 2, 1 })
	s.calls = 1
	s.ready(2, 900)
	for range 60 {
		s.step(corners)
	}
	if s.to["a"] == 0 || s.to["b"] == 0 || s.to["d"] != 0 {
		t.Fatalf("given %v, want to a and b", s.to)
	}
	for range 300 {
		s.step(func(_ netip.Addr, at *Place) time.Duration { return corners(hostAddr(3), at) })
	}
	if s.to["d"] < 50 || !s.c.Estimating() {
		t.Errorf("given %v, want to d once the servers moved there", s.to)
	}
}

// TestCyclePersistentGoesOnAtItsBound: servers whose error never falls under theta are assigned as
// they stand once they have had their updates (3.4, step 7).
func TestCyclePersistentGoesOnAtItsBound(t *testing.T) {
	s := newScene(t, func(c *CycleConfig) { c.Mode, c.Hosts, c.Round, c.Theta, c.MaxUpdates = ModePersistent, 2, 1, 1e-6, 40 })
	s.calls = 1
	s.ready(2, 900)
	for range 38 {
		s.step(corners)
	}
	if len(s.given) > 0 {
		t.Fatalf("given %v before the bound", s.to)
	}
	for range 60 {
		s.step(corners)
	}
	if s.to["a"] == 0 || s.to["b"] == 0 || !s.c.Estimating() {
		t.Errorf("given %v beyond the bound, want to a and b, and updates to go on", s.to)
	}
}

func TestCycleLeavesTheBlacklisted(t *testing.T) {
	s := newScene(t, func(c *CycleConfig) {
		c.Hosts = 2
		c.Blacklisted = func(u *URL) bool { return u.Host == "h1" }
	})
	s.ready(2, 100)
	for range 80 {
		s.step(corners)
	}
	if s.fetched["http://h1/0"]+s.fetched["http://h1/1"] > 0 || s.given["http://h1/50"] != "" || s.given["http://h0/99"] == "" {
		t.Error("a blacklisted host was asked, or the other was not placed")
	}
}

func TestEstimatorSendsSetsThatAreOldEnough(t *testing.T) {
	e := NewEstimator(EstimatorConfig{Every: 10 * time.Second, Age: 20 * time.Second, Most: 3})
	one := &Result{Took: time.Second}
	e.Finished(start, "a", one)
	e.Finished(start.Add(15*time.Second), "b", one)
	if due := e.Tick(start.Add(19 * time.Second)); len(due) != 0 {
		t.Errorf("%v is due before its time", due)
	}
	e.Finished(start.Add(20*time.Second), "a", one)
	due := e.Tick(start.Add(29 * time.Second))
	if len(due) != 1 || due[0].To != "a" || len(due[0].Results) != 2 {
		t.Errorf("due %+v, want the two of a", due)
	}
	for range 4 {
		e.Finished(start.Add(30*time.Second), "c", one)
	}
	due = e.Tick(start.Add(39 * time.Second))
	if len(due) != 2 || due[0].To != "b" || len(due[1].Results) != 3 {
		t.Errorf("due %+v, want b's, and the full one of c", due)
	}
}
