package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
)

// TestRecordsMove (invariants 2 and 3): whatever comes and goes, each record is at the peer that
// serves it, once, and at its replicas.
func TestRecordsMove(t *testing.T) {
	for _, row := range []struct {
		name   string
		ids    []peer.ID
		change func(t *testing.T, w *keepers)
	}{
		{"nothing", []peer.ID{"a", "b", "c"}, func(*testing.T, *keepers) {}},
		{"a second peer joins", []peer.ID{"a"}, func(t *testing.T, w *keepers) {
			w.start(t, "b")
			w.set("a", "b")
		}},
		{"two join at once", []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
			w.start(t, "c")
			w.start(t, "d")
			w.set("a", "b", "c", "d")
		}},
		{"one dies", []peer.ID{"a", "b", "c", "d"}, func(_ *testing.T, w *keepers) {
			w.kill("b")
			w.set("a", "c", "d")
		}},
		{"two die at once", []peer.ID{"a", "b", "c", "d"}, func(_ *testing.T, w *keepers) {
			w.kill("b", "c")
			w.set("a", "d")
		}},
		{"one leaves", []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
			w.peers["a"].watch.Goodbye("b")
			w.peers["c"].watch.Goodbye("b")
			w.set("a", "c")
			if err := w.peers["b"].keeping.HandOver(t.Context()); err != nil {
				t.Error(err)
			}
			for _, space := range replicated {
				if left := w.peers["b"].positions(t, space.Prefix); len(left) > 0 {
					t.Errorf("who left keeps %d positions", len(left))
				}
			}
			for _, id := range []peer.ID{"a", "c"} {
				if got := w.peers[id].copyOf(t, "b"); len(got) > 0 {
					t.Errorf("%s keeps %d records of who left", id, len(got))
				}
			}
			w.kill("b")
		}},
		{"one is thought dead for a while", []peer.ID{"a", "b", "c"}, func(_ *testing.T, w *keepers) {
			w.peers["a"].seat.believe("a", "c")
			w.peers["c"].seat.believe("a", "c")
			w.poke()
			w.rest()
			w.peers["a"].seat.believe()
			w.peers["c"].seat.believe()
			w.poke()
		}},
		{"the ring changes while records move", []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
			w.start(t, "c")
			for i := range 6 {
				w.set([][]peer.ID{{"a", "b", "c"}, {"a", "b"}, {"a", "c", "b"}}[i%3]...)
				time.Sleep(time.Duration(i) * 30 * time.Millisecond)
			}
			w.set("a", "b", "c")
		}},
		{"pushes break off", []peer.ID{"a"}, func(t *testing.T, w *keepers) {
			var n atomic.Int64
			w.net.set(func() {
				broken := func(_ context.Context, m crossing) error {
					if m.service == ServiceRecords && n.Add(1)%2 == 0 {
						return errors.New("broken off")
					}
					return nil
				}
				w.net.going, w.net.coming = broken, broken
			})
			w.start(t, "b")
			w.set("a", "b")
			time.Sleep(5 * time.Second)
			w.net.set(func() { w.net.going, w.net.coming = nil, nil })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 20, row.ids, func(t *testing.T, w *keepers) {
				before := w.urls(t)
				row.change(t, w)
				w.poke()
				for range 4 { // what nobody tells of is found by the walk that comes now and then
					w.rest()
				}
				w.check(t)
				if after := w.urls(t); after != before || before != 60 {
					t.Errorf("%d URLs accepted, %d before", after, before)
				}
			})
		})
	}
}

// TestLiarsTakeNothing: of one that comes into the ring, says that it has what it is handed, and
// has nothing, all is there again when it is gone: at once, or after less than an hour.
func TestLiarsTakeNothing(t *testing.T) {
	unraced(t)
	times := []time.Duration{20 * time.Second, 50 * time.Minute}
	if os.Getenv("APOIDEA_FULL") == "" {
		times = times[:1]
	}
	for _, stays := range times {
		inKeepers(t, 20, []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
			before := w.urls(t)
			w.net.at("d", map[string]calls.Handler{
				ServiceRecords: func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, nil },
			})
			w.set("a", "b", "c", "d")
			for range int(stays / (10 * time.Second)) {
				w.rest()
			}
			if during := w.urls(t); during == before {
				t.Fatal("nothing was handed to it")
			}
			w.net.at("d", nil)
			for _, next := range []peer.ID{"e", "d1", "d2"} { // others come in its place, and take nothing
				w.net.at(next, map[string]calls.Handler{
					ServiceRecords: func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, rpc.Busy("not now") },
				})
				w.set("a", "b", "c", next)
				w.rest()
				w.rest()
				w.net.at(next, nil)
			}
			w.set("a", "b", "c")
			for range 8 {
				w.rest()
			}
			w.check(t)
			if after := w.urls(t); after != before {
				t.Errorf("after %v: %d URLs, %d before", stays, after, before)
			}
		})
	}
}

// TestKeptForAnHour: what nobody shows is kept no longer than that.
func TestKeptForAnHour(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	inKeepers(t, 20, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		w.net.at("d", map[string]calls.Handler{
			ServiceRecords: func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, nil },
		})
		w.set("a", "b", "d")
		kept := func() (n int) {
			for _, p := range w.peers {
				n += len(p.copyOf(t, handoff.Kept("d")))
			}
			return n
		}
		w.rest()
		if kept() == 0 {
			t.Error("nothing is kept")
		}
		for range 7 * 60 {
			w.rest()
		}
		if n := kept(); n > 0 {
			t.Errorf("%d records are kept for over an hour", n)
		}
	})
}

// TestMovesWaitForNoCompany: who is not of the ring any more is rid of its hosts before the time
// has passed for which entries wait for others.
func TestMovesWaitForNoCompany(t *testing.T) {
	inKeepers(t, 0, []peer.ID{"a", "b", "c", "d"}, func(t *testing.T, w *keepers) {
		for id, p := range w.peers { // so that followers have just been sent something; and less than fills a message
			if _, err := p.owners.Links(t.Context(), w.links(fmt.Sprintf("http://%s/", w.hostOf(id)))); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		w.set("a", "b", "c")
		for len(w.peers["d"].positions(t, storage.KeyspaceHosts)) > 0 && time.Since(begin) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took >= 100*time.Millisecond {
			t.Errorf("a host took %v", took)
		}
	})
}

// TestCopiesOfURLsThatMove: links and smaller depths come while followers are made level, so URLs
// that wait are met by the scan before, while and after they move.
func TestCopiesOfURLsThatMove(t *testing.T) {
	ids := []peer.ID{"2g", "2h", "2i"}
	inKeepers(t, 0, ids, func(t *testing.T, w *keepers) {
		host := w.hostOf("2g")
		w.addHost(t, host, 150)
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				links := w.links()
				for i := range 10 {
					page := n*31 + i*7
					links.Url, links.Job = append(links.Url, fmt.Appendf(nil, "http://%s/q%d", host, page%300)), append(links.Job, 0)
					links.Depth = append(links.Depth, uint32(300-page%290))
				}
				if _, err := w.peers["2g"].owners.Links(ctx, links); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
		for range 10 {
			w.set("2g", "2h")
			time.Sleep(300 * time.Millisecond)
			w.set(ids...)
			time.Sleep(700 * time.Millisecond)
		}
		cancel()
		writer.Wait()
		w.rest()
		w.check(t)
		if n := w.urls(t); n < 450 {
			t.Errorf("%d URLs, want 450", n)
		}
	})
}

// TestKeepingStops: it ends whatever is under way, and nothing of it is left.
func TestKeepingStops(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		w.net.set(func() { w.net.going = hold })
		w.start(t, "c")
		w.set("a", "b", "c")
		time.Sleep(time.Second)
		for _, p := range w.peers { // pushes, questions and messages to replicas are all held back
			p.stop()
		}
		if w.net.calls(ServiceRecords) == 0 || w.net.calls(ServiceReplica) == 0 {
			t.Error("nothing was under way")
		}
	})
}

// TestHandOverInTime: a peer that leaves says so when it could not hand everything over, and keeps
// it.
func TestHandOverInTime(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		a := w.peers["a"]
		before := len(a.own(t))
		w.net.at("b", nil)
		w.peers["b"].watch.Goodbye("a")
		w.set("b")
		ctx, cancel := context.WithTimeout(t.Context(), DepartTime/3)
		defer cancel()
		if err := a.keeping.HandOver(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handed over to nobody: %v", err)
		}
		if after := len(a.own(t)); after != before || before == 0 {
			t.Errorf("%d of %d records are kept", after, before)
		}
		w.peers["b"].serve(w.net)
		ctx, cancel = context.WithTimeout(t.Context(), DepartTime/3)
		defer cancel()
		if err := a.keeping.HandOver(ctx); err != nil {
			t.Error(err)
		}
		if after := len(a.own(t)); after > 0 {
			t.Errorf("%d records are left", after)
		}
	})
}

// TestMovesTold: who watches reads what moved.
func TestMovesTold(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a"}, func(t *testing.T, w *keepers) {
		b := w.start(t, "b")
		fromA, fromB := w.peers["a"].texts, b.texts
		w.set("a", "b")
		w.rest()
		jobs := len(b.positions(t, storage.KeyspaceJobs))
		line := moved{how: handedTo, prefix: storage.KeyspaceJobs, peer: "b", places: jobs, records: 2 * jobs}
		out := line.text()
		line.how, line.peer = cameFrom, "a"
		in := line.text()
		if !slices.Contains(fromA.all(), out) || !slices.Contains(fromB.all(), in) || jobs == 0 {
			t.Errorf("a told %q, b told %q", fromA.all(), fromB.all())
		}
		w.kill("a")
		w.set("b")
		w.rest()
		line = moved{how: takenOver, prefix: storage.KeyspaceJobs, peer: "a", of: "a", places: 10 - jobs, records: 2 * (10 - jobs)}
		if over := line.text(); !slices.Contains(fromB.all(), over) {
			t.Errorf("b told %q, want %q", fromB.all(), over)
		}
	})
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
