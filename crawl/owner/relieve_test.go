package owner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestOverloadedWorkersAreRelieved (design, section 5): a worker with its hands full loses the host
// whose measurements vary least, one at a time, as long as somebody else has room, and is not
// offered it again.
func TestOverloadedWorkersAreRelieved(t *testing.T) {
	ms := func(peers string, rtts ...int64) (list []owner.Measurement) {
		for i, rtt := range rtts {
			list = append(list, owner.Measurement{Peer: peers[i : i+1], RTTUs: 1000 * rtt})
		}
		return list
	}
	failed := func(list []owner.Measurement) []owner.Measurement {
		list[1].Error = "refused"
		return list
	}
	full := &wire.Session{Capacity: 100, Backlog: 95}
	for name, tt := range map[string]struct {
		measured map[string][]owner.Measurement // of hosts at worker w
		others   map[string]*wire.Session
		load     *wire.Session
		want     string // in the order in which they are given back
	}{
		"the least variance first": {
			map[string][]owner.Measurement{"a": ms("wx", 10, 90), "b": ms("wx", 30, 33), "c": ms("wx", 10, 40)}, nil, full, "b c a",
		},
		"one that could not reach the site tells nothing": { // the means of w and x stand in for b: 20 and 65
			map[string][]owner.Measurement{"a": ms("wx", 10, 90), "b": failed(ms("wx", 30, 33)), "c": ms("wx", 20, 40)}, nil, full, "c b a",
		},
		"the means stand in for what was not measured": { // 10 and 65
			map[string][]owner.Measurement{"a": nil, "b": ms("wx", 10, 90), "c": ms("wx", 10, 40)}, nil, full, "c a b",
		},
		"nothing was measured": {
			map[string][]owner.Measurement{"b": nil, "a": nil}, nil, full, "a b",
		},
		"nobody has room": {
			map[string][]owner.Measurement{"a": ms("wx", 10, 90)}, map[string]*wire.Session{"x": full, "self": full}, full, "",
		},
		"somebody has": {
			map[string][]owner.Measurement{"a": ms("wxy", 10, 90, 80)}, map[string]*wire.Session{"x": full, "self": full}, full, "a",
		},
		"a hand is free": {
			map[string][]owner.Measurement{"a": ms("wx", 10, 90)}, nil, &wire.Session{Capacity: 100, Backlog: 89}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil)
			var hosts, given []string
			epochs := make(map[string]*wire.Epoch)
			for label, measured := range tt.measured {
				host := label + ".example"
				hosts = append(hosts, host)
				for _, p := range s.post(0, pages(host, 40)...).Places {
					s.do(func(o *owner.Owner) { o.Placed(p.Host, owner.Placement{Worker: "w", Measured: measured, Why: "test"}) })
				}
				epochs[host] = s.ask("w", host, nil, 1).GetEpoch()
			}
			slices.Sort(hosts)
			for range 4 {
				for id, load := range tt.others {
					s.say(id, &wire.Session{Capacity: load.Capacity, Backlog: load.Backlog})
				}
				for _, host := range hosts {
					if slices.Contains(given, host) {
						continue
					}
					reply, _ := s.say("w", &wire.Session{
						Capacity: tt.load.Capacity, Backlog: tt.load.Backlog, Held: []*wire.HostLease{{Host: host, Epoch: epochs[host]}},
						Hosts: []*wire.HostWork{{Host: host, Epoch: epochs[host], Want: 1}},
					})
					if reply.GetGrants()[0].GetGiveBack() {
						given = append(given, host)
					}
				}
				s.now = s.now.Add(time.Second)
			}
			if got := strings.ReplaceAll(strings.Join(given, " "), ".example", ""); got != tt.want && !strings.HasPrefix(tt.want, got+" ") || (got == "") != (tt.want == "") {
				t.Errorf("%q are given back, want %q", got, tt.want)
			}
		})
	}
}

// TestARelievedHostGoesElsewhere: the worker that had it is excluded, and a person is told why.
func TestARelievedHostGoesElsewhere(t *testing.T) {
	s := newScene(t, nil)
	measured := []owner.Measurement{{Peer: "w", RTTUs: 10_000}, {Peer: "x", RTTUs: 12_000}}
	s.placeFor(s.post(0, pages("a.example", 40)...), owner.Placement{Worker: "w", Measured: measured, Why: "near"})
	g := s.ask("w", "a.example", nil, 1)
	reply, _ := s.say("w", &wire.Session{
		Capacity: 10, Backlog: 10, Held: []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}},
		Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Want: 1}},
	})
	if back := reply.GetGrants()[0]; !back.GetGiveBack() || len(back.GetUrl()) > 0 {
		t.Fatalf("granted %v", back)
	}
	ready := s.giveBack("w", g, 0)
	if len(ready.Places) == 0 {
		ready = s.wait(time.Second)
	}
	if len(ready.Places) != 1 || fmt.Sprint(ready.Places[0].Exclude) != "[w]" || ready.Places[0].Remeasure || !ready.Places[0].Relieved || ready.Places[0].Known != "w" || len(ready.Places[0].Measured) != 2 {
		t.Fatalf("places %+v", ready.Places)
	}
	s.placeFor(ready, owner.Placement{Worker: "x", Measured: measured, Why: "next"})
	if d, _ := s.owner.Host("a.example"); d.Placed != "x" || !strings.Contains(d.PlacedWhy, "overloaded") {
		t.Errorf("at %s: %q", d.Placed, d.PlacedWhy)
	}
	s.ask("x", "a.example", nil, 1)
	s.placeFor(s.post(0, pages("b.example", 40)...), owner.Placement{Worker: "x", Why: "first"})
	if d, _ := s.owner.Host("b.example"); d.PlacedWhy != "first" {
		t.Errorf("%q", d.PlacedWhy)
	}
}
