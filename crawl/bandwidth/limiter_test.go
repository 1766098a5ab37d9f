package bandwidth

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// taken is what somebody read, and when.
type taken struct {
	at    time.Time
	class Class
	bytes int
}

// diary notes what is taken; safe for concurrent use.
type diary struct {
	mu    sync.Mutex
	taken []taken
}

func (d *diary) note(c Class, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken = append(d.taken, taken{time.Now(), c, n})
}

// worst is the most bytes in a second, whatever its phase; only seconds that begin at an entry need
// be looked at.
func (d *diary) worst(from, to time.Time) int {
	worst, sum, first := 0, 0, 0
	for _, e := range d.taken {
		if e.at.Before(from) || e.at.After(to) {
			first++
			continue
		}
		sum += e.bytes
		for e.at.Sub(d.taken[first].at) >= time.Second {
			sum -= d.taken[first].bytes
			first++
		}
		worst = max(worst, sum)
	}
	return worst
}

// sum is what a class took from a moment on, up to another; classes: all of them.
func (d *diary) sum(c Class, from, to time.Time) int {
	sum := 0
	for _, e := range d.taken {
		if (c == classes || e.class == c) && !e.at.Before(from) && e.at.Before(to) {
			sum += e.bytes
		}
	}
	return sum
}

// read takes pieces until ctx ends.
func (d *diary) read(ctx context.Context, l *Limiter, c Class) {
	for {
		n := l.Piece()
		if l.Wait(ctx, c, n) != nil {
			return
		}
		d.note(c, n)
	}
}

// TestLimiterWindows: whoever comes and goes, no second of any phase has more than 0.98 of the cap,
// and little of it is left unused while somebody waits.
func TestLimiterWindows(t *testing.T) {
	for _, rate := range []int64{30_000, 140_000, 250_000, 12_500_000} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(rate)
			var d diary
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			begun := time.Now()
			for i := range 12 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(rate), uint64(i)))
					for ctx.Err() == nil { // at least the first is always there
						part, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(3000))*time.Millisecond)
						d.read(part, l, Class(i%int(classes)))
						cancel()
						if i > 0 {
							time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			if worst := d.worst(begun, time.Now()); float64(worst) > 0.98*float64(rate)+1 {
				t.Errorf("cap %d: a second with %d bytes, %.4f of it", rate, worst, float64(worst)/float64(rate))
			}
			sum := d.sum(classes, begun, time.Now())
			if use := float64(sum) / 20 / float64(rate); use < 0.93 { // a canceled wait loses a part of its piece
				t.Errorf("cap %d: %.4f of it used", rate, use)
			}
			if used := l.Used(Sites) + l.Used(Peers); used != int64(sum) {
				t.Errorf("cap %d: used %d bytes, %d were taken", rate, used, sum)
			}
		})
	}
}

// TestLimiterFair: classes share alike whatever their number of readers, and one alone has it all.
func TestLimiterFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100_000
		l := NewLimiter(rate)
		var d diary
		var wg sync.WaitGroup
		begun := time.Now()
		end := begun.Add(30 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), end)
		defer cancel()
		for range 9 {
			wg.Go(func() { d.read(ctx, l, Sites) })
		}
		from, to := begun.Add(10*time.Second), begun.Add(20*time.Second)
		wg.Go(func() {
			time.Sleep(10 * time.Second)
			part, cancel := context.WithDeadline(ctx, to)
			defer cancel()
			d.read(part, l, Peers)
		})
		wg.Wait()
		for _, tt := range []struct {
			name     string
			from, to time.Time
			peers    float64
		}{{"alone", begun, from, 0}, {"beside", from, to, 0.5}, {"alone again", to, end, 0}} {
			sites, peers := float64(d.sum(Sites, tt.from, tt.to)), float64(d.sum(Peers, tt.from, tt.to))
			if all := sites + peers; all < 0.94*rate*10 || peers/all < tt.peers-0.02 || peers/all > tt.peers+0.02 {
				t.Errorf("%s: sites took %.0f bytes, peers %.0f", tt.name, sites, peers)
			}
		}
	})
}

// TestLimiterSetRate: a change applies to waiting calls from the next piece.
func TestLimiterSetRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(10_000)
		var wg sync.WaitGroup
		took := func(after func()) time.Duration {
			begun := time.Now()
			wg.Go(func() {
				if err := l.Wait(t.Context(), Sites, 100_000); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			after()
			wg.Wait()
			return time.Since(begun)
		}
		if d := took(func() {}); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("100,000 bytes at 10,000 a second took %v", d)
		}
		if d := took(func() { l.SetRate(0) }); d > 25*time.Millisecond {
			t.Errorf("the limit was removed: %v", d)
		}
		l.SetRate(10_000)
		if d := took(func() { l.SetRate(100_000) }); d < 900*time.Millisecond || d > 1200*time.Millisecond {
			t.Errorf("ten times the cap: %v", d)
		}
		if d := took(func() { l.SetRate(5000) }); d < 19*time.Second || d > 22*time.Second {
			t.Errorf("half of the cap: %v", d)
		}
	})
}

// TestLimiterDebt: what was spent unasked is waited for by the next, but not without end.
func TestLimiterDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(10_000)
		wait := func(n int) time.Duration {
			begun := time.Now()
			if err := l.Wait(t.Context(), Sites, n); err != nil {
				t.Error(err)
			}
			return time.Since(begun).Round(50 * time.Millisecond)
		}
		wait(1000)
		l.Spent(Peers, 20_000)
		if d := wait(1000); d < 2*time.Second || d > 2300*time.Millisecond {
			t.Errorf("after 20,000 spent: %v", d)
		}
		l.Spent(Peers, 1<<30)
		if d := wait(1000); d < debtBound*time.Second || d > (debtBound+1)*time.Second {
			t.Errorf("after very much spent: %v", d)
		}
		if got := l.Used(Peers); got != 20_000+1<<30 {
			t.Errorf("used %d", got)
		}
	})
}

// TestLimiterGivesUp: a canceled call takes only the pieces granted before.
func TestLimiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(10_000)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := l.Wait(ctx, Sites, 100_000); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		used := l.Used(Sites)
		if used < 28_000 || used > 29_000 {
			t.Errorf("%d bytes used in 3 s", used)
		}
		if err := l.Wait(ctx, Sites, 1); !errors.Is(err, context.DeadlineExceeded) || l.Used(Sites) != used {
			t.Errorf("Wait after the end: %v", err)
		}
		begun := time.Now()
		if err := l.Wait(t.Context(), Sites, l.Piece()); err != nil || time.Since(begun) > 50*time.Millisecond {
			t.Errorf("the next call waited %v, %v", time.Since(begun), err)
		}
	})
}

// TestLimiterNone: without a cap nobody waits, and it is counted all the same; what was used then
// is no debt later.
func TestLimiterNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(0)
		begun := time.Now()
		for range 1000 {
			if err := l.Wait(t.Context(), Peers, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		l.Spent(Sites, 5)
		l.SetRate(1000)
		if err := l.Wait(t.Context(), Sites, 250); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d > 300*time.Millisecond || l.Used(Peers) != 1000<<20 || l.Used(Sites) != 255 {
			t.Errorf("after %v: used %d and %d", d, l.Used(Sites), l.Used(Peers))
		}
	})
}

func BenchmarkWait(b *testing.B) {
	for _, tt := range []struct {
		name string
		rate int64
	}{{"none", 0}, {"far", MaxRate}} {
		b.Run(tt.name, func(b *testing.B) {
			l := NewLimiter(tt.rate)
			for b.Loop() {
				_ = l.Wait(b.Context(), Sites, 4096)
			}
		})
	}
}
