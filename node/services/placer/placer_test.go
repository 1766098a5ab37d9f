package placer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

var quiet = slog.New(slog.DiscardHandler)

// leafSet is a ring in which a peer has neighbours, of which some are suspect; a owns everything.
type leafSet struct{ leaves, suspect []peer.ID }

func (l *leafSet) Leaves() (preds, succs []dht.Peer) {
	for _, id := range l.leaves {
		succs = append(succs, dht.Peer{ID: id})
	}
	return nil, succs
}

func (l *leafSet) Members() []dht.Peer {
	_, succs := l.Leaves()
	return succs
}

func (l *leafSet) Candidates(ring.Key) []dht.Peer { return nil }

func (l *leafSet) Attached() []dht.Peer { return nil }

func (l *leafSet) Attachments() []dht.Peer { return nil }

func (l *leafSet) Suspect(id peer.ID) bool { return slices.Contains(l.suspect, id) }

// idle is a worker with nothing to do.
type idle struct{}

func (idle) Backlog() int { return 0 }

func (idle) Capacity() int { return 10 }

func (idle) Visit(context.Context, netip.Addr) (leave func(), err error) { return func() {}, nil }

// bench is three peers, of which a owns what is placed, and c is nearer to all sites than b, and b
// than a.
type bench struct {
	ring   leafSet
	at     map[peer.ID]*Placer
	mu     sync.Mutex // guards asked: those that are asked are asked at once
	asked  []peer.ID
	paused map[peer.ID]bool
	out    map[peer.ID]bool // peers by whom the site is not crawled
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOf(t, Config{Strategy: "rtt"}, Deps{Log: quiet})
}

// benchOf is a bench by another strategy, with what that needs of the ring.
func benchOf(t *testing.T, cfg Config, d Deps) *bench {
	t.Helper()
	cfg.Probe, cfg.Delay = ProbeConnect, time.Second
	w := &bench{ring: leafSet{leaves: []peer.ID{"b", "c"}}, at: make(map[peer.ID]*Placer), paused: make(map[peer.ID]bool), out: make(map[peer.ID]bool)}
	for i, id := range []peer.ID{"a", "b", "c"} {
		pl, err := New(cfg, Deps{
			Records: d.Records, Where: d.Where, Log: d.Log,
			Self: id, Now: time.Now, Ring: &w.ring, Worker: idle{}, Sites: &fakeSites{took: time.Duration(90-30*i) * time.Millisecond},
			Net: rpc.CallerFunc(func(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
				w.mu.Lock()
				w.asked = append(w.asked, to)
				w.mu.Unlock()
				if service != rpc.ServiceWorker {
					t.Errorf("service %q is asked", service)
				}
				return w.at[to].ProbeService().Handle(ctx, id, req)
			}),
			Addrs: func(peer.ID) []string { return nil }, Paused: func() bool { return w.paused[id] },
			OptedOut: func(string) string {
				if w.out[id] {
					return "it opted out"
				}
				return ""
			},
			Robots: func(context.Context, string, string) (none robots.State) { return none },
		})
		if err != nil {
			t.Fatal(err)
		}
		w.at[id] = pl
	}
	return w
}

// TestPlace: the candidate that is nearest to a site crawls it, of those that may and would; who is
// paused or suspect is left alone.
func TestPlace(t *testing.T) {
	for name, row := range map[string]struct {
		before  func(w *bench)
		exclude []string
		want    peer.ID
		asked   []peer.ID
	}{
		"the nearest":          {func(*bench) {}, nil, "c", []peer.ID{"b", "c"}},
		"it would not":         {func(*bench) {}, []string{"c"}, "b", []peer.ID{"b"}},
		"it does not answer":   {func(w *bench) { w.ring.suspect = []peer.ID{"c"} }, nil, "b", []peer.ID{"b"}},
		"it is paused":         {func(w *bench) { w.paused["c"] = true }, nil, "b", []peer.ID{"b", "c"}},
		"it is known to pause": {func(w *bench) { w.at["a"].Declined("c", wire.PausedText) }, nil, "b", []peer.ID{"b"}},
		"its lists forbid it":  {func(w *bench) { w.out["c"] = true }, nil, "b", []peer.ID{"b", "c"}},
		"alone":                {func(w *bench) { w.ring.leaves = nil }, nil, "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w := newBench(t)
				row.before(w)
				got := w.at["a"].Place(t.Context(), owner.Place{Host: "h1.example", Exclude: row.exclude})
				slices.Sort(w.asked)
				if got.Worker != string(row.want) || !slices.Equal(w.asked, row.asked) {
					t.Errorf("at %q (%s) after asking %q, want %q after %q", got.Worker, got.Why, w.asked, row.want, row.asked)
				}
			})
		})
	}
}

// watchedRing says when it is asked under a mutex.
type watchedRing struct {
	leafSet
	watch func(what string)
}

func (r *watchedRing) Leaves() (preds, succs []dht.Peer) {
	r.watch("Leaves")
	return r.leafSet.Leaves()
}

func (r *watchedRing) Candidates(ring.Key) []dht.Peer {
	r.watch("Candidates")
	return []dht.Peer{{ID: "d"}, {ID: "b"}}
}

func (r *watchedRing) Suspect(id peer.ID) bool {
	r.watch("Suspect")
	return r.leafSet.Suspect(id)
}

// TestRingIsAskedWithoutTheMutex: what worker reports and other placements need is not held while
// the ring is asked for candidates.
func TestRingIsAskedWithoutTheMutex(t *testing.T) {
	w := newBench(t)
	pl := w.at["a"]
	asked := make(map[string]int)
	watch := func(what string) {
		asked[what]++
		if !pl.mu.TryLock() {
			t.Errorf("%s is asked with the mutex held", what)
			return
		}
		pl.mu.Unlock()
	}
	pl.strategy = new(placement.Geo) // it uses addresses
	pl.deps.Ring = &watchedRing{leafSet{leaves: []peer.ID{"b", "c"}, suspect: []peer.ID{"c"}}, watch}
	pl.deps.Addrs = func(id peer.ID) []string {
		watch("Addrs")
		return []string{"/ip4/192.0.2." + map[peer.ID]string{"a": "1", "b": "2", "d": "4"}[id] + "/tcp/1"}
	}
	pl.SetLoad("b", 3, 10)
	pl.SetLoad("e", 3, 10)
	for range 2 {
		var got []string
		for _, c := range pl.candidates(ring.Key{}, nil) {
			got = append(got, fmt.Sprint(c.Peer, " ", c.Addr, " ", c.Backlog))
		}
		if want := []string{"a 192.0.2.1 0", "b 192.0.2.2 3", "d 192.0.2.4 0"}; !slices.Equal(got, want) {
			t.Errorf("candidates %q, want %q", got, want)
		}
	}
	if asked["Leaves"] == 0 || asked["Candidates"] == 0 || asked["Suspect"] == 0 || asked["Addrs"] != 6 {
		t.Errorf("asked %v, want each", asked)
	}
	if len(pl.loads) != 1 {
		t.Errorf("loads %v, want that of the candidate alone", pl.loads)
	}
}

// TestBeyondTheLeafSet: a member of the ring that samples say is near to a site is asked, though it
// is no neighbour; one that does not answer, would not take the host or is no member is left alone.
func TestBeyondTheLeafSet(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newBench(t)
		pl := w.at["a"]
		s := adaptive.New(0)
		pl.strategy, pl.samples = s, newSampleGossip(s, &pl.mu, &pl.deps)
		pl.deps.Ring = &widerRing{leafSet{leaves: []peer.ID{"b"}}}
		for i := range 20 {
			l := adaptive.Sample{Host: fmt.Sprintf("s%d.example", i), Site: siteAddr, Whole: true, Worth: 1}
			for k, id := range []string{"a", "b", "c", "gone"} {
				l.RTTs = append(l.RTTs, adaptive.PeerRTT{Peer: id, RTT: time.Duration(90-20*k) * time.Millisecond})
			}
			s.Learn(time.Now(), &l)
		}
		for i, row := range []struct {
			exclude []string
			want    string
		}{{nil, "c"}, {[]string{"c"}, "b"}, {nil, "b"}} { // the last one while c is left alone
			got := pl.Place(t.Context(), owner.Place{Host: fmt.Sprintf("h%d.example", i), Addrs: [][]byte{siteAddr.AsSlice()}, Exclude: row.exclude, Pending: 100})
			if got.Worker != row.want {
				t.Errorf("%d: at %q (%s), want %q", i, got.Worker, got.Why, row.want)
			}
		}
		time.Sleep(restingFor)
		if got := pl.Place(t.Context(), owner.Place{Host: "h9.example", Addrs: [][]byte{siteAddr.AsSlice()}, Pending: 100}); got.Worker != "c" {
			t.Errorf("after its rest: at %q (%s)", got.Worker, got.Why)
		}
		if slices.Contains(w.asked, "gone") {
			t.Error("somebody is asked who is no member")
		}
	})
}

// widerRing has a member beyond the leaf set.
type widerRing struct{ leafSet }

func (r *widerRing) Members() []dht.Peer { return append(r.leafSet.Members(), dht.Peer{ID: "c"}) }

// TestPausedPeerIsAskedAgain: after its rest one host may try it.
func TestPausedPeerIsAskedAgain(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newBench(t)
		w.at["a"].Declined("c", wire.PausedText)
		w.at["a"].Declined("b", "no more hosts")
		time.Sleep(restingFor)
		for _, want := range []int{3, 2} {
			if list := w.at["a"].candidates(ring.Key{}, nil); len(list) != want {
				t.Errorf("%d candidates, want %d", len(list), want)
			}
		}
		w.at["a"].SetLoad("c", 1, 10)
		if list := w.at["a"].candidates(ring.Key{}, nil); len(list) != 3 || list[2].Backlog != 1 {
			t.Errorf("candidates %+v, want c among them, which has gone on", list)
		}
	})
}

// TestProbesAreForTheOwner: a site is measured for the peer alone that owns the host.
func TestProbesAreForTheOwner(t *testing.T) {
	for _, method := range []string{ProbeHead, ProbeConnect} {
		crawltest.Bubble(t, func(t *testing.T) {
			w := newBench(t)
			serve := w.at["c"].ProbeService().Behind(rpctest.Members{Owner: "a"})
			for from, fails := range map[peer.ID]bool{"a": false, "b": true} {
				via := rpc.CallerFunc(func(ctx context.Context, _ peer.ID, _ string, req []byte) ([]byte, error) {
					return serve(ctx, from, req)
				})
				reply, err := ProbeMethod.Call(t.Context(), via, "c", &wire.Probe{Host: "h1.example", Scheme: "http", Method: method})
				if refused := strings.Contains(reply.GetError(), "not the host's owner"); err != nil || refused != fails {
					t.Errorf("%s for %s: %q, %v", method, from, reply.GetError(), err)
				}
			}
		})
	}
}

// TestHandlersOfOtherStrategies: a peer refuses the gossip of strategies that it does not place by.
func TestHandlersOfOtherStrategies(t *testing.T) {
	w := newBench(t)
	for name, service := range map[string]rpc.Service{"coordinates": w.at["a"].CoordinatesService(), "samples": w.at["a"].SamplesService()} {
		if _, err := service.Handle(t.Context(), "b", nil); !rpc.Refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ms, _ := w.at["a"].Distance("b"); ms != nil {
		t.Errorf("a distance of %v ms, of a peer that keeps no coordinate", *ms)
	}
}
