package coordinates

import (
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// places are Peers by name.
type places map[string]Coordinate

func (p places) Of(id string) (Coordinate, bool) {
	c, ok := p[id]
	return c, ok
}

func square() places {
	p := make(places)
	for _, e := range estimators() {
		p[e.Peer] = e.At
	}
	return p
}

func view(host string, addr netip.Addr) *placement.View {
	v := &placement.View{Now: start, Host: host, Site: addr}
	for i, e := range estimators() {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: e.Peer, Self: i == 0})
	}
	return v
}

func fresh4(change func(*Config)) *Strategy {
	cfg := DefaultConfig()
	change(&cfg)
	return New(cfg, square(), 1)
}

// crawl places a host and fetches one URL after another, as where it stands has it, until it is
// placed by its coordinate.
func crawl(t *testing.T, s *Strategy, v *placement.View, addr netip.Addr, truth *Coordinate) (worker string, turns []string) {
	for range 400 {
		c := s.Next(v)
		if len(c.Probe) > 0 || c.Worker == "" || c.Why == "" {
			t.Fatalf("%+v, want a worker, a reason and no probe", c)
		}
		if c.URLs != 1 {
			return c.Worker, turns
		}
		turns = append(turns, c.Worker)
		at := square()[c.Worker]
		v.Now = v.Now.Add(time.Second)
		s.Observe(&placement.Fetch{At: v.Now, Host: v.Host, Site: addr, Worker: c.Worker, Took: time.Duration(truth.Distance(&at) * float64(time.Millisecond)), Bytes: 1000})
	}
	t.Fatal("never placed")
	return "", nil
}

func TestStrategyTakesTurnsThenPlaces(t *testing.T) {
	for i, e := range estimators() {
		s := fresh4(func(c *Config) { c.Explore = 0 })
		truth := e.At
		truth.Height = 80
		worker, turns := crawl(t, s, view("h", site), site, &truth)
		if worker != e.Peer {
			t.Errorf("a server beside %s is placed at %s", e.Peer, worker)
		}
		count := make(map[string]int)
		for _, id := range turns {
			count[id]++
		}
		if most := max(count["a"], count["b"], count["c"], count["d"]); len(count) != 4 || most > (len(turns)+3)/4 {
			t.Errorf("%d: turns %v, want them shared", i, count)
		}
	}
}

func TestStrategyWithoutAnAddress(t *testing.T) {
	s := fresh4(func(c *Config) { c.Explore = 0 })
	truth := estimators()[2].At
	truth.Height = 80
	if worker, _ := crawl(t, s, view("h", netip.Addr{}), site, &truth); worker != "c" {
		t.Errorf("placed at %s, want c: the address comes with what was fetched", worker)
	}
	s.Observe(&placement.Fetch{Host: "none"})
	s.Observe(&placement.Fetch{Host: "failed", Site: hostAddr(1), Worker: "a", Failed: true})
	if s.Servers().byAddr.Len() != 1 {
		t.Errorf("%d servers known, want one", s.Servers().byAddr.Len())
	}
}

func TestStrategyEndsAtTheBound(t *testing.T) {
	s := fresh4(func(c *Config) { c.MaxUpdates, c.Theta, c.Explore = 12, 0.001, 0 })
	_, turns := crawl(t, s, view("h", site), site, &Coordinate{Vec: [Dimensions]float64{900}, Height: 4000})
	if len(turns) != 12 {
		t.Errorf("%d turns, want 12", len(turns))
	}
}

func TestStrategyExploresNowAndThen(t *testing.T) {
	s := fresh4(func(c *Config) { c.Explore = 1 })
	truth := estimators()[1].At
	truth.Height = 80
	v := view("h", site)
	crawl(t, s, v, site, &truth)
	if c := s.Next(v); c.URLs != 1 {
		t.Errorf("%+v, want one URL by another", c)
	}
	if c := s.Next(v); c.URLs != 100 || c.Worker != "b" {
		t.Errorf("%+v, want b for a term", c)
	}
}

func TestStrategySpares(t *testing.T) {
	truth := estimators()[1].At
	truth.Height = 80
	quiet := func(c *Config) { c.Explore, c.Theta = 0, 0.05 }
	tests := map[string]struct {
		change func(*Config)
		view   func(*placement.View)
		worker string
	}{
		"as it is":              {quiet, func(*placement.View) {}, "b"},
		"no room at the best":   {quiet, func(v *placement.View) { v.Candidates[1].Capacity, v.Candidates[1].Backlog = 100, 100 }, "d"},
		"a queue is height":     {func(c *Config) { c.Explore, c.Theta, c.PerURL = 0, 0.05, 10 }, func(v *placement.View) { v.Candidates[1].Backlog = 100 }, "d"},
		"tiny but known":        {quiet, func(v *placement.View) { v.Tiny = true }, "b"},
		"tiny and unknown":      {quiet, func(v *placement.View) { v.Tiny, v.Site, v.Host = true, hostAddr(3), "other" }, "a"},
		"tiny, its range known": {quiet, func(v *placement.View) { v.Tiny, v.Site, v.Host, v.Known = true, hostAddr(3), "other", "c" }, "c"},
		"one candidate":         {quiet, func(v *placement.View) { v.Candidates = v.Candidates[:1] }, "a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := fresh4(tt.change)
			v := view("h", site)
			off := truth
			off.Vec[1] += 20 // nearer to d than to a
			crawl(t, s, v, site, &off)
			tt.view(v)
			if c := s.Next(v); c.Worker != tt.worker {
				t.Errorf("%+v, want %s", c, tt.worker)
			}
		})
	}
	if c := fresh4(quiet).Next(&placement.View{}); c.Worker != "" {
		t.Errorf("%+v without candidates", c)
	}
}

func TestStrategyForgetsHostsMetFirst(t *testing.T) {
	s := fresh4(func(c *Config) { c.MaxHosts = 3 })
	for i := range 10 {
		s.Observe(&placement.Fetch{At: start, Host: string(rune('a' + i)), Site: hostAddr(i), Worker: "a", Took: time.Second})
	}
	if len(s.hosts) != 3 || !s.hosts["j"].IsValid() {
		t.Errorf("%v remembered, want the last three", s.hosts)
	}
	if _, _, ok := s.Expected(start, hostAddr(9), "a"); !ok {
		t.Error("nothing is expected of a server that was met")
	}
}

// TestStrategySlowsDown (3.8 a): when the worker of a host meets a slow server the others have a
// look, and if it is slow for them too it is asked less often, until it is as before; if it is slow
// for the worker alone it is not.
func TestStrategySlowsDown(t *testing.T) {
	truth := estimators()[1].At
	truth.Height = 80
	slow := truth
	slow.Height += 2000
	for name, tt := range map[string]struct {
		slowFor string // empty: everybody
		pace    bool
	}{"for everybody": {"", true}, "for its worker": {"b", false}} {
		t.Run(name, func(t *testing.T) {
			s := fresh4(func(c *Config) { c.Explore, c.Theta = 0, 0.1 })
			v := view("h", site)
			crawl(t, s, v, site, &truth)
			fetch := func(worker string, is *Coordinate) {
				at := square()[worker]
				v.Now = v.Now.Add(time.Second)
				s.Observe(&placement.Fetch{At: v.Now, Host: v.Host, Site: site, Worker: worker, Took: time.Duration(is.Distance(&at) * float64(time.Millisecond)), Bytes: 1000})
			}
			for range 30 { // the strategy's own term, and what estimation had left out
				fetch("b", &truth)
			}
			fetch("b", &slow)
			looks := 0
			c := s.Next(v)
			for ; c.URLs == 1 && looks < 40; c = s.Next(v) {
				looks++
				if tt.slowFor == "" || c.Worker == tt.slowFor {
					fetch(c.Worker, &slow)
				} else {
					fetch(c.Worker, &truth)
				}
				if c.Pace > 1 {
					break
				}
			}
			if looks == 0 || (c.Pace > 1) != tt.pace || c.Pace > 1 && c.URLs > pacedTerm {
				t.Fatalf("after %d looks by others %+v, want it slowed down %v", looks, c, tt.pace)
			}
			fetch(c.Worker, &truth)
			if c := s.Next(v); c.Pace > 1 {
				t.Errorf("as before, yet %+v", c)
			}
		})
	}
}
