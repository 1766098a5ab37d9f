package worker

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// slow is a site whose answers take that long.
func slow(d time.Duration, next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			time.Sleep(d)
		}
		next(rw, r)
	}
}

// TestLapseStopsRequests: an owner that answers no more renews nothing, so at three quarters of the
// TTL from the last message sent the worker writes its last request (design, section 4).
func TestLapseStopsRequests(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(100_000), []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: 100 * time.Millisecond, Factor: -1}
			x.cfg.Sessions.Horizon = 30 * time.Second // the lease is to end before the window does
		})
		var silentAt, lastAt time.Time
		var stats Stats
		x.handler = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				x.mu.Lock()
				lastAt = time.Now()
				x.mu.Unlock()
				next.ServeHTTP(rw, r)
			})
		}(x.handler)
		start := time.Now()
		err := x.run(func() bool {
			stats = x.worker.Stats()
			x.mu.Lock()
			defer x.mu.Unlock()
			if silentAt.IsZero() && time.Since(start) > 10*time.Second {
				silentAt = time.Now()
				x.owners["owner"].silent = true
			}
			return time.Since(start) > time.Minute
		})
		if err != nil {
			t.Fatal(err)
		}
		if limit := silentAt.Add(6 * time.Second); lastAt.After(limit) {
			t.Errorf("last request %v after the owner fell silent, want at most 6s", lastAt.Sub(silentAt))
		}
		if lastAt.Before(silentAt.Add(3 * time.Second)) {
			t.Errorf("last request only %v after the owner fell silent: the lease was not used", lastAt.Sub(silentAt))
		}
		if stats.Hosts != 0 || stats.Lapsed != 1 || stats.Unreported == 0 {
			t.Errorf("hosts %d, lapsed %d, unreported %d; want 0, 1 and some", stats.Hosts, stats.Lapsed, stats.Unreported)
		}
	})
}

// TestRobotsOfALeaseThatLapsed: an owner that does not answer until the lease has ended is told of
// the robots.txt that was read under it, so that the file is not asked for again.
func TestRobotsOfALeaseThatLapsed(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(20), []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: time.Second, Factor: -1}
		})
		var silentAt time.Time
		if err := x.run(func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			if silentAt.IsZero() && x.asked["http://a.example/robots.txt"] > 0 {
				silentAt = time.Now()
				x.owners["owner"].silent = true
			}
			if o := x.owners["owner"]; o.silent && time.Since(silentAt) > 20*time.Second {
				o.silent, o.voided = false, true
			}
			return !silentAt.IsZero() && time.Since(silentAt) > 2*time.Minute
		}); err != nil {
			t.Fatal(err)
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 20 || x.worker.Stats().Lapsed == 0 {
			t.Errorf("outcomes %v, %d leases lapsed; want 20 ok and one or more", got, x.worker.Stats().Lapsed)
		}
		if n := x.asked["http://a.example/robots.txt"]; n != 1 {
			t.Errorf("robots.txt was asked for %d times", n)
		}
	})
}

// TestSlowOwnerKeepsLeases checks that leases are renewed while the owner takes almost as long to
// answer as a call may: two answers in a row come too late to renew by themselves.
func TestSlowOwnerKeepsLeases(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(40), []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: time.Second, Factor: -1}
		})
		x.owner("a.example").pause = 3900 * time.Millisecond
		x.crawl()
		if s := x.worker.Stats(); s.Lapsed != 0 || x.outcomes()[link.OutcomeOK] != 40 {
			t.Errorf("%d leases lapsed, outcomes %v; want none and 40 ok", s.Lapsed, x.outcomes())
		}
	})
}

// TestPausedProcessWritesNothing: a process that was stopped or suspended finds the lease clock
// ahead. No request is written then, although no other clock says that time went by, and what it
// held is dropped.
func TestPausedProcessWritesNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		jump time.Duration
		gone bool
	}{
		{"half a second", 500 * time.Millisecond, false},
		{"half of the TTL", 4 * time.Second, false},
		{"longer than the TTL", time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, site(1000), []string{"http://a.example/"}, func(x *world) {
					x.cfg.Politeness = frontier.Config{Delay: 500 * time.Millisecond, Factor: -1}
				})
				start := time.Now()
				var jumped bool
				var before int64
				err := x.run(func() bool {
					if !jumped && x.worker.Stats().Pages >= 10 {
						jumped = true
						x.mu.Lock()
						x.owners["owner"].silent = true
						x.mu.Unlock()
						before = x.requests.Load()
						x.clock.jump.Store(int64(tt.jump))
					}
					return time.Since(start) > 30*time.Second
				})
				if err != nil {
					t.Fatal(err)
				}
				wrote := x.requests.Load() - before
				if tt.gone && wrote != 0 {
					t.Errorf("%d requests after the pause, want none", wrote)
				}
				if !tt.gone && wrote == 0 {
					t.Error("no request after a short pause")
				}
			})
		})
	}
}

// silentSpecs is of a ring in which all owners of jobs but one are silent.
type silentSpecs struct{ known *job.Spec }

func (s silentSpecs) Spec(ctx context.Context, id job.ID) (*job.Spec, error) {
	if id == s.known.ID {
		return s.known, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilentOwnersOfJobs: owners of jobs that do not answer keep an answer with grants no longer
// waiting than one of them does, since leases are prolonged only behind that.
func TestSilentOwnersOfJobs(t *testing.T) {
	for _, silent := range []int{1, 3, 100} {
		t.Run(strconv.Itoa(silent), func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, site(1), []string{"http://a.example/"}, func(x *world) { x.deps.Jobs = silentSpecs{x.spec} })
				var grants []*wire.Grant
				for i := range silent {
					grants = append(grants, &wire.Grant{JobIds: [][]byte{fmt.Appendf(nil, "silent job %5d", i)}})
				}
				known := x.spec.ID
				grants = append(grants, &wire.Grant{JobIds: [][]byte{known[:]}})
				start := time.Now()
				refs := speaker{w: x.worker}.jobsOf(t.Context(), grants)
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("asking for jobs took %v", took)
				}
				if len(refs) != silent+1 || refs[known] == nil || refs[known].Spec == nil {
					t.Errorf("%d jobs, the one that answers is %v", len(refs), refs[known])
				}
			})
		})
	}
}

// notTaken takes no job.
type notTaken struct{}

func (notTaken) Spec(context.Context, job.ID) (*job.Spec, error) { return nil, job.ErrNotTaken }

// TestJobsThatAreNotTaken: nothing is fetched of a job that the peer does not work for, whatever an
// owner grants; the host goes back with all its URLs, and does not come again at once.
func TestJobsThatAreNotTaken(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(10), []string{"http://a.example/"}, func(x *world) { x.deps.Jobs = notTaken{} })
		start := time.Now()
		if err := x.run(func() bool { return time.Since(start) > 10*time.Minute }); err != nil {
			t.Fatal(err)
		}
		h := x.owners["owner"].hosts["a.example"]
		if len(x.asked) > 0 || len(h.pending) != 1 || h.epoch != 0 || h.reason == "" {
			t.Errorf("asked for %v; %d URLs wait, lease %d, given back as %q", x.asked, len(h.pending), h.epoch, h.reason)
		}
		if n := x.owners["owner"].epoch; n > 11 {
			t.Errorf("granted %d times in ten minutes", n)
		}
	})
}

// TestPermitIsAsked: a lease that ends between taking a URL and writing the request stops the
// request.
func TestPermitIsAsked(t *testing.T) {
	x := newWorld(t, site(1), []string{"http://a.example/"})
	w := x.worker
	v := visiting(w, "a.example")
	if err := v.Permit(w.clock.Now()); err != nil {
		t.Errorf("permit under a lease: %v", err)
	}
	x.clock.jump.Store(int64(time.Hour))
	if err := v.Permit(w.clock.Now()); err == nil {
		t.Error("permit after the lease")
	}
	x.clock.jump.Store(0)
	w.mu.Lock()
	w.sessions.Revoke(time.Now(), v.Lease)
	w.mu.Unlock()
	if err := v.Permit(w.clock.Now()); err == nil {
		t.Error("permit for a host that was revoked")
	}
}

// visiting begins a visit of a host that is granted with one URL.
func visiting(w *Worker, name string) *visits.Visit {
	leased(w, name, time.Hour, "http://"+name+"/")
	w.mu.Lock()
	defer w.mu.Unlock()
	v, _ := w.visits.Next(time.Now())
	return v
}

// leased has an owner offer a host, and grant a lease on it of that length with these URLs.
func leased(w *Worker, name string, ttl time.Duration, urls ...string) *session.Lease {
	w.Offer("owner", []string{name})
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions.Sessions()[0]
	t := w.sessions.Turn(time.Now(), s, 0, nil)
	g := &wire.Grant{Host: name, Epoch: &wire.Epoch{Counter: 1}, JobIds: [][]byte{make([]byte, 16)}}
	for _, url := range urls {
		g.Url = append(g.Url, []byte(url))
	}
	w.sessions.Answered(time.Now(), s, t, &wire.SessionReply{TtlMs: session.Milliseconds(ttl), Grants: []*wire.Grant{g}}, w.clock.Now(), nil)
	return w.sessions.Lease(name)
}

// TestLapseCancelsRunningRequest: a request that is under way when its lease ends is broken off,
// and renewals prolong it without a new start.
func TestLapseCancelsRunningRequest(t *testing.T) {
	for _, tt := range []struct {
		name    string
		silent  bool
		fetched bool
	}{
		{"renewed: it may take longer than a TTL", false, true},
		{"not renewed: broken off", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				var broken atomic.Bool
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/" {
						http.NotFound(rw, r)
						return
					}
					select {
					case <-time.After(15 * time.Second):
					case <-r.Context().Done():
						broken.Store(true)
					}
				}, []string{"http://a.example/"})
				start := time.Now()
				if err := x.run(func() bool {
					x.mu.Lock()
					defer x.mu.Unlock()
					if tt.silent && time.Since(start) > time.Second {
						x.owners["owner"].silent = true
					}
					return time.Since(start) > 20*time.Second
				}); err != nil {
					t.Fatal(err)
				}
				if got := x.worker.Stats().Outcomes[link.OutcomeOK] == 1; got != tt.fetched {
					t.Errorf("fetched %v, want %v", got, tt.fetched)
				}
				if broken.Load() == tt.fetched {
					t.Errorf("broken off %v, want %v", broken.Load(), !tt.fetched)
				}
				if n := x.asked["http://a.example/"]; n != 1 {
					t.Errorf("asked for %d times, want once", n)
				}
			})
		})
	}
}

// TestRevoked: a host that the owner does not know as leased any more is dropped at once; what was
// fetched is reported all the same, and nothing is fetched twice that was.
func TestRevoked(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(300), []string{"http://a.example/"})
		revoked := false
		if err := x.run(func() bool {
			x.mu.Lock()
			if h := x.owners["owner"].hosts["a.example"]; !revoked && len(h.done) > 20 {
				revoked = true
				x.owners["owner"].voided = true
			}
			x.mu.Unlock()
			return revoked && x.idle()
		}); err != nil {
			t.Fatal(err)
		}
		if got := x.outcomes(); got[link.OutcomeOK] != 300 {
			t.Errorf("outcomes %v, want 300 ok", got)
		}
		if x.lapped != 0 {
			t.Errorf("%d requests were begun beside another of the same host", x.lapped)
		}
	})
}

// TestOfferAheadOfRevocation: an offer that overtakes the answer which takes the host away is not
// lost.
func TestOfferAheadOfRevocation(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(1), []string{"http://a.example/"})
		w := x.worker
		l := leased(w, "a.example", time.Hour)
		if declined := w.Offer("owner", []string{"a.example"}); len(declined) != 0 {
			t.Fatalf("declined %v", declined)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sessions.Revoke(time.Now(), l)
		if wish := w.sessions.Lease("a.example"); wish == nil || wish == l || wish.Granted() || wish.Owner() != "owner" || w.visits.Held() != nil {
			t.Errorf("after the revocation: %+v", wish)
		}
	})
}
