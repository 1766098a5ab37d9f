package ipmicra

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/registry"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// tree builds one from pairs of range and organisation.
func tree(t testing.TB, pairs ...string) *Tree {
	t.Helper()
	var networks []registry.Network
	for pair := range slices.Chunk(pairs, 2) {
		networks = append(networks, registry.Network{Prefix: prefix(pair[0]), Org: pair[1]})
	}
	built, err := Build(networks)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// world is a strategy with what its peers would measure: ms by site and peer.
type world struct {
	*Strategy
	rtt   map[string]map[string]int
	peers []placement.Candidate
}

func newWorld(t *Tree, peers ...string) *world {
	w := &world{Strategy: New(t, 0), rtt: make(map[string]map[string]int)}
	for i, p := range peers {
		w.peers = append(w.peers, placement.Candidate{Peer: p, Self: i == 0})
	}
	return w
}

// delegated gives ranges to workers from the start: range and peer in turn.
func (w *world) delegated(pairs ...string) *world {
	for pair := range slices.Chunk(pairs, 2) {
		var c Changes
		w.machine.assign(&c, w.memory, prefix(pair[0]), pair[1], pair[1], time.Time{})
		w.memory.Merge(c)
	}
	return w
}

// measures says what the peers would measure of a site, in ms: below zero they cannot reach it.
func (w *world) measures(site string, rtt map[string]int) *world {
	w.rtt[site] = rtt
	return w
}

// place places a site and returns who was probed, in order, and the worker.
func (w *world) place(t *testing.T, site string) (probed []string, worker string) {
	t.Helper()
	v := placement.View{Host: site, Site: addr(site), Candidates: w.peers, Measured: make(map[string]placement.Measurement)}
	for {
		c := w.Next(&v)
		if len(c.Probe) == 0 {
			if c.Why == "" {
				t.Error("a choice without a reason")
			}
			return probed, c.Worker
		}
		for _, p := range c.Probe {
			if slices.Contains(probed, p) {
				t.Fatalf("%s is to probe %s again", p, site)
			}
			probed = append(probed, p)
			if ms := w.rtt[site][p]; ms < 0 {
				v.Measured[p] = placement.Measurement{Err: "refused"}
			} else {
				v.Measured[p] = placement.Measurement{RTT: time.Duration(ms) * time.Millisecond}
			}
		}
	}
}

// TestWorkedExample is that of papers 2.3, its ranges rounded to what prefixes can say: range 2
// around range 8, which is not delegated and has the ranges 11 of company 1 (worker x), 13 of
// company 2 (worker y), 14, which nobody has, and the unary 12.
func TestWorkedExample(t *testing.T) {
	const two, eight, eleven, thirteen, fourteen, twelve = "8.0.0.0/5", "14.0.0.0/7", "14.1.0.0/16", "14.2.0.0/16", "14.3.0.0/16", "15.10.0.7/32"
	ranges := tree(t, two, "registry", eight, "provider", eleven, "company 1", thirteen, "company 2", fourteen, "company 3", twelve, "company 4")
	tests := map[string]struct {
		rtt    map[string]int
		probed []string
		worker string
	}{
		"x is under T":                       {map[string]int{"x": 20, "y": 10}, []string{"x"}, "x"},
		"x is over T, y under":               {map[string]int{"x": 80, "y": 30}, []string{"x", "y"}, "y"},
		"nobody is under T: the smaller":     {map[string]int{"x": 80, "y": 70}, []string{"x", "y"}, "y"},
		"nobody is under T: the smaller too": {map[string]int{"x": 60, "y": 70}, []string{"x", "y"}, "x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ranges, "x", "y").delegated(eleven, "x", thirteen, "y").measures("15.10.0.7", tt.rtt)
			probed, worker := w.place(t, "15.10.0.7")
			if !slices.Equal(probed, tt.probed) || worker != tt.worker {
				t.Fatalf("probed %v, worker %s; want %v, %s", probed, worker, tt.probed, tt.worker)
			}
			for at, want := range map[string]string{eight: worker, twelve: worker, eleven: "x", thirteen: "y", fourteen: "", two: ""} {
				got := ""
				if record := w.memory.subnets[prefix(at)]; record != nil {
					got = record.Worker
				}
				if got != want {
					t.Errorf("%s is delegated to %q, want %q", at, got, want)
				}
			}
			if probed, again := w.place(t, "15.10.0.9"); len(probed) != 0 || again != worker {
				t.Errorf("another site of range 8: probed %v, worker %s", probed, again)
			}
		})
	}
}

// TestRules has a row for each rule of papers 2.3.
func TestRules(t *testing.T) {
	ranges := tree(t,
		"20.0.0.0/8", "", "20.1.0.0/16", "acme", "20.1.1.0/24", "sub", "20.1.1.128/25", "deep", "20.2.0.0/16", "other", "20.2.2.0/24", "other's child",
		"30.0.0.0/8", "acme", "40.0.0.0/8", "acme", "50.0.0.0/8", "far", "20.1.9.9/32", "acme",
	)
	far := map[string]int{"a": 90, "b": 80, "c": 70, "d": 60}
	tests := map[string]struct {
		delegated []string
		rtt       map[string]int
		probes    int
		first     []string // of the probes; what the tree does not name follows in no order
		worker    string
	}{
		"a delegated subnet costs no probe":                            {[]string{"20.1.0.0/16", "b", "30.0.0.0/8", "a"}, far, 0, nil, "b"},
		"the only worker of the organisation takes it unprobed":        {[]string{"30.0.0.0/8", "b", "40.0.0.0/8", "b", "20.2.0.0/16", "a"}, far, 0, nil, "b"},
		"of several of the organisation the first under T takes it":    {[]string{"30.0.0.0/8", "b", "40.0.0.0/8", "c"}, map[string]int{"b": 90, "c": 10}, 2, []string{"b", "c"}, "c"},
		"none of the organisation is under T: the search goes on":      {[]string{"30.0.0.0/8", "b", "40.0.0.0/8", "c", "20.2.0.0/16", "d"}, map[string]int{"b": 90, "c": 80, "d": 10}, 3, []string{"b", "c", "d"}, "d"},
		"below the subnet before around it":                            {[]string{"20.1.1.128/25", "b", "20.0.0.0/8", "c"}, map[string]int{"b": 10, "c": 5}, 1, []string{"b"}, "b"},
		"below, the nearest level first":                               {[]string{"20.1.1.128/25", "b", "20.1.1.0/24", "c"}, far, 4, []string{"c", "b"}, "d"},
		"the range around before its other children":                   {[]string{"20.2.0.0/16", "b", "20.0.0.0/8", "c"}, far, 4, []string{"c", "b"}, "d"},
		"a delegated range around is not inherited unprobed":           {[]string{"20.0.0.0/8", "c"}, map[string]int{"c": 10}, 1, []string{"c"}, "c"},
		"siblings before their children":                               {[]string{"20.2.2.0/24", "b", "20.2.0.0/16", "c"}, far, 4, []string{"c", "b"}, "d"},
		"out to the root":                                              {[]string{"50.0.0.0/8", "b"}, map[string]int{"b": 10}, 1, []string{"b"}, "b"},
		"who has several ranges is probed once":                        {[]string{"20.1.1.0/24", "b", "20.2.0.0/16", "b", "50.0.0.0/8", "b", "20.0.0.0/8", "b"}, map[string]int{"a": 60, "b": 70, "c": 80, "d": 90}, 4, []string{"b"}, "a"},
		"nobody is in the tree: brute force":                           {nil, far, 4, nil, "d"},
		"who cannot reach the site does not take it":                   {[]string{"20.2.0.0/16", "b", "50.0.0.0/8", "c"}, map[string]int{"a": -1, "b": -1, "c": 300, "d": -1}, 4, []string{"b", "c"}, "c"},
		"exactly T is not under T":                                     {[]string{"20.2.0.0/16", "b", "50.0.0.0/8", "c"}, map[string]int{"b": 50, "c": 49}, 2, []string{"b", "c"}, "c"},
		"the delegate is no candidate: probes, and an own choice":      {[]string{"20.1.0.0/16", "gone", "20.2.0.0/16", "b"}, map[string]int{"b": 10}, 1, []string{"b"}, "b"},
		"the organisation's only worker is no candidate: search":       {[]string{"30.0.0.0/8", "gone", "20.2.0.0/16", "b"}, map[string]int{"b": 10}, 1, []string{"b"}, "b"},
		"a worker that is no candidate is passed over":                 {[]string{"20.1.1.0/24", "gone", "20.2.0.0/16", "b"}, map[string]int{"b": 10}, 1, []string{"b"}, "b"},
		"of siblings those first whose address is nearer to the range": {[]string{"20.2.0.0/16", "c", "20.2.2.0/24", "a"}, far, 4, []string{"c", "a"}, "d"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ranges, "a", "b", "c", "d").delegated(tt.delegated...).measures("20.1.7.7", tt.rtt)
			probed, worker := w.place(t, "20.1.7.7")
			if worker != tt.worker || len(probed) != tt.probes || !slices.Equal(probed[:len(tt.first)], tt.first) {
				t.Errorf("probed %v, worker %s; want %d probes, first %v, worker %s", probed, worker, tt.probes, tt.first, tt.worker)
			}
			if again, second := w.place(t, "20.1.8.8"); len(again) != 0 || second != worker {
				t.Errorf("another site of the subnet: probed %v, worker %s, want no probe and %s", again, second, worker)
			}
		})
	}
}

func TestSoleWorkerProbed(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x", "30.0.0.0/8", "x"), "a", "b").delegated("30.0.0.0/8", "b").measures("20.0.0.1", map[string]int{"a": 20, "b": 80})
	w.machine.ProbeSole = true
	if probed, worker := w.place(t, "20.0.0.1"); worker != "a" || !slices.Equal(probed, []string{"b", "a"}) {
		t.Errorf("probed %v, worker %s; want b, then a, and a", probed, worker)
	}
}

func TestWorkersOwnSubnetsAreSeeded(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x", "30.0.0.0/8", "y"), "a", "b", "c")
	w.peers[0].Addr, w.peers[1].Addr, w.peers[2].Addr = addr("20.0.0.1"), addr("30.0.0.1"), addr("20.0.0.2")
	if probed, worker := w.place(t, "20.5.5.5"); len(probed) != 0 || worker != "a" {
		t.Errorf("beside a: probed %v, worker %s", probed, worker)
	}
	if probed, worker := w.place(t, "30.5.5.5"); len(probed) != 0 || worker != "b" {
		t.Errorf("beside b: probed %v, worker %s", probed, worker)
	}
}

func TestWhatNobodyReachesIsNotDelegated(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x"), "a", "b").measures("20.0.0.1", map[string]int{"a": -1, "b": -1}).
		measures("20.0.0.2", map[string]int{"a": 90, "b": 20})
	if _, worker := w.place(t, "20.0.0.1"); worker != "a" {
		t.Errorf("worker %s, want the owner", worker)
	}
	if _, worker := w.Worker(addr("20.0.0.1")); worker != "" {
		t.Errorf("the subnet is delegated to %s", worker)
	}
}

func TestSitesWithoutAddress(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x"), "a", "b", "c")
	v := placement.View{Host: "h", Candidates: w.peers, Measured: map[string]placement.Measurement{
		"a": {RTT: 90 * time.Millisecond}, "b": {RTT: 70 * time.Millisecond}, "c": {RTT: 80 * time.Millisecond},
	}}
	if c := w.Next(&v); c.Worker != "b" {
		t.Errorf("choice %+v, want b", c)
	}
	if len(w.memory.subnets) != 0 {
		t.Error("something was delegated")
	}
	v.Tiny, v.Known = true, "c"
	if c := w.Next(&v); c.Worker != "c" {
		t.Errorf("a host with few URLs: %+v, want the worker known", c)
	}
	v.Known, v.Site = "", addr("20.0.0.1")
	if c := w.Next(&v); c.Worker != "a" || len(w.memory.subnets) != 0 {
		t.Errorf("a host with few URLs: %+v, want the owner and no delegation", c)
	}
	if c := w.Next(&placement.View{}); c.Worker != "" || len(c.Probe) != 0 {
		t.Errorf("without candidates: %+v", c)
	}
}

func TestOverloadedAreNotChosen(t *testing.T) {
	w := newWorld(tree(t, "20.0.0.0/8", "x"), "a", "b").delegated("20.0.0.0/8", "b").measures("20.0.0.1", map[string]int{"a": 90})
	w.peers[1].Backlog, w.peers[1].Capacity = 100, 100
	if _, worker := w.place(t, "20.0.0.1"); worker != "a" {
		t.Errorf("worker %s, want a: b has no room", worker)
	}
	w.peers[1].Backlog = 0
	if _, worker := w.place(t, "20.0.0.1"); worker != "b" {
		t.Errorf("worker %s, want b: the delegation stands", worker)
	}
}

// remote is knowledge that comes in pieces, as from ring owners.
type remote struct {
	*Memory
	held map[Key]bool
}

func (r remote) Subnet(p netip.Prefix) (*Subnet, bool) {
	if !r.held[Key{Kind: KindSubnet, Prefix: p}] {
		return nil, false
	}
	return r.Memory.Subnet(p)
}

func (r remote) Index(k Key) (*Index, bool) {
	if !r.held[k] {
		return nil, false
	}
	return r.Memory.Index(k)
}

// TestRecordsFromElsewhere places with records that must be asked for, and comes to the same as
// with all at hand.
func TestRecordsFromElsewhere(t *testing.T) {
	ranges := tree(t,
		"20.0.0.0/8", "", "20.1.0.0/16", "acme", "20.1.1.0/24", "sub", "20.1.1.128/25", "deep", "20.2.0.0/16", "other", "20.2.2.0/24", "child",
		"30.0.0.0/8", "acme", "40.0.0.0/8", "acme", "20.1.7.7/32", "acme",
	)
	here := newWorld(ranges, "a", "b", "c", "d").delegated("20.1.1.128/25", "b", "20.2.2.0/24", "c", "30.0.0.0/8", "d", "40.0.0.0/8", "a")
	there := newWorld(ranges, "a", "b", "c", "d").delegated("20.1.1.128/25", "b", "20.2.2.0/24", "c", "30.0.0.0/8", "d", "40.0.0.0/8", "a")
	rtt := map[string]int{"a": 90, "b": 80, "c": 70, "d": 60}
	wantProbed, wantWorker := here.measures("20.1.7.7", rtt).place(t, "20.1.7.7")

	k := remote{there.memory, make(map[Key]bool)}
	v := placement.View{Host: "h", Site: addr("20.1.7.7"), Candidates: there.peers, Measured: make(map[string]placement.Measurement)}
	var probed []string
	var step Step
	rounds := 0
	for step.Worker == "" {
		step = there.machine.Next(&v, k)
		if len(step.Need) > 0 {
			rounds++
		}
		for _, key := range step.Need {
			if k.held[key] {
				t.Fatalf("%v is needed again", key)
			}
			k.held[key] = true
		}
		if step.Probe != "" {
			probed = append(probed, step.Probe)
			v.Measured[step.Probe] = placement.Measurement{RTT: time.Duration(rtt[step.Probe]) * time.Millisecond}
		}
	}
	there.memory.Merge(step.Changes)
	there.memory.Merge(step.Changes)
	if !slices.Equal(probed, wantProbed) || step.Worker != wantWorker {
		t.Errorf("probed %v, worker %s; want %v, %s", probed, step.Worker, wantProbed, wantWorker)
	}
	if rounds > 4 {
		t.Errorf("%d rounds of questions; one for the way to the root and one for each level below it that is not on the way are enough", rounds)
	}
	if a, b := encoded(t, here.memory), encoded(t, there.memory); !slices.Equal(a, b) {
		t.Errorf("records differ:\n%q\n%q", a, b)
	}
}
