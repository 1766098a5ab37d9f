package placement

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func candidates(self string, others ...string) []Candidate {
	list := []Candidate{{Peer: self, Self: true}}
	for _, o := range others {
		list = append(list, Candidate{Peer: o})
	}
	return list
}

func ms(n float64) Measurement { return Measurement{RTT: time.Duration(n * float64(time.Millisecond))} }

func TestRTT(t *testing.T) {
	failed := Measurement{Err: "refused"}
	tests := map[string]struct {
		view   View
		probe  int
		worker string
	}{
		"everybody is asked first":      {View{Candidates: candidates("a", "b", "c")}, 3, ""},
		"those that answered are not":   {View{Candidates: candidates("a", "b", "c"), Measured: map[string]Measurement{"b": ms(1)}}, 2, ""},
		"alone, nobody is asked":        {View{Candidates: candidates("a")}, 0, "a"},
		"the smallest wins":             {View{Candidates: candidates("a", "b", "c"), Measured: map[string]Measurement{"a": ms(80), "b": ms(20), "c": ms(50)}}, 0, "b"},
		"within a millisecond, owner":   {View{Candidates: candidates("a", "b"), Measured: map[string]Measurement{"a": ms(1.2), "b": ms(0.4)}}, 0, "a"},
		"far away, within two per cent": {View{Candidates: candidates("a", "b"), Measured: map[string]Measurement{"a": ms(102), "b": ms(100)}}, 0, "b"},
		"who cannot reach it is out":    {View{Candidates: candidates("a", "b"), Measured: map[string]Measurement{"a": failed, "b": ms(300)}}, 0, "b"},
		"nobody reaches it: the owner":  {View{Candidates: candidates("a", "b"), Measured: map[string]Measurement{"a": failed, "b": failed}}, 0, "a"},
		"tiny: the range's worker":      {View{Candidates: candidates("a", "b"), Tiny: true, Known: "b"}, 0, "b"},
		"tiny: a stranger is no worker": {View{Candidates: candidates("a", "b"), Tiny: true, Known: "x"}, 0, "a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := RTT{}.Next(&tt.view)
			if len(c.Probe) != tt.probe || c.Worker != tt.worker {
				t.Errorf("probe %v, worker %q; want %d probes, worker %q", c.Probe, c.Worker, tt.probe, tt.worker)
			}
		})
	}
}

func TestRTTTiesGoToTheLeastLoaded(t *testing.T) {
	v := View{
		Candidates: []Candidate{{Peer: "a", Backlog: 90, Capacity: 100}, {Peer: "b", Backlog: 10, Capacity: 100}},
		Measured:   map[string]Measurement{"a": ms(10), "b": ms(10.2)},
	}
	if c := (RTT{}).Next(&v); c.Worker != "b" {
		t.Errorf("worker %q, want b, which has less to do", c.Worker)
	}
}

func TestRandomIsEvenAndStable(t *testing.T) {
	all := candidates("a", "b", "c", "d")
	count := make(map[string]int)
	for i := range 4000 {
		host := "h" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		with := Random{}.Next(&View{Host: host, Candidates: all}).Worker
		count[with]++
		without := Random{}.Next(&View{Host: host, Candidates: all[:3]}).Worker
		if with != "d" && with != without {
			t.Fatalf("host %s moved from %s to %s although only d left", host, with, without)
		}
	}
	for peer, n := range count {
		if n < 800 || n > 1200 {
			t.Errorf("peer %s got %d of 4000 hosts, want about 1000", peer, n)
		}
	}
}

func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewCache(2, time.Minute)
	site, beside, far := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("198.51.100.1")
	c.Add(now, site, "a", ms(5))
	c.Add(now, site, "b", Measurement{Err: "refused"})
	c.Placed(site, "a")
	if m := c.Measured(now, beside); len(m) != 1 || m["a"] != ms(5) {
		t.Errorf("a site of the same range: %v, want what a measured", m)
	}
	if c.Worker(beside) != "a" || c.Worker(far) != "" {
		t.Errorf("workers %q and %q, want a and none", c.Worker(beside), c.Worker(far))
	}
	if m := c.Measured(now.Add(2*time.Minute), site); len(m) != 0 {
		t.Errorf("after its age: %v, want nothing", m)
	}
	c.Placed(far, "b")
	c.Placed(netip.MustParseAddr("203.0.113.1"), "c")
	if c.Worker(site) != "" {
		t.Error("the range used longest ago is still there beyond the bound")
	}
}
