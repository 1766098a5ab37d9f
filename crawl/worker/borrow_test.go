package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// lender is the owner of hosts that are asked for. It notes what it is told, and whether a host was asked without a loan of it.
type lender struct {
	t     *testing.T
	lends func(n int) (*wire.LoanReply, error) // the answer to the nth question, from 1 on
	late  time.Duration                        // it hears after that time that a loan is over

	mu    sync.Mutex
	asked []time.Time
	begun time.Time
	lent  map[uint64]string // loans that are under way
	wrong []string          // requests without one
	seen  int               // requests with one
}

// lendAll answers every question with a loan for so long.
func lendAll(lasts time.Duration) func(int) (*wire.LoanReply, error) {
	return func(int) (*wire.LoanReply, error) { return &wire.LoanReply{LentMs: uint32(lasts.Milliseconds())}, nil }
}

// after answers with others until so many questions were asked.
func after(n int, first func() (*wire.LoanReply, error)) func(int) (*wire.LoanReply, error) {
	return func(i int) (*wire.LoanReply, error) {
		if i <= n {
			return first()
		}
		return lendAll(time.Minute)(i)
	}
}

func waits(d time.Duration) func() (*wire.LoanReply, error) {
	return func() (*wire.LoanReply, error) { return &wire.LoanReply{WaitMs: uint32(d.Milliseconds())}, nil }
}

// Lend is Deps.Lend.
func (l *lender) Lend(_ context.Context, m *wire.Loan) (*wire.LoanReply, error) {
	if m.GetNumber() > 0 {
		time.Sleep(l.late)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := m.Validate(); err != nil {
		l.t.Error(err)
	}
	if m.GetNumber() > 0 {
		if l.lent[m.GetNumber()] != m.GetHost() {
			l.t.Errorf("loan %d of %s is over, of %v", m.GetNumber(), m.GetHost(), l.lent)
		}
		delete(l.lent, m.GetNumber())
		return &wire.LoanReply{}, nil
	}
	if sake := m.GetSake(); sake != "a.example" && sake != "b.example" {
		l.t.Errorf("asked for the sake of %q", sake)
	}
	l.asked = append(l.asked, time.Now())
	for number, host := range l.lent {
		if host == m.GetHost() { // its answer went lost, as far as the owner knows
			return &wire.LoanReply{Number: number, LentMs: 60_000}, nil
		}
	}
	reply, err := l.lends(len(l.asked))
	if reply.GetLentMs() > 0 {
		reply.Number = uint64(len(l.asked))
		l.lent[reply.GetNumber()] = m.GetHost()
	}
	return reply, err
}

// watch notes requests to hosts of www that come without a loan.
func (l *lender) watch(next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "www.") {
			l.mu.Lock()
			l.seen++
			lent := false
			for _, host := range l.lent {
				lent = lent || host == r.Host
			}
			if !lent {
				l.wrong = append(l.wrong, r.Host+r.URL.Path)
			}
			l.mu.Unlock()
		}
		next(rw, r)
	}
}

// TestBorrowed: no request is made to another host before its owner has lent it, and the owner hears when it is over, whatever came of it.
func TestBorrowed(t *testing.T) {
	const page = "http://a.example/x"
	leads := map[string]string{"a.example/robots.txt": "redirect http://www.a.example/robots.txt", "www.a.example/robots.txt": closedToAll, "a.example/x": "x"}
	broken := errors.New("connection refused")
	for _, tt := range []struct {
		name   string
		bodies map[string]string
		slow   time.Duration // the other host takes
		lends  func(int) (*wire.LoanReply, error)
		want   link.Outcome
		detail string
		seen   int // requests under a loan
		wrong  int // and without
		within time.Duration
	}{
		{name: "at once", lends: lendAll(time.Minute), want: link.OutcomeRobotsDenied, seen: 1, within: time.Second},
		{name: "after a while", lends: after(20, waits(500*time.Millisecond)), want: link.OutcomeRobotsDenied, seen: 1, within: 20 * time.Second},
		{name: "after a long while", lends: after(1, waits(9*time.Minute)), want: link.OutcomeRobotsDenied, seen: 1, within: 10 * time.Minute},
		{name: "never", lends: after(1e6, waits(time.Second)), want: link.OutcomeRobotsUnreachable, detail: "others are at it", within: 2 * time.Hour},
		{
			name: "refused", lends: func(int) (*wire.LoanReply, error) { return &wire.LoanReply{Refused: "opted out"}, nil },
			want: link.OutcomeRobotsUnreachable, detail: "opted out", within: 2 * time.Hour,
		},
		{
			name: "the owner is out of reach for a while", lends: after(3, func() (*wire.LoanReply, error) { return nil, broken }),
			want: link.OutcomeRobotsDenied, seen: 1, within: 10 * time.Second,
		},
		{
			name: "the owner is out of reach", lends: after(1e6, func() (*wire.LoanReply, error) { return nil, broken }),
			want: link.OutcomeRobotsUnreachable, detail: "its owner does not answer", within: 2 * time.Hour,
		},
		{
			name: "the owner lends nothing", lends: after(1e6, func() (*wire.LoanReply, error) { return nil, fmt.Errorf("%w: x", ErrLendsNothing) }),
			want: link.OutcomeRobotsDenied, seen: 1, wrong: 1, within: 10 * time.Second,
		},
		{
			name: "the answer is out of bounds", lends: func(int) (*wire.LoanReply, error) { return &wire.LoanReply{WaitMs: 1 << 31}, nil },
			want: link.OutcomeRobotsUnreachable, within: 2 * time.Hour,
		},
		{
			name: "at another path: one after another", lends: lendAll(time.Minute), want: link.OutcomeRobotsDenied, seen: 2, within: 10 * time.Second,
			bodies: map[string]string{"a.example/robots.txt": "redirect http://www.a.example/rules", "www.a.example/robots.txt": "User-agent: *\nDisallow: /y", "www.a.example/rules": closedToAll},
		},
		{
			name: "the request fails", lends: lendAll(time.Minute), want: link.OutcomeRobotsUnreachable, within: 2 * time.Hour,
			bodies: map[string]string{"a.example/robots.txt": "redirect http://nowhere.example/robots.txt"},
		},
		{
			name: "the request is broken off", lends: lendAll(time.Second), slow: 10 * time.Second, want: link.OutcomeRobotsUnreachable, detail: errLoanOver.Error(),
			seen: retries + 1, within: 2 * time.Hour,
		},
		{name: "the loan is over before the request", lends: lendAll(time.Millisecond), want: link.OutcomeRobotsUnreachable, detail: "others are at it", within: 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				if tt.bodies == nil {
					tt.bodies = leads
				}
				l := &lender{t: t, lends: tt.lends, lent: make(map[uint64]string), begun: time.Now()}
				inner := fixed(tt.bodies)
				x := newWorld(t, l.watch(func(rw http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.Host, "www.") {
						select {
						case <-time.After(tt.slow):
						case <-r.Context().Done():
						}
					}
					inner(rw, r)
				}), []string{page}, func(x *world) { x.deps.Lend = l.Lend })
				x.crawl()
				if f := x.done(page); link.Outcome(f.GetOutcome()) != tt.want || !strings.Contains(f.GetDetail(), tt.detail) {
					t.Errorf("outcome %v, want %v (%s)", link.Outcome(f.GetOutcome()), tt.want, f.GetDetail())
				}
				if l.seen != tt.seen || len(l.wrong) != tt.wrong {
					t.Errorf("%d requests, want %d; without a loan: %v", l.seen, tt.seen, l.wrong)
				}
				if len(l.lent) > 0 {
					t.Errorf("never told to be over: %v", l.lent)
				}
				if took := time.Since(l.begun); took > tt.within {
					t.Errorf("it took %v", took)
				}
				if x.asked[page] > 0 {
					t.Error("a page was fetched that robots.txt forbids")
				}
			})
		})
	}
}

// TestBorrowersAreStopped: a loan that nobody makes use of any more, or whose request is broken off by the end of the worker, is given back.
func TestBorrowersAreStopped(t *testing.T) {
	for name, slow := range map[string]time.Duration{"the request is under way": time.Hour, "the loan is on its way": 0} {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				l := &lender{t: t, lends: lendAll(time.Minute), lent: make(map[uint64]string)}
				x := newWorld(t, l.watch(func(rw http.ResponseWriter, r *http.Request) {
					if r.Host == "a.example" {
						http.Redirect(rw, r, "http://www.a.example/robots.txt", http.StatusFound)
						return
					}
					select {
					case <-time.After(slow):
					case <-r.Context().Done():
					}
				}), []string{"http://a.example/x"}, func(x *world) {
					x.deps.Lend = l.Lend
				})
				if err := x.run(func() bool {
					l.mu.Lock()
					defer l.mu.Unlock()
					return len(l.asked) > 0 && (l.seen > 0 || slow == 0)
				}); err != nil {
					t.Fatal(err)
				}
				if len(l.asked) != 1 || len(l.lent) > 0 || len(l.wrong) > 0 {
					t.Errorf("asked %d times, %v not over, %v without a loan", len(l.asked), l.lent, l.wrong)
				}
			})
		})
	}
}

// TestLoanThatIsOver: a host is not asked for under a loan of which its owner is yet to hear that it is over: it lends the host to others as soon as it does.
func TestLoanThatIsOver(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		l := &lender{t: t, lends: lendAll(time.Minute), late: time.Second, lent: make(map[uint64]string)}
		x := newWorld(t, l.watch(func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.Host, "www."):
				time.Sleep(1500 * time.Millisecond)
				_, _ = rw.Write([]byte(closedToAll))
				l.mu.Lock()
				defer l.mu.Unlock()
				if len(l.lent) == 0 {
					l.wrong = append(l.wrong, "the end of "+r.Host+r.URL.Path)
				}
			case r.URL.Path == "/robots.txt":
				http.Redirect(rw, r, "http://www.a.example/robots.txt", http.StatusFound)
			}
		}), []string{"http://a.example/x", "http://b.example/x"}, func(x *world) {
			x.deps.Lend = l.Lend
		})
		x.crawl()
		if l.seen != 2 || len(l.wrong) > 0 || len(l.lent) > 0 {
			t.Errorf("%d requests; without a loan: %v; not over: %v", l.seen, l.wrong, l.lent)
		}
		if n := x.outcomes()[link.OutcomeRobotsDenied]; n != 2 {
			t.Errorf("%d URLs are denied", n)
		}
	})
}

// TestOwnHostIsNotBorrowed: a host that the worker has itself is asked under its lease, which is not given back meanwhile.
func TestOwnHostIsNotBorrowed(t *testing.T) {
	const delay = time.Second
	crawltest.Bubble(t, func(t *testing.T) {
		l := &lender{t: t, lends: lendAll(time.Minute), lent: make(map[uint64]string)}
		inner := site(12)
		var gone []string
		rules := 0
		var x *world
		x = newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			leased := func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.ownerOf("www.a.example").host("www.a.example").epoch != 0
			}
			switch {
			case r.URL.Path == "/robots.txt" && r.Host == "a.example":
				time.Sleep(4 * time.Second)
				http.Redirect(rw, r, "http://www.a.example/robots.txt", http.StatusMovedPermanently)
			case r.URL.Path == "/robots.txt":
				was := leased()
				if rules++; rules == 2 {
					x.worker.Pause() // gives all hosts back
					defer x.worker.Resume()
				}
				time.Sleep(10 * time.Second)
				if !was && len(l.lent) == 0 || was && !leased() {
					gone = append(gone, r.Host)
				}
			default:
				inner(rw, r)
			}
		}, []string{"http://www.a.example/", "http://a.example/"}, func(x *world) {
			x.cfg.Politeness = frontier.Config{Delay: delay, Factor: -1}
			x.deps.Lend = l.Lend
		})
		x.crawl()
		if rules != 2 || len(gone) > 0 || x.lapped > 0 || len(l.lent) > 0 {
			t.Errorf("asked without a lease: %v; %d overlaps; loans that are not over: %v", gone, x.lapped, l.lent)
		}
		if len(l.asked) > 0 {
			t.Errorf("its owner was asked %d times", len(l.asked))
		}
		if n := x.outcomes()[link.OutcomeOK]; n != 24 {
			t.Errorf("%d pages", n)
		}
		if gap := x.gaps["www.a.example"]; gap < delay-50*time.Millisecond {
			t.Errorf("smallest gap %v", gap)
		}
	})
}
