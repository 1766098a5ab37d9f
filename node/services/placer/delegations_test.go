package placer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/services/subnets"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// ledger is a ring's records in one place.
type ledger struct {
	mu    sync.Mutex
	store *subnets.Store
	asked int  // records
	deaf  bool // nobody answers
	left  map[peer.ID]bool
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	store, err := subnets.New(storagetest.New(t).Keyspace(storage.KeyspaceSubnets))
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{store: store, left: make(map[peer.ID]bool)}
}

func (l *ledger) Ask(_ context.Context, wants []subnets.Want) map[ipmicra.Key]subnets.Found {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(map[ipmicra.Key]subnets.Found)
	for _, w := range wants {
		l.asked++
		if _, err := subnets.ParseKey(byte(w.Key.Kind), subnets.Name(w.Key)); err != nil {
			panic(err) // no peer would answer
		}
		raw, err := l.store.Get(w.Key)
		switch {
		case l.deaf || err != nil:
		case raw != nil && subnets.Digest(raw) == w.Held:
			found[w.Key] = subnets.Found{Same: true}
		default:
			found[w.Key] = subnets.Found{Raw: raw}
		}
	}
	return found
}

func (l *ledger) Store(_ context.Context, c ipmicra.Changes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf {
		return errors.New("nobody is there")
	}
	_, err := l.store.Merge(time.Now(), c)
	return err
}

func (l *ledger) Gone(_ context.Context, id peer.ID) bool { return l.left[id] }

// worker is whom a subnet is delegated to.
func (l *ledger) worker(t *testing.T, p string) string {
	t.Helper()
	raw, err := l.store.Get(ipmicra.Key{Kind: ipmicra.KindSubnet, Prefix: netip.MustParsePrefix(p)})
	if err != nil {
		t.Fatal(err)
	}
	if raw == nil {
		return ""
	}
	record, err := ipmicra.ParseSubnet(raw)
	if err != nil {
		t.Fatal(err)
	}
	return record.Worker
}

// world is one of owners that share a ledger.
type world struct {
	*ledger
	owners map[string]*delegations
	far    map[string]map[string]time.Duration // from a peer to a site; a peer without one does not reach it
}

// newWorld: the networks are two of one organisation, and everything else is nobody's.
func newWorld(t *testing.T, ids ...string) *world {
	t.Helper()
	tree, err := ipmicra.Build([]registry.Network{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Org: "org"},
		{Prefix: netip.MustParsePrefix("10.2.0.0/16"), Org: "org"},
		{Prefix: netip.MustParsePrefix("10.3.0.0/16"), Org: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ledger: newLedger(t), owners: make(map[string]*delegations), far: make(map[string]map[string]time.Duration)}
	for i, id := range ids {
		w.owners[id] = newDelegations(tree, id, w, quiet)
		w.far[id] = make(map[string]time.Duration)
		for _, site := range []string{"10.1.0.1", "10.1.9.9", "10.2.0.1", "10.3.0.1", "192.0.2.1"} {
			w.far[id][site] = time.Duration(100-30*i) * time.Millisecond // the last is the nearest
		}
	}
	return w
}

// place has an owner place a host, with the given candidates behind itself.
func (w *world) place(t *testing.T, by, site string, others []string, change func(*owner.Place, *placement.View)) (placement.Choice, int) {
	t.Helper()
	p := &owner.Place{Host: "h.example"}
	v := &placement.View{Now: time.Now(), Host: p.Host, Site: netip.MustParseAddr(site), Measured: make(map[string]placement.Measurement)}
	for _, id := range append([]string{by}, others...) {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: id, Self: id == by})
	}
	if change != nil {
		change(p, v)
	}
	s := w.owners[by].search(p)
	defer s.end()
	for probes := range 10 {
		c := s.next(t.Context(), v)
		if len(c.Probe) == 0 {
			return c, probes
		}
		m := placement.Measurement{Err: "no answer"}
		if rtt, ok := w.far[c.Probe[0]][site]; ok {
			m = placement.Measurement{RTT: rtt}
		}
		v.Measured[c.Probe[0]] = m
	}
	t.Fatal("the search has no end")
	return placement.Choice{}, 0
}

func tiny(_ *owner.Place, v *placement.View) { v.Tiny = true }

// slowAt is a host that was placed at a worker some time ago, and has become slow.
func slowAt(worker string, ago time.Duration) func(*owner.Place, *placement.View) {
	return func(p *owner.Place, _ *placement.View) {
		p.Remeasure, p.Known, p.MeasuredAt = true, worker, time.Now().Add(-ago)
	}
}

// relieved is a host that was taken from a worker that had its hands full.
func relieved(worker string) func(*owner.Place, *placement.View) {
	return func(p *owner.Place, _ *placement.View) { p.Relieved, p.Known = true, worker }
}

// TestDelegationsAreShared (papers 2.5): what one owner learnt serves the others, as far as their
// candidates allow.
func TestDelegationsAreShared(t *testing.T) {
	all := []string{"a", "b", "c"}
	but := func(id string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == id })
	}
	type placed struct {
		by, site string
		others   []string
		change   func(*owner.Place, *placement.View)
		worker   string
		probed   bool
		why      string
	}
	for _, row := range []struct {
		name   string
		before func(w *world)
		steps  []placed
	}{
		{"the second host of a subnet", nil, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, "10.1.0.0/16 is delegated to it now"},
			{"b", "10.1.9.9", but("b"), nil, "c", false, "10.1.0.0/16 is delegated to it"},
		}},
		{"another subnet of an organisation", nil, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"b", "10.2.0.1", but("b"), nil, "c", false, "the only worker of org; 10.2.0.0/16 is delegated to it now"},
		}},
		{"a neighbour's worker is probed first", nil, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"b", "10.3.0.1", but("b"), nil, "c", true, "worker of 10.1.0.0/16"},
		}},
		{"a range that nobody registered", nil, []placed{
			{"a", "192.0.2.1", but("a"), nil, "c", true, "192.0.2.0/24 is delegated to it now"},
			{"b", "192.0.2.1", but("b"), nil, "c", false, "192.0.2.0/24 is delegated to it"},
		}},
		{"the delegate is no candidate elsewhere", nil, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"b", "10.1.9.9", []string{"a"}, nil, "b", true, "local choice"},
			{"b", "10.1.0.1", []string{"a"}, nil, "b", false, "is delegated to a peer"},
			{"b", "10.1.0.1", but("b"), nil, "c", false, "10.1.0.0/16 is delegated to it"},
		}},
		{"the delegate is gone", func(w *world) { w.left["c"] = true }, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"b", "10.1.9.9", []string{"a"}, nil, "b", true, "its worker left"},
			{"a", "10.1.9.9", []string{"b"}, nil, "b", false, "10.1.0.0/16 is delegated to it"},
		}},
		{"the delegate declined", func(w *world) { w.left["c"] = true }, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"b", "10.1.9.9", []string{"a"}, func(p *owner.Place, _ *placement.View) { p.Exclude = []string{"c"} }, "b", true, "local choice"},
		}},
		{"the delegate has its hands full", func(w *world) {
			w.far["b"]["10.1.0.1"] = 80 * time.Millisecond
			w.far["c"]["10.1.0.1"] = 60 * time.Millisecond
		}, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"a", "10.1.9.9", []string{"b"}, relieved("b"), "b", false, "local choice"}, // not the subnet's worker
			{"a", "10.1.0.1", []string{"b"}, relieved("c"), "b", false, "overloaded"},
			{"b", "10.1.9.9", but("b"), nil, "b", false, "10.1.0.0/16 is delegated to it"},
		}},
		{"the delegate has its hands full, and nobody else measured the subnet", nil, []placed{
			{"c", "10.1.0.1", nil, nil, "c", true, ""},
			{"a", "10.1.0.1", []string{"b"}, relieved("c"), "b", true, "local choice"},
		}},
		{"few URLs", nil, []placed{
			{"a", "10.1.0.1", but("a"), tiny, "a", false, "few URLs"},
			{"b", "10.1.0.1", but("b"), nil, "c", true, ""},
			{"a", "10.1.9.9", but("a"), tiny, "c", false, "10.1.0.0/16 is delegated to it"},
		}},
		{"nobody reaches the site", func(w *world) { clear(w.far["a"]); clear(w.far["b"]); clear(w.far["c"]) }, []placed{
			{"a", "10.1.0.1", but("a"), nil, "a", true, "the owner keeps the host"},
			{"b", "10.1.0.1", but("b"), nil, "b", true, "the owner keeps the host"},
		}},
		{"the ring is out of reach", func(w *world) { w.deaf = true }, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, "unavailable"},
			{"a", "10.1.9.9", but("a"), nil, "c", false, "10.1.0.0/16 is delegated to it"}, // it knows by itself
			{"b", "10.1.0.1", but("b"), nil, "c", true, "unavailable"},
		}},
		{"a host became slow", nil, []placed{
			{"a", "10.1.0.1", but("a"), nil, "c", true, ""},
			{"a", "10.1.9.9", but("a"), slowAt("c", 500*time.Millisecond), "c", true, "became slower"},
			{"a", "10.1.0.1", but("a"), slowAt("c", time.Hour), "c", false, "10.1.0.0/16 is delegated to it"}, // that is done already
			{"a", "10.1.0.1", but("a"), slowAt("b", 500*time.Millisecond), "c", false, "10.1.0.0/16 is delegated to it"},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, all...)
				if row.before != nil {
					row.before(w)
				}
				for i, s := range row.steps {
					time.Sleep(time.Second)
					c, probes := w.place(t, s.by, s.site, s.others, s.change)
					if c.Worker != s.worker || (probes > 0) != s.probed || !strings.Contains(c.Why, s.why) {
						t.Errorf("host %d: worker %q after %d probes, %q; want %q, probed %v, %q", i, c.Worker, probes, c.Why, s.worker, s.probed, s.why)
					}
				}
			})
		})
	}
}

// TestOwnSubnet (papers 2.1): who comes first has the subnet that it lives in, and its neighbours'
// sites are asked of it first.
func TestOwnSubnet(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	for _, id := range []string{"b", "c"} {
		if err := w.owners[id].seed(t.Context(), netip.MustParseAddr("10.1.0.7")); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.worker(t, "10.1.0.0/16"); got != "b" {
		t.Errorf("delegated to %q, want b, who came first", got)
	}
	w.far["b"]["10.3.0.1"] = 10 * time.Millisecond
	if c, probes := w.place(t, "a", "10.3.0.1", []string{"b", "c"}, nil); c.Worker != "b" || probes != 1 {
		t.Errorf("a site next to b: %q after %d probes, want b after 1", c.Worker, probes)
	}
	w.deaf = true
	if err := w.owners["a"].seed(t.Context(), netip.MustParseAddr("10.2.0.7")); err == nil {
		t.Error("seeded on a ring that is out of reach")
	}
}

// TestOwnSubnetIsTold: a peer says where it is until the ring has heard it, and again when it is
// elsewhere.
func TestOwnSubnetIsTold(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.deaf = true
		var mu sync.Mutex
		addr := netip.Addr{}
		move := func(to string, deaf bool) {
			mu.Lock()
			addr = netip.MustParseAddr(to)
			mu.Unlock()
			w.mu.Lock()
			w.deaf = deaf
			w.mu.Unlock()
			time.Sleep(2 * whereEvery)
			synctest.Wait()
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- w.owners["a"].run(ctx, func() netip.Addr {
				mu.Lock()
				defer mu.Unlock()
				return addr
			})
		}()
		move("10.1.0.1", true)
		move("10.1.0.1", false)
		move("10.3.0.1", false)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, p := range []string{"10.1.0.0/16", "10.3.0.0/16"} {
			if got := w.worker(t, p); got != "a" {
				t.Errorf("%s is delegated to %q", p, got)
			}
		}
	})
}

// TestSearchesTakeTurns: of hosts of one subnet that are placed at once only the first is searched
// for, and one that finds no end holds nobody up for long.
func TestSearchesTakeTurns(t *testing.T) {
	for name, ends := range map[string]bool{"the first ends": true, "the first hangs": false} {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, "a")
				view := func() *placement.View {
					return &placement.View{
						Now: time.Now(), Site: netip.MustParseAddr("10.1.0.1"), Measured: make(map[string]placement.Measurement),
						Candidates: []placement.Candidate{{Peer: "a", Self: true}},
					}
				}
				first, v := w.owners["a"].search(&owner.Place{}), view()
				if c := first.next(t.Context(), v); !slices.Equal(c.Probe, []string{"a"}) {
					t.Fatalf("the first probes %v", c.Probe)
				}
				began := time.Now()
				var second placement.Choice
				var wg sync.WaitGroup
				wg.Go(func() {
					s := w.owners["a"].search(&owner.Place{})
					defer s.end()
					second = s.next(t.Context(), view())
				})
				time.Sleep(time.Second)
				if ends {
					v.Measured["a"] = placement.Measurement{RTT: time.Millisecond}
					first.next(t.Context(), v)
					first.end()
				}
				wg.Wait()
				waited := time.Since(began)
				if ends && (second.Worker != "a" || waited != time.Second) || !ends && (len(second.Probe) != 1 || waited != turnTime) {
					t.Errorf("the second after %v: %+v", waited, second)
				}
			})
		})
	}
}

// TestRecordsAreAskedOnce: what was asked a moment ago is not asked again, and later only whether
// it has changed.
func TestRecordsAreAskedOnce(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		asked := func(site string) int {
			before := w.asked
			w.place(t, "a", site, []string{"b", "c"}, nil)
			return w.asked - before
		}
		first := asked("10.1.0.1")
		if again := asked("10.1.9.9"); first < 5 || again != 0 {
			t.Errorf("%d records asked for, and %d for the next host of the subnet; want some, and none", first, again)
		}
		if beside := asked("10.3.0.1"); beside == 0 || beside >= first {
			t.Errorf("%d records asked for beside, after %d; want some of them", beside, first)
		}
		time.Sleep(delegatedAge)
		if again := asked("10.1.9.9"); again != 1 {
			t.Errorf("%d records asked for later, want that of the subnet", again)
		}
	})
}

// TestLoadTree: the error of a hierarchy names its file; without one every /24 is a range.
func TestLoadTree(t *testing.T) {
	if _, err := loadTree("no/such/file"); err == nil || !strings.Contains(err.Error(), "no/such/file") {
		t.Errorf("no such file: %v", err)
	}
	tree, err := loadTree("")
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := tree.Locate(netip.MustParseAddr("192.0.2.77")); !ok || fmt.Sprint(at.Subnet) != "192.0.2.0/24" || at.Organisation != "" {
		t.Errorf("without a hierarchy: %+v, %v", at, ok)
	}
}
