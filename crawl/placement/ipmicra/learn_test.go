package ipmicra

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// anew takes a subnet from its worker.
func (s *Strategy) anew(p netip.Prefix, by string, now time.Time) {
	changes, _ := s.machine.Give(p, "", by, now, s.memory) // a Memory has all records
	s.memory.Merge(changes)
}

// TestDelegatedAnew: what was measured before the subnet was taken away is not believed, and
// the slow worker is no longer asked first.
func TestDelegatedAnew(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x", "30.0.0.0/8", "y"), "a", "b")
	w.peers[0].Addr, w.peers[1].Addr = addr("30.0.0.1"), addr("20.9.9.9")
	w.measures("20.0.0.1", map[string]int{"a": 20, "b": 200})
	if _, worker := w.place(t, "20.0.0.1"); worker != "b" {
		t.Fatalf("worker %s, want b, whose subnet it is", worker)
	}
	w.anew(prefix("20.0.0.0/8"), "b", time.Unix(1000, 0))
	probed, worker := w.place(t, "20.0.0.1")
	if worker != "a" || !slices.Equal(probed, []string{"a"}) {
		t.Errorf("probed %v, worker %s; want a alone, and a", probed, worker)
	}
	if record := w.memory.subnets[prefix("20.0.0.0/8")]; record.Epoch.Counter != 3 {
		t.Errorf("epoch %v, want the third", record.Epoch)
	}
}

func TestRelieve(t *testing.T) {
	ranges := tree(t, "20.1.0.0/16", "", "20.2.0.0/16", "", "20.3.0.0/16", "", "20.4.0.0/16", "")
	probes := map[string]map[string]int{ // ms
		"20.1.0.0/16": {"a": 10, "b": 90, "c": 50},
		"20.2.0.0/16": {"a": 40, "b": 44, "c": 42},
		"20.3.0.0/16": {"a": 30, "b": 50, "c": 49},
		"20.4.0.0/16": {"a": 20}, // predicted: b 61.3, c 47
	}
	var loads []Load
	for _, p := range []string{"20.1.0.0/16", "20.2.0.0/16", "20.3.0.0/16", "20.4.0.0/16"} {
		loads = append(loads, Load{prefix(p), 10})
	}
	tests := map[string]struct {
		excess float64
		rooms  []Room
		want   []Move
	}{
		"the least variance first, to the next best": {5, []Room{{"b", 100}, {"c", 100}}, []Move{{prefix("20.2.0.0/16"), "a", "c", 10}}},
		"until it is enough":                         {15, []Room{{"b", 100}, {"c", 100}}, []Move{{prefix("20.2.0.0/16"), "a", "c", 10}, {prefix("20.3.0.0/16"), "a", "c", 10}}},
		"the next best with room":                    {15, []Room{{"b", 100}, {"c", 10}}, []Move{{prefix("20.2.0.0/16"), "a", "c", 10}, {prefix("20.3.0.0/16"), "a", "b", 10}}},
		"a missing probe is predicted":               {25, []Room{{"c", 100}}, []Move{{prefix("20.2.0.0/16"), "a", "c", 10}, {prefix("20.3.0.0/16"), "a", "c", 10}, {prefix("20.4.0.0/16"), "a", "c", 10}}},
		"nobody has room":                            {5, []Room{{"b", 9}}, nil},
		"nothing is too much":                        {0, []Room{{"b", 100}}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ranges, "a", "b", "c").delegated("20.1.0.0/16", "a", "20.2.0.0/16", "a", "20.3.0.0/16", "a", "20.4.0.0/16", "a")
			for p, by := range probes {
				record := &Subnet{Prefix: prefix(p), Probes: make(map[string]Probe)}
				for peer, ms := range by {
					record.Probes[peer] = Probe{RTT: time.Duration(ms) * time.Millisecond}
				}
				w.memory.Merge(Changes{Subnets: []*Subnet{record}})
			}
			got := w.Relieve(time.Unix(1, 0), "a", tt.excess, loads, tt.rooms)
			if !slices.Equal(got, tt.want) {
				t.Fatalf("moves %v, want %v", got, tt.want)
			}
			for _, m := range got {
				if _, worker := w.Worker(m.Prefix.Addr()); worker != m.To {
					t.Errorf("%v is with %s, want %s", m.Prefix, worker, m.To)
				}
			}
		})
	}
}

func TestRebuildKeepsWorkers(t *testing.T) {
	before := tree(t, "20.0.0.0/8", "x", "20.1.0.0/16", "y", "20.2.0.0/16", "z", "20.2.2.0/24", "gone", "40.0.0.0/8", "v")
	after := tree(t, "20.0.0.0/8", "x", "20.1.0.0/16", "y", "20.1.1.0/24", "new", "20.1.2.0/24", "newer", "20.2.0.0/16", "z", "40.0.0.0/8", "v", "40.1.0.0/16", "u")
	w := newWorld(before, "a", "b", "c", "d").delegated("20.0.0.0/8", "a", "20.1.0.0/16", "b", "20.2.2.0/24", "c", "99.1.2.0/24", "d")
	w.memory.Merge(Changes{Subnets: []*Subnet{{Prefix: prefix("20.1.0.0/16"), Probes: map[string]Probe{"q": {RTT: time.Millisecond}}}}})
	w.Rebuild(after)
	w.anew(prefix("20.1.2.0/24"), "a", time.Unix(1, 0)) // never delegated: nothing to take
	for _, tt := range []struct {
		at, worker string
		probed     bool
	}{
		{"20.9.9.9", "a", false},
		{"20.1.9.9", "b", false},
		{"20.1.1.1", "b", false}, // a new range goes to who served its addresses
		{"20.2.2.1", "c", false}, // so does one that takes over others
		{"20.2.9.9", "c", false},
		{"99.1.2.3", "d", false}, // what nobody registered
		{"40.1.0.1", "a", true},  // and nothing is delegated that was not
	} {
		w.measures(tt.at, map[string]int{"a": 1, "b": 90, "c": 90, "d": 90})
		if probed, worker := w.place(t, tt.at); worker != tt.worker || len(probed) > 0 != tt.probed {
			t.Errorf("%s is with %q after probes by %v, want %q, probed: %v", tt.at, worker, probed, tt.worker, tt.probed)
		}
	}
	for _, p := range []string{"20.1.0.0/16", "20.1.1.0/24"} {
		if record := w.memory.subnets[prefix(p)]; record.Probes["q"].RTT != time.Millisecond {
			t.Errorf("%s has lost its probes", p)
		}
	}
	if x, _ := w.memory.Index(Key{Kind: KindOrganisation, Organisation: "new"}); x == nil || len(x.Entries) != 1 {
		t.Errorf("index of the new organisation: %v", x)
	}
}

// TestRebuildIsNoWayBack: a new range that was taken from its worker is searched
// for, and so is one whose worker before is no candidate; what was measured then counts.
func TestRebuildIsNoWayBack(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", ""), "a", "b").delegated("20.0.0.0/8", "b")
	w.measures("20.1.0.1", map[string]int{"a": 20, "b": 30}).measures("20.2.0.1", map[string]int{"a": 20})
	w.Rebuild(tree(t, "20.0.0.0/8", "", "20.1.0.0/16", "", "20.2.0.0/16", ""))
	if probed, worker := w.place(t, "20.1.0.1"); worker != "b" || len(probed) > 0 {
		t.Fatalf("worker %s, probed %v; want b, who had it", worker, probed)
	}
	w.anew(prefix("20.1.0.0/16"), "b", time.Unix(1, 0))
	if probed, worker := w.place(t, "20.1.0.1"); len(probed) == 0 {
		t.Errorf("taken from b, it went to %s unprobed", worker)
	}
	w.peers = w.peers[:1]
	w.memory.Merge(Changes{Subnets: []*Subnet{{Prefix: prefix("20.0.0.0/8"), Probes: map[string]Probe{"a": {RTT: time.Millisecond}}}}})
	if probed, worker := w.place(t, "20.2.0.1"); worker != "a" || len(probed) > 0 {
		t.Errorf("worker %s, probed %v; want a, of whom it was known", worker, probed)
	}
}
