package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
)

// TestGracefulStopLosesNothing: a stop in mid-crawl reports all that was fetched and gives back all
// that was not, so the next worker fetches nothing twice.
func TestGracefulStopLosesNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		slow time.Duration
	}{
		{"quick site", 0},
		{"requests under way finish", 700 * time.Millisecond},
		{"requests under way are broken off", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				inner := site(300)
				var hang atomic.Bool
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/robots.txt" && hang.Load() {
						select {
						case <-time.After(tt.slow):
						case <-r.Context().Done():
							return
						}
					}
					inner(rw, r)
				}, []string{"http://a.example/", "http://b.example/", "http://c.example/"})
				stopped := time.Time{}
				if err := x.run(func() bool {
					if x.worker.Stats().Pages < 100 {
						return false
					}
					hang.Store(true)
					time.Sleep(50 * time.Millisecond)
					stopped = time.Now()
					return true
				}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(stopped); took > 7*time.Second {
					t.Errorf("the stop took %v", took)
				}
				for name, h := range x.owners["owner"].hosts {
					if h.epoch != 0 || len(h.out) != 0 {
						t.Errorf("%s: lease %d not given back, %d URLs out", name, h.epoch, len(h.out))
					}
				}
				hang.Store(false)
				first := x.requests.Load()
				x.rerun()
				if got := x.outcomes(); got[link.OutcomeOK] != 900 {
					t.Errorf("outcomes %v, want 900 ok", got)
				}
				again := 0
				for url, n := range x.asked {
					if !strings.HasSuffix(url, "/robots.txt") {
						again += n - 1
					}
				}
				want := 0
				if tt.slow == time.Hour {
					want = 3 // one exchange a host was broken off
				}
				if again != want {
					t.Errorf("%d pages fetched twice, want %d (%d requests before the stop)", again, want, first)
				}
			})
		})
	}
}

// TestLostAnswers: an answer that does not arrive costs nothing: what it granted is taken back by
// the owner, what was told is told again.
func TestLostAnswers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(200), []string{"http://a.example/"})
		n := 0
		x.deps.Owners = lossy{x, func() bool { n++; return n%3 == 0 }}
		x.rerun()
		if got := x.outcomes(); got[link.OutcomeOK] != 200 {
			t.Errorf("outcomes %v, want 200 ok", got)
		}
		for url, n := range x.asked {
			if n > 1 {
				t.Errorf("%s was asked for %d times", url, n)
			}
		}
	})
}

// lossy loses answers; the owner takes back what they granted, as the real one does by the numbers
// of messages.
type lossy struct {
	*world
	lose func() bool
}

func (o lossy) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	reply, err := o.world.Session(ctx, owner, m)
	if err != nil || !o.lose() {
		return reply, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range reply.GetGrants() {
		h := o.ownerNamed(owner).host(g.GetHost())
		for _, url := range g.GetUrl() {
			if u, out := h.out[string(url)]; out {
				delete(h.out, string(url))
				h.pending = append(h.pending, u)
			}
		}
	}
	return nil, errors.New("connection broke")
}

// TestNumbersOfMessages: seq grows with each message, ack names the last whose answer came.
func TestNumbersOfMessages(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(100), []string{"http://a.example/"})
		var seq, answered uint64
		n := 0
		x.deps.Owners = lossy{x, func() bool {
			o := x.owners["owner"]
			if o.seq <= seq || o.ack != answered {
				t.Errorf("message %d acknowledges %d after %d, of which %d was answered", o.seq, o.ack, seq, answered)
			}
			seq = o.seq
			if n++; n%2 == 0 {
				return true
			}
			answered = seq
			return false
		}}
		x.rerun()
	})
}

// TestMoved: the owner has changed; outcomes go to the new one, and the lease along with them.
func TestMoved(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(300), []string{"http://a.example/"})
		moved := false
		if err := x.run(func() bool {
			x.mu.Lock()
			old := x.owners["owner"]
			if h := old.hosts["a.example"]; !moved && len(h.done) > 20 {
				moved = true
				x.routes["a.example"] = "successor"
				to := x.ownerNamed("successor")
				kept := *h
				to.hosts["a.example"], to.epoch = &kept, old.epoch
				old.hosts["a.example"] = &testHost{moved: true}
			}
			x.mu.Unlock()
			return moved && x.idle()
		}); err != nil {
			t.Fatal(err)
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 300 {
			t.Errorf("outcomes %v, want 300 ok", got)
		}
		if h := x.host("a.example"); h.again != 0 || x.owners["successor"].epoch != 1 {
			t.Errorf("%d outcomes told twice, %d leases: the lease did not go along", h.again, x.owners["successor"].epoch)
		}
	})
}

// TestReportToWhoServesNow: the owner is gone for good; what was fetched reaches its successor.
func TestReportToWhoServesNow(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(1), []string{"http://a.example/"})
		x.handler = slow(time.Second, site(1))
		start := time.Now()
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			if time.Since(start) > 500*time.Millisecond {
				x.owners["owner"].silent = true
				x.routes["a.example"] = "successor"
			}
			return time.Since(start) > 20*time.Second
		}); err != nil {
			t.Fatal(err)
		}
		if f := x.done("http://a.example/"); link.Outcome(f.GetOutcome()) != link.OutcomeOK {
			t.Errorf("the successor knows %v", f)
		}
	})
}

// TestBusyOwner: refused outcomes are kept and told again.
func TestBusyOwner(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(50), []string{"http://a.example/"})
		start := time.Now()
		x.owner("a.example").busy = true
		sessions := 0
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			if o := x.owners["owner"]; o.busy && time.Since(start) > 10*time.Second {
				o.busy, sessions = false, o.sessions
			}
			return !x.owners["owner"].busy && x.owners["owner"].outstanding() == 0
		}); err != nil {
			t.Fatal(err)
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 50 {
			t.Errorf("outcomes %v, want 50 ok", got)
		}
		if sessions > 60 {
			t.Errorf("%d messages to an owner that was busy for 10s", sessions)
		}
		for url, n := range x.asked {
			if n > 1 {
				t.Errorf("%s was asked for %d times", url, n)
			}
		}
	})
}

// TestHostFailureReturnsTheWindow: a host that cannot be reached costs one URL's try; the others go
// back untouched, with a back-off.
func TestHostFailureReturnsTheWindow(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var seeds []string
		for i := range 40 {
			seeds = append(seeds, fmt.Sprintf("http://nowhere.example/%d", i))
		}
		x := newWorld(t, site(1), seeds)
		start := time.Now()
		if err := x.run(func() bool { return time.Since(start) > 3*time.Second }); err != nil {
			t.Fatal(err)
		}
		h := x.host("nowhere.example")
		if h.returned < 39 || h.backoff == 0 || h.reason != "dns" {
			t.Errorf("%d URLs returned, back-off %dms for %q; want 39, some, dns", h.returned, h.backoff, h.reason)
		}
		if o := x.owner("nowhere.example"); o.reported != 1 {
			t.Errorf("%d outcomes, want 1", o.reported)
		}
	})
}

// TestRetryAfter: a site that asks for less is left alone: kept for a short pause, given back with
// the reason for a long one.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		after   string
		backoff uint32 // told to the owner, at least
		gap     time.Duration
	}{
		{"503 with a short pause", 503, "3", 0, 3 * time.Second},
		{"503 with a long pause", 503, "120", 119_000, 120 * time.Second},
		{"429 with a long pause", 429, "60", 59_000, 60 * time.Second},
		{"503 without a pause", 503, "", 0, time.Second},
		{"429 without a pause", 429, "", 0, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				inner := site(5)
				struck := false
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/p2" && !struck {
						struck = true
						if tt.after != "" {
							rw.Header().Set("Retry-After", tt.after)
						}
						rw.WriteHeader(tt.status)
						return
					}
					inner(rw, r)
				}, []string{"http://a.example/"})
				var struckAt, next time.Time
				outer := x.handler
				x.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					x.mu.Lock()
					switch {
					case r.URL.Path == "/p2" && struckAt.IsZero():
						struckAt = time.Now()
					case !struckAt.IsZero() && next.IsZero():
						next = time.Now()
					}
					x.mu.Unlock()
					outer.ServeHTTP(rw, r)
				})
				var backoff uint32
				if err := x.run(func() bool {
					backoff = max(backoff, x.host("a.example").backoff)
					return x.idle()
				}); err != nil {
					t.Fatal(err)
				}
				if gap := next.Sub(struckAt); gap < tt.gap || gap > tt.gap+2*time.Second {
					t.Errorf("next request after %v, want %v", gap, tt.gap)
				}
				if backoff < tt.backoff || tt.backoff == 0 && backoff != 0 {
					t.Errorf("back-off of %dms told, want at least %d", backoff, tt.backoff)
				}
				if got := x.outcomes(); got[link.OutcomeOK] != 5 {
					t.Errorf("outcomes %v, want 5 ok", got)
				}
			})
		})
	}
}

// TestHostThatCannotBeAsked: a host that no request can name has an outcome at once, and not for
// want of a robots.txt, for which one would wait.
func TestHostThatCannotBeAsked(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		urls := []string{`http://a"b.example/`, "http://a{b}.example/1", "http://a{b}.example/2"}
		x := newWorld(t, site(1), urls)
		x.crawl()
		for _, url := range urls {
			if f := x.done(url); link.Outcome(f.GetOutcome()) != link.OutcomeOutOfScope || f.GetRetryAfterMs() > 0 || f.GetDetail() == "" {
				t.Errorf("%s: %v", url, f)
			}
		}
	})
}

// TestRobotsUnreachable: without robots.txt nothing is fetched, the rest of the window goes back,
// and the state that travels with the host says when to ask again.
func TestRobotsUnreachable(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		inner := site(3)
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" && down.Load() {
				http.Error(rw, "down", http.StatusInternalServerError)
				return
			}
			inner(rw, r)
		}, []string{"http://a.example/"})
		start := time.Now()
		fetched := 0
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			if down.Load() && time.Since(start) > 30*time.Second {
				down.Store(false)
				fetched = x.asked["http://a.example/"]
			}
			return !down.Load() && x.owners["owner"].outstanding() == 0
		}); err != nil {
			t.Fatal(err)
		}
		if fetched != 0 {
			t.Error("a page was fetched before robots.txt was known")
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 3 {
			t.Errorf("outcomes %v, want 3 ok", got)
		}
		if n := x.asked["http://a.example/robots.txt"]; n < 2 || n > 4 {
			t.Errorf("robots.txt was asked for %d times", n)
		}
	})
}

// TestRobotsAreReadByWhoObeysThem: a worker that gets a host again goes by what it read itself, and
// one that gets it after another asks anew.
func TestRobotsAreReadByWhoObeysThem(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const origin = "http://a.example"
		x := newWorld(t, fixed(map[string]string{"/robots.txt": "User-agent: *\nDisallow: /no", "/": "x", "/no": "y", "/yes": "z"}), []string{origin + "/"})
		o := x.owner("a.example")
		added := false
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			if o.outstanding() == 0 && o.host("a.example").epoch == 0 && !added { // it was given back
				added = true
				o.add(origin+"/no", 0, 0, link.KindPage)
				time.AfterFunc(0, x.offerAll)
			}
			return added && o.outstanding() == 0
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for offers to the worker
		if n := x.asked[origin+"/robots.txt"]; n != 1 {
			t.Errorf("robots.txt was asked for %d times by one worker", n)
		}
		o.add(origin+"/no?2", 0, 0, link.KindPage)
		o.add(origin+"/yes", 0, 0, link.KindPage)
		x.rerun()
		if n := x.asked[origin+"/robots.txt"]; n != 2 {
			t.Errorf("robots.txt was asked for %d times by two workers", n)
		}
		if got := x.outcomes(); got[link.OutcomeRobotsDenied] != 2 || got[link.OutcomeOK] != 2 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// TestPause gives everything back and declines offers; Resume takes them again.
func TestPause(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(300), []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: 50 * time.Millisecond, Factor: -1}
		})
		var pausedAt time.Time
		var atPause int64
		resumed := false
		if err := x.run(func() bool {
			switch {
			case pausedAt.IsZero() && x.worker.Stats().Pages > 20:
				x.worker.Pause()
				pausedAt = time.Now()
			case !pausedAt.IsZero() && !resumed && atPause == 0 && time.Since(pausedAt) > time.Second:
				atPause = x.requests.Load()
				if h := x.host("a.example"); h.epoch != 0 {
					t.Error("the lease is still held")
				}
				if declined := x.worker.Offer("owner", []string{"a.example", "b.example"}); len(declined) != 2 {
					t.Errorf("declined %v, want both", declined)
				}
			case atPause > 0 && !resumed && time.Since(pausedAt) > 10*time.Second:
				if n := x.requests.Load(); n != atPause {
					t.Errorf("%d requests while paused", n-atPause)
				}
				resumed = true
				x.worker.Resume()
				x.offerAll()
			}
			return resumed && x.idle()
		}); err != nil {
			t.Fatal(err)
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 300 {
			t.Errorf("outcomes %v, want 300 ok", got)
		}
	})
}

// TestGiveBack: an owner that wants a host back gets it when the window is done.
func TestGiveBack(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(300), []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: 100 * time.Millisecond, Factor: -1}
		})
		told := false
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			h := x.owners["owner"].hosts["a.example"]
			if len(h.done) > 30 && h.epoch == 1 && !told {
				h.give, told = true, true
			}
			if told && h.epoch != 1 {
				if h.left != 0 || h.returned != 0 {
					t.Errorf("%d out, %d returned: the window was not finished", h.left, h.returned)
				}
				return true
			}
			return false
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOfferBeyondCapacity declines.
func TestOfferBeyondCapacity(t *testing.T) {
	x := newWorld(t, site(1), []string{"http://a.example/"}, func(x *world) { x.cfg.Sessions.MaxHosts = 2 })
	if declined := x.worker.Offer("owner", []string{"a.example", "b.example", "c.example", "a.example"}); len(declined) != 1 || declined[0] != 2 {
		t.Errorf("declined %v, want the third", declined)
	}
	if declined := x.worker.Offer("another", []string{"a.example"}); len(declined) != 1 {
		t.Errorf("declined %v: a host held from another owner", declined)
	}
}

// TestDomainLeavesRoom: a registrable domain of any number of hosts leaves room for those of
// others, and has its place again once a host is given back.
func TestDomainLeavesRoom(t *testing.T) {
	x := newWorld(t, site(1), []string{"http://a.example/"}, func(x *world) { x.cfg.Sessions.MaxHosts = 8 })
	w := x.worker
	var farm []string
	for i := range 10 {
		farm = append(farm, fmt.Sprintf("h%d.farm.example", i))
	}
	if declined := w.Offer("owner", farm); len(declined) != 4 {
		t.Errorf("of ten hosts of one domain %d were declined, want 4", len(declined))
	}
	if declined := w.Offer("owner", []string{"a.example", "b.example", "c.example"}); len(declined) != 1 || declined[0] != 2 {
		t.Errorf("declined %v, want the third: the worker is full", declined)
	}
	w.mu.Lock()
	w.sessions.Close(time.Now(), w.sessions.Lease("b.example"), 0, "")
	w.sessions.Close(time.Now(), w.sessions.Lease("h3.farm.example"), 0, "")
	w.mu.Unlock()
	if declined := w.Offer("owner", []string{"h9.farm.example", "h8.farm.example"}); len(declined) != 1 {
		t.Errorf("%d declined after a host of the domain was given back, want one", len(declined))
	}
}

// TestArchiveFails: a disk that fails ends the worker with its error, and nothing is reported that
// is not archived.
func TestArchiveFails(t *testing.T) {
	for _, tt := range []struct {
		name       string
		save, sync error
		pages      int // reported
		ends       bool
	}{
		{"save", errors.New("disk full"), nil, 0, true},
		{"sync", nil, errors.New("disk full"), 0, true},
		{"one exchange only", fmt.Errorf("odd: %w", pages.ErrUnarchivable), nil, 20, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, site(20), []string{"http://a.example/"})
				x.archive.saveErr, x.archive.syncErr = tt.save, tt.sync
				err := x.run(x.idle)
				if (err != nil) != tt.ends || tt.ends && !strings.Contains(err.Error(), "disk full") {
					t.Errorf("Run: %v", err)
				}
				if got := x.owner("a.example").reported; got != tt.pages {
					t.Errorf("%d outcomes reported, want %d", got, tt.pages)
				}
			})
		})
	}
}

// TestArchiveFailsWhileMemoryIsFull: fetchers that wait for room do not keep a broken worker from
// ending.
func TestArchiveFailsWhileMemoryIsFull(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		inner := site(200)
		big := strings.Repeat("x", 20<<10)
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			inner(rw, r)
			if r.URL.Path != "/robots.txt" {
				fmt.Fprint(rw, big)
			}
		}, []string{"http://a.example/", "http://b.example/", "http://c.example/", "http://d.example/"}, func(x *world) {
			x.cfg.Pages.MaxMemory = 50 << 10
		})
		if err := x.run(func() bool {
			if x.worker.Stats().Pages > 20 {
				x.archive.mu.Lock()
				x.archive.saveErr = errors.New("disk full")
				x.archive.mu.Unlock()
			}
			return false
		}); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestSilentOwnerHoldsUpNobody: outcomes that one owner does not take are not in the way of
// another's hosts.
func TestSilentOwnerHoldsUpNobody(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(100), []string{"http://a.example/", "http://b.example/"}, func(x *world) {
			x.routes["b.example"] = "another"
			x.cfg.MaxInFlight = 6
			x.cfg.Politeness = frontier.Config{Delay: 20 * time.Millisecond, Factor: -1}
		})
		start := time.Now()
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			o := x.owners["owner"]
			o.silent = o.silent || len(o.hosts["a.example"].done) > 10
			return x.owners["another"].outstanding() == 0
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(x.host("b.example").done); n != 100 {
			t.Errorf("%d of 100 pages", n)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
