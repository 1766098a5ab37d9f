package worker

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// hand moves a host with its lease from one owner to another, as their handoff does. Under the
// world's mutex.
func (x *world) hand(name, to string) {
	old, next := x.ownerOf(name), x.ownerNamed(to)
	kept := *old.host(name)
	next.hosts[name], next.epoch = &kept, old.epoch
	old.hosts[name] = &testHost{moved: true}
	x.routes[name] = to
}

// lastAsked has the world note when the last request was begun.
func (x *world) lastAsked() *time.Time {
	at := new(time.Time)
	inner := x.handler
	x.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		*at = time.Now()
		x.mu.Unlock()
		inner.ServeHTTP(rw, r)
	})
	return at
}

// TestHandoff moves a host with its lease in the middle of a crawl, to an owner that has nothing to
// say for a while. The window is worked off meanwhile; within the deadline the lease goes on under
// the same epoch and nothing is fetched twice; beyond it no request is written.
func TestHandoff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		for_   time.Duration // how long the new owner has nothing to say
		silent bool          // it does not even answer
		old    bool          // the old owner is gone and answers nobody
		kept   bool
	}{
		{name: "at once", kept: true},
		{name: "the new owner settles for three seconds", for_: 3 * time.Second, kept: true},
		{name: "the new owner does not answer for three seconds", for_: 3 * time.Second, silent: true, kept: true},
		{name: "the old owner is gone", old: true, kept: true},
		{name: "the old owner is gone and the new one settles", old: true, for_: 3 * time.Second, kept: true},
		{name: "the new owner settles for too long", for_: 15 * time.Second},
		{name: "the new owner does not answer for too long", for_: 15 * time.Second, silent: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, site(300), []string{"http://a.example/"}, func(x *world) {
					x.cfg.Politeness = frontier.Config{Delay: 100 * time.Millisecond, Factor: -1}
					x.cfg.Sessions.Horizon = 10 * time.Second // the window outlasts the lease
				})
				lastAt := x.lastAsked()
				var movedAt, last time.Time
				begun, asked := time.Now(), int64(0)
				if err := x.run(func() bool {
					x.mu.Lock()
					defer x.mu.Unlock()
					switch {
					case movedAt.IsZero() && time.Since(begun) > 12*time.Second:
						movedAt, asked = time.Now(), x.requests.Load()
						x.owners["owner"].silent = tt.old
						x.hand("a.example", "successor")
						x.owners["successor"].silent, x.owners["successor"].waiting = tt.silent, !tt.silent
					case !movedAt.IsZero() && time.Since(movedAt) <= tt.for_:
						last = *lastAt
					case !movedAt.IsZero():
						x.owners["successor"].silent, x.owners["successor"].waiting = false, false
						if !tt.kept {
							return true
						}
					}
					n := 0
					for _, o := range x.owners {
						n += o.outstanding()
					}
					return n == 0
				}); err != nil {
					t.Fatal(err)
				}
				if !tt.kept {
					if limit := movedAt.Add(6 * time.Second); last.After(limit) || last.Before(limit.Add(-3*time.Second)) {
						t.Errorf("last request %v after the host moved; the lease holds for 4.5s to 6s", last.Sub(movedAt))
					}
					return
				}
				if tt.for_ > 0 && last.Before(movedAt.Add(tt.for_-300*time.Millisecond)) {
					t.Errorf("last request %v after the host moved: the window lay idle (%d requests before)", last.Sub(movedAt), asked)
				}
				if got := x.outcomes(); got[link.OutcomeOK] != 300 {
					t.Errorf("outcomes %v, want 300 ok", got)
				}
				if h := x.host("a.example"); h.again != 0 || x.owners["successor"].epoch != 1 {
					t.Errorf("%d outcomes told twice, %d leases: the lease did not go along", h.again, x.owners["successor"].epoch)
				}
				for url, n := range x.asked {
					if n > 1 {
						t.Errorf("%s was asked for %d times", url, n)
					}
				}
			})
		})
	}
}

// TestRevokedInMidExchange: an owner that does not know of the lease ends it, but the exchange
// under way may end as long as the lease would have held: its page is reported and not fetched
// again.
func TestRevokedInMidExchange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		asked int // how often the page is asked for in all
	}{
		{"it ends within the deadline", 3 * time.Second, 1},
		{"it would last longer", 10 * time.Second, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				var broken, sped atomic.Bool
				var begun, ended time.Time
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/" || sped.Load() {
						fixed(map[string]string{"/": "x"})(rw, r)
						return
					}
					begun = time.Now()
					select {
					case <-time.After(tt.takes):
						fixed(map[string]string{"/": "x"})(rw, r)
					case <-r.Context().Done():
						broken.Store(true)
					}
					ended = time.Now()
					sped.Store(true)
				}, []string{"http://a.example/"})
				var revokedAt time.Time
				if err := x.run(func() bool {
					x.mu.Lock()
					if revokedAt.IsZero() && x.asked["http://a.example/"] == 1 {
						revokedAt = time.Now()
						x.hand("a.example", "successor")
						to := x.owners["successor"]
						to.end(to.hosts["a.example"])                                    // it has the records and not the lease
						to.hosts["a.example"].notBefore = revokedAt.Add(8 * time.Second) // the earlier owner's lease is waited out
					}
					x.mu.Unlock()
					if sped.Load() {
						x.offerAll()
					}
					return x.idle()
				}); err != nil {
					t.Fatal(err)
				}
				if n := x.asked["http://a.example/"]; n != tt.asked {
					t.Errorf("asked for %d times, want %d", n, tt.asked)
				}
				if late := tt.asked > 1; broken.Load() != late {
					t.Errorf("broken off %v, want %v", broken.Load(), late)
				}
				if took := ended.Sub(begun); took > 6*time.Second {
					t.Errorf("the exchange went on for %v", took)
				}
				if got := x.outcomes(); got[link.OutcomeOK] != 1 {
					t.Errorf("outcomes %v, want one ok", got)
				}
			})
		})
	}
}

// TestNothingIsKeptOfARevokedHost: an exchange that ends after its lease leaves nothing behind,
// whatever was learnt in it.
func TestNothingIsKeptOfARevokedHost(t *testing.T) {
	for _, path := range []string{"/busy", "/robots.txt"} {
		t.Run(path, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				var begun, ended atomic.Bool
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == path {
						begun.Store(true)
						time.Sleep(3 * time.Second)
						defer ended.Store(true)
					}
					switch r.URL.Path {
					case "/busy":
						rw.Header().Set("Retry-After", "5")
						rw.WriteHeader(http.StatusServiceUnavailable)
					case "/robots.txt":
						_, _ = rw.Write([]byte("User-agent: *\nCrawl-delay: 2\n"))
					default:
						_, _ = rw.Write([]byte("x"))
					}
				}, []string{"http://a.example/", "http://a.example/busy"})
				revoked := false
				if err := x.run(func() bool {
					x.mu.Lock()
					defer x.mu.Unlock()
					if begun.Load() && !revoked {
						revoked = true
						x.hand("a.example", "successor") // which has no lease of it and offers none
						to := x.owners["successor"]
						to.end(to.hosts["a.example"])
						to.hosts["a.example"].notBefore = time.Now().Add(time.Hour)
					}
					return ended.Load()
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// bouncing are two owners that send a worker to each other: one is gone, the other does not serve
// yet.
type bouncing struct {
	*world
	on    atomic.Bool
	last  string
	calls int
}

func (o *bouncing) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	if !o.on.Load() {
		return o.world.Session(ctx, owner, m)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	if o.last = owner; owner == "gone" {
		return nil, errors.New("connection refused")
	}
	reply := &wire.SessionReply{TtlMs: 8000}
	for _, work := range m.GetHosts() {
		reply.Moved = append(reply.Moved, work.GetHost())
	}
	return reply, nil
}

func (o *bouncing) OwnerOf(string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == "gone" {
		return "not serving"
	}
	return "gone"
}

// TestSentBackAndForth: owners that send a worker to each other are asked with growing pauses.
func TestSentBackAndForth(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		both := &bouncing{}
		x := newWorld(t, site(1), []string{"http://a.example/"}, func(x *world) {
			both.world, x.deps.Owners = x, both
		})
		begun := time.Now()
		if err := x.run(func() bool {
			if !both.on.Load() && x.worker.Stats().Pages > 0 {
				both.on.Store(true) // what was fetched is yet to be told
				begun = time.Now()
			}
			return time.Since(begun) > 10*time.Second
		}); err != nil {
			t.Fatal(err)
		}
		if both.calls < 5 || both.calls > 40 {
			t.Errorf("%d calls in ten seconds", both.calls)
		}
	})
}
