package hosts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
)

// startLoop runs the loop of a fresh owner of everything on a given disk until the test ends.
func startLoop(t *testing.T, disk func() error, effects func(owner.Ready)) (l *Loop, spec *job.Spec, ran <-chan error) {
	t.Helper()
	spec = crawltest.Job(t, nil, "http://a.example/")
	o := newOwner(t, "self", newGatedStore(disk), spec, func(ring.Key) bool { return true }, func() int64 { return time.Now().UnixMilli() })
	l = newLoop(o, time.Now, effects, quiet)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l, spec, ended
}

// oneLink is a batch with one link.
func oneLink(spec *job.Spec, host string) func(*owner.Owner) {
	return func(o *owner.Owner) {
		o.Links(Message([]owner.OutLink{{Job: spec.ID, URL: "http://" + host + "/"}}))
	}
}

// TestReleaseInOrder: answers and effects leave in the order of their steps, and none before its
// step is on disk.
func TestReleaseInOrder(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var placed []string
		l, spec, _ := startLoop(t, func() error { <-gate; return nil }, func(r owner.Ready) {
			for _, p := range r.Places {
				placed = append(placed, p.Host)
			}
		})
		var want []string
		var mu sync.Mutex
		answered := 0
		for i := range 5 {
			host := fmt.Sprintf("h%d.example", i)
			want = append(want, host)
			go func() {
				if err := l.Do(context.Background(), oneLink(spec, host)); err != nil {
					t.Errorf("%s: %v", host, err)
				}
				mu.Lock()
				answered++
				mu.Unlock()
			}()
			synctest.Wait()
		}
		if answered > 0 || len(placed) > 0 {
			t.Fatalf("%d answers and effects of %v before anything was on disk", answered, placed)
		}
		seen := int64(0)
		if err := l.Look(t.Context(), func(o *owner.Owner) { seen = o.Counts(spec.ID).Accepted }); err != nil || seen != 5 {
			t.Errorf("a look while the disk is slow: %d URLs, %v; want 5", seen, err)
		}
		close(gate)
		synctest.Wait()
		if answered != 5 || !slices.Equal(placed, want) {
			t.Errorf("%d answers, effects of %v; want 5, of %v", answered, placed, want)
		}
	})
}

// TestStarvedStep: a step takes some pieces in also where its time goes to others, and no more.
func TestStarvedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := stepRoom()
		time.Sleep(time.Minute)
		n := 1
		for room() {
			n++
		}
		if n != piecesAtLeast {
			t.Errorf("%d pieces, want %d", n, piecesAtLeast)
		}
	})
}

// TestReadUpTo: what came before a time is in when the request is the next one that came then.
func TestReadUpTo(t *testing.T) {
	l := &Loop{requests: make(chan input, 2), taken: time.UnixMilli(10)}
	now := time.UnixMilli(100)
	if got := l.read(now, nil); !got.Equal(now) {
		t.Errorf("nothing waits: %v", got)
	}
	if got := l.read(now, &input{came: time.UnixMilli(30)}); !got.Equal(time.UnixMilli(30)) {
		t.Errorf("one is taken in: %v", got)
	}
	l.requests <- input{came: time.UnixMilli(20)}
	if got := l.read(now, nil); !got.Equal(time.UnixMilli(10)) {
		t.Errorf("one waits: %v", got)
	}
}

// TestGivenUp: of an input whose asker has given up before its turn nothing is kept, and it is not
// run.
func TestGivenUp(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		l, _, _ := startLoop(t, func() error { return nil }, func(owner.Ready) {})
		busy := make(chan struct{})
		go func() { _ = l.Do(context.Background(), func(*owner.Owner) { <-busy }) }()
		synctest.Wait()
		var freed atomic.Int64
		for range stepMax / 2 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				m := new([1 << 10]byte)
				runtime.AddCleanup(m, func(int) { freed.Add(1) }, 0)
				_ = l.DoOver(ctx, func(*owner.Owner) bool {
					t.Errorf("it is run, with %d bytes", len(m))
					return true
				})
			}()
			synctest.Wait()
			cancel()
		}
		synctest.Wait()
		for i := 0; i < 200 && freed.Load() < stepMax/2; i++ { // they are freed by the clock of the machine
			runtime.GC()
			time.Sleep(time.Second)
		}
		if n := freed.Load(); n != stepMax/2 {
			t.Errorf("%d of %d messages were freed while the loop was busy", n, stepMax/2)
		}
		close(busy)
		if err := l.Do(t.Context(), func(*owner.Owner) {}); err != nil {
			t.Error(err)
		}
	})
}

// TestFailedDisk: a store that fails ends the loop, and nothing is acknowledged from then on, nor
// does an effect leave.
func TestFailedDisk(t *testing.T) {
	broken := errors.New("the disk is broken")
	for _, row := range []struct {
		name string
		good int // waits that succeed
	}{{"at once", 0}, {"at the third step", 2}} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				waits, effects := 0, 0
				l, spec, ran := startLoop(t, func() error {
					if waits++; waits > row.good {
						return broken
					}
					return nil
				}, func(r owner.Ready) { effects += len(r.Places) })
				for i := range row.good + 3 {
					err := l.Do(t.Context(), oneLink(spec, fmt.Sprintf("h%d.example", i)))
					if got := err == nil; got != (i < row.good) {
						t.Errorf("request %d: %v", i, err)
					}
					synctest.Wait()
				}
				if err := <-ran; !errors.Is(err, broken) {
					t.Errorf("the loop ended with %v", err)
				}
				if effects != row.good {
					t.Errorf("%d effects left, want %d", effects, row.good)
				}
				if err := l.Do(t.Context(), oneLink(spec, "late.example")); !errors.Is(err, loop.ErrStopping) {
					t.Errorf("a request after the end: %v", err)
				}
				l.Post(oneLink(spec, "late.example")) // does not block
			})
		})
	}
}

// TestEffectsPostBack: effects that answer the owner while its queue is full and the disk slow come
// through.
func TestEffectsPostBack(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := &Owners{deps: Deps{Log: quiet}}
		w.life, w.end = context.WithCancel(context.Background())
		answers := 0
		var spec *job.Spec
		w.Loop, spec, _ = startLoop(t, func() error { time.Sleep(time.Millisecond); return nil }, func(r owner.Ready) {
			for range r.Places {
				for range 10 {
					w.Spawn(func(context.Context) { w.Post(func(*owner.Owner) { answers++ }) })
				}
			}
		})
		const hosts = 500
		var askers sync.WaitGroup
		for i := range hosts {
			askers.Go(func() {
				if err := w.Do(context.Background(), oneLink(spec, fmt.Sprintf("h%d.example", i))); err != nil {
					t.Errorf("host %d: %v", i, err)
				}
			})
		}
		askers.Wait()
		synctest.Wait()
		time.Sleep(time.Minute)
		var got int
		if err := w.Do(t.Context(), func(o *owner.Owner) { got = int(o.Counts(spec.ID).Accepted) }); err != nil || got != hosts {
			t.Errorf("%d hosts, %v; want %d", got, err, hosts)
		}
		if answers < hosts/8 || answers%10 != 0 {
			t.Errorf("%d answers of effects", answers)
		}
	})
}

// TestSpawnAfterTheEnd: nothing is set going once the loop has ended.
func TestSpawnAfterTheEnd(t *testing.T) {
	w := &Owners{deps: Deps{Log: quiet}}
	w.life, w.end = context.WithCancel(t.Context())
	spec := crawltest.Job(t, nil, "http://a.example/")
	o := newOwner(t, "self", newGatedStore(func() error { return nil }), spec, func(ring.Key) bool { return true }, func() int64 { return 0 })
	w.Loop = newLoop(o, time.Now, w.effects, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	w.Spawn(func(context.Context) { t.Error("set going after the end") })
	w.wg.Wait()
	w.PeerGone("x")
	w.JobChanged(spec.ID)
}

// TestQuestionsComeBetween: while a long list is taken in over many steps, questions are answered,
// and nothing else comes in between.
func TestQuestionsComeBetween(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		l, _, _ := startLoop(t, func() error { return nil }, func(owner.Ready) {})
		asked, later := false, false
		long := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			steps := 0
			long <- l.DoOver(context.Background(), func(*owner.Owner) bool {
				if steps++; steps == 1 {
					close(begun)
				}
				if later {
					t.Error("another input came in between")
				}
				time.Sleep(time.Millisecond)
				return asked
			})
		}()
		<-begun
		other := make(chan error, 1)
		go func() { other <- l.Do(context.Background(), func(*owner.Owner) { later = true }) }()
		for _, question := range []func(context.Context, func(*owner.Owner)) error{l.Look, l.Ask} {
			if err := question(t.Context(), func(*owner.Owner) {}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Ask(t.Context(), func(*owner.Owner) { asked = true }); err != nil {
			t.Fatal(err)
		}
		if err := <-long; err != nil {
			t.Error(err)
		}
		if err := <-other; err != nil || !later {
			t.Errorf("the input behind the long one: %v", err)
		}
	})
}

// TestQuestionsWithinAStep: nor do they wait for the end of the step that takes a long list in.
func TestQuestionsWithinAStep(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		spec := crawltest.Job(t, nil, "http://a.example/")
		o := newOwner(t, "self", newGatedStore(func() error { return nil }), spec, func(ring.Key) bool { return true }, func() int64 { return time.Now().UnixMilli() })
		l := newLoop(o, time.Now, func(owner.Ready) {}, quiet)
		l.room = func() func() bool { return func() bool { return true } }
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx) }()
		asked, long := 0, make(chan error, 1)
		go func() {
			long <- l.DoOver(context.Background(), func(o *owner.Owner) bool {
				for i := 0; asked < 2; i++ {
					if time.Sleep(time.Millisecond); !o.HasRoom() || i == 1000 {
						t.Error("the step came to its end before the questions were answered")
						break
					}
				}
				return true
			})
		}()
		for _, question := range []func(context.Context, func(*owner.Owner)) error{l.Look, l.Ask} {
			go func() { _ = question(context.Background(), func(*owner.Owner) { asked++ }) }()
		}
		if err := <-long; err != nil || asked != 2 {
			t.Errorf("%d questions were answered: %v", asked, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestEndWithinALongList: a loop that is told to end does so between two steps of a list, which is
// not acknowledged.
func TestEndWithinALongList(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		spec := crawltest.Job(t, nil, "http://a.example/")
		o := newOwner(t, "self", newGatedStore(func() error { return nil }), spec, func(ring.Key) bool { return true }, func() int64 { return time.Now().UnixMilli() })
		l := newLoop(o, time.Now, func(owner.Ready) {}, quiet)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx) }()
		steps := 0
		if err := l.DoOver(context.Background(), func(*owner.Owner) bool {
			if steps++; steps == 10 {
				cancel()
			}
			return false
		}); !errors.Is(err, loop.ErrStopping) {
			t.Errorf("a list that was broken off: %v", err)
		}
		if err := <-ended; err != nil || steps != 10 {
			t.Errorf("the loop ended after %d steps: %v", steps, err)
		}
	})
}
