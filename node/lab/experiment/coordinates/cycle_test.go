package coordinates

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
)

var start = clock.Epoch

// estimators are peers at the corners of a square.
func estimators() []place {
	at := func(x, y float64) coordinates.Coordinate {
		return coordinates.Coordinate{Vec: [coordinates.Dimensions]float64{x, y}, Height: 5, Error: 0.1}
	}
	return []place{{"a", at(0, 0)}, {"b", at(200, 0)}, {"c", at(0, 200)}, {"d", at(200, 200)}}
}

// scene is a cycle whose estimators answer at once.
type scene struct {
	t       *testing.T
	c       *cycle
	now     time.Time
	out     map[netip.Addr]int // URLs of a server that are with an estimator
	fetched map[string]int
	given   map[string]string // peer by URL
	to      map[string]int
	calls   int // of Assign in a step
}

func newScene(t *testing.T, change func(*cycleConfig)) *scene {
	cfg := paperCycle(0.25)
	cfg.mode, cfg.hosts = modeCycle, 4
	change(&cfg)
	c := newCycle(&cfg, coordinates.NewServers(coordinates.DefaultServersConfig(), 1), 1)
	return &scene{t: t, c: c, now: start, out: make(map[netip.Addr]int), fetched: make(map[string]int), given: make(map[string]string), to: make(map[string]int), calls: 50}
}

func hostAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i), 1}) }

func (s *scene) ready(hosts, urls int) {
	for i := range hosts {
		var due []pageURL
		for k := range urls {
			due = append(due, pageURL{url: fmt.Sprintf("http://h%d/%d", i, k), host: fmt.Sprintf("h%d", i), addr: hostAddr(i)})
		}
		s.c.add(due)
	}
}

// step is ten seconds: estimators answer those of the last step.
func (s *scene) step(took func(addr netip.Addr, at *place) time.Duration) {
	s.now = s.now.Add(10 * time.Second)
	var ids []string
	for _, e := range estimators() {
		ids = append(ids, e.peer)
	}
	to, urls := s.c.tick(s.now, ids)
	var results []estimate
	at := estimators()[max(slices.Index(ids, to), 0)]
	for i := range urls {
		u := &urls[i]
		if s.out[u.addr]++; s.out[u.addr] > 1 {
			s.t.Errorf("two URLs of %v are out at once", u.addr)
		}
		s.fetched[u.url]++
		if d := took(u.addr, &at); d > 0 {
			results = append(results, estimate{pageURL: *u, took: d})
			s.out[u.addr]--
		} else {
			results = append(results, estimate{pageURL: *u, failed: true})
			s.out[u.addr]--
		}
	}
	if to != "" {
		s.c.report(s.now, to, &at.at, results)
	}
	for range s.calls {
		a, ok := s.c.assign(s.now, estimators())
		if !ok {
			break
		}
		if len(a.urls) > assignedURLs {
			s.t.Errorf("a message of %d URLs", len(a.urls))
		}
		for _, u := range a.urls {
			if s.given[u.url] != "" || s.fetched[u.url] > 0 {
				s.t.Errorf("%s is given away twice, or was fetched", u.url)
			}
			s.given[u.url] = a.to
			s.to[a.to]++
		}
		s.c.sendAt = time.Time{}
	}
}

// corners are the servers' places: each beside another estimator.
func corners(addr netip.Addr, at *place) time.Duration {
	c := estimators()[addr.As4()[2]%4].at
	c.Height = 60
	return time.Duration(c.Distance(&at.at) * float64(time.Millisecond))
}

func TestCycleAssignsToTheNearest(t *testing.T) {
	s := newScene(t, func(*cycleConfig) {})
	s.ready(3, 200)
	for range 5 {
		s.step(corners)
	}
	if s.c.estimating() {
		t.Fatal("estimates with three hosts ready, want four")
	}
	s.c.add([]pageURL{{url: "http://h3/0", addr: hostAddr(3)}, {url: "http://h3/1", addr: hostAddr(3)}})
	for i := range 300 {
		s.step(corners)
		if i > 2 && !s.c.estimating() {
			break
		}
	}
	for _, host := range []int{0, 1, 2} {
		if got, want := s.given[fmt.Sprintf("http://h%d/199", host)], estimators()[host].peer; got != want {
			t.Errorf("h%d is given to %q, want %q", host, got, want)
		}
	}
	st := &s.c.stats
	if st.batches != 1 || len(st.updates) != 4 || st.atBound != 0 || st.took[0] <= 0 {
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
		s := newScene(t, func(c *cycleConfig) { c.gather = tt.gather })
		s.ready(4, 50)
		var late *pageURL
		var from string
		for i, want := range tt.want {
			now := start.Add(time.Duration(i) * 10 * time.Second)
			at := &estimators()[0].at
			if i == len(tt.want)-1 {
				s.c.report(now, from, at, []estimate{{pageURL: *late, took: time.Second}})
			}
			to, urls := s.c.tick(now, []string{"a"})
			if len(urls) != want {
				t.Errorf("gathering %v, %d0 s: asked for %d URLs, want %d", tt.gather, i, len(urls), want)
			}
			var results []estimate
			for k := range urls {
				if late == nil {
					late, from = &urls[k], to
					continue
				}
				results = append(results, estimate{pageURL: urls[k], took: time.Second})
			}
			s.c.report(now, to, at, results)
		}
	}
}

func TestCycleEndsAtItsBound(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 1))
	wild := func(netip.Addr, *place) time.Duration { return time.Duration(1+noise.IntN(2000)) * time.Millisecond }
	failing := func(netip.Addr, *place) time.Duration { return 0 }
	tests := map[string]struct {
		took func(netip.Addr, *place) time.Duration
		want func(s *scene) bool
	}{
		"as they stand":                  {wild, func(s *scene) bool { return len(s.given) == 4*(60-50) }},
		"nothing known is placed anyhow": {failing, func(s *scene) bool { return len(s.given) == 40 && s.c.servers.Updates(hostAddr(0)) == 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(c *cycleConfig) {
				c.maxUpdates, c.theta, c.mode = 50, 0.02, modeSingle
			})
			s.ready(4, 60)
			for range 60 {
				s.step(tt.took)
			}
			st := &s.c.stats
			if st.atBound != 1 || st.asked != 200 || !s.c.done() || !tt.want(s) {
				t.Errorf("%+v, given %d to %v", st, len(s.given), s.to)
			}
			s.ready(4, 60)
			if s.step(tt.took); s.c.estimating() {
				t.Error("a single batch is followed by another")
			}
		})
	}
}

func TestCycleWaitsForAnEstimate(t *testing.T) {
	s := newScene(t, func(c *cycleConfig) { c.hosts = 1 })
	s.ready(1, 5)
	to, urls := s.c.tick(s.now, []string{"a"})
	if to != "a" || len(urls) != 1 {
		t.Fatalf("%v to %q", urls, to)
	}
	if _, again := s.c.tick(s.now.Add(time.Minute), []string{"b"}); len(again) != 0 {
		t.Errorf("another of the server's URLs goes out: %v", again)
	}
	e := estimators()[1]
	s.c.report(s.now, "b", &e.at, []estimate{{pageURL: urls[0], took: time.Second}})
	if s.c.servers.Updates(hostAddr(0)) != 0 {
		t.Error("a result that was not asked of b counts")
	}
	if _, late := s.c.tick(s.now.Add(3*time.Minute), []string{"b"}); len(late) != 1 || late[0] == urls[0] {
		t.Errorf("after the timeout %v goes out, want the next URL", late)
	}
}

func TestCyclePersistentAssignsAgainAndAgain(t *testing.T) {
	s := newScene(t, func(c *cycleConfig) { c.mode, c.hosts, c.round = modePersistent, 2, 1 })
	s.calls = 1
	s.ready(2, 900)
	for range 60 {
		s.step(corners)
	}
	if s.to["a"] == 0 || s.to["b"] == 0 || s.to["d"] != 0 {
		t.Fatalf("given %v, want to a and b", s.to)
	}
	for range 300 {
		s.step(func(_ netip.Addr, at *place) time.Duration { return corners(hostAddr(3), at) })
	}
	if s.to["d"] < 50 || !s.c.estimating() {
		t.Errorf("given %v, want to d once the servers moved there", s.to)
	}
}

// TestCyclePersistentGoesOnAtItsBound: servers whose error never falls under theta are assigned as
// they stand once they have had their updates (3.4, step 7).
func TestCyclePersistentGoesOnAtItsBound(t *testing.T) {
	s := newScene(t, func(c *cycleConfig) {
		c.mode, c.hosts, c.round, c.theta, c.maxUpdates = modePersistent, 2, 1, 1e-6, 40
	})
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
	if s.to["a"] == 0 || s.to["b"] == 0 || !s.c.estimating() {
		t.Errorf("given %v beyond the bound, want to a and b, and updates to go on", s.to)
	}
}

func TestEstimatorSendsSetsThatAreOldEnough(t *testing.T) {
	e := &estimator{cfg: estimatorConfig{every: 10 * time.Second, age: 20 * time.Second, most: 3}}
	one := &estimate{took: time.Second}
	e.finished(start, "a", one)
	e.finished(start.Add(15*time.Second), "b", one)
	if due := e.tick(start.Add(19 * time.Second)); len(due) != 0 {
		t.Errorf("%v is due before its time", due)
	}
	e.finished(start.Add(20*time.Second), "a", one)
	due := e.tick(start.Add(29 * time.Second))
	if len(due) != 1 || due[0].to != "a" || len(due[0].results) != 2 {
		t.Errorf("due %+v, want the two of a", due)
	}
	for range 4 {
		e.finished(start.Add(30*time.Second), "c", one)
	}
	due = e.tick(start.Add(39 * time.Second))
	if len(due) != 2 || due[0].to != "b" || len(due[1].results) != 3 {
		t.Errorf("due %+v, want b's, and the full one of c", due)
	}
}
