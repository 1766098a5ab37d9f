package permit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTurns: no two workers ask a domain within its delay, however long their questions take. Each
// has its turns, and one that is alone with its work loses no time.
func TestTurns(t *testing.T) {
	const (
		step = 50 * time.Millisecond
		long = 4 * time.Hour
	)
	for _, tt := range []struct {
		delay         time.Duration
		workers, idle int
		least         float64 // requests, as a share of what the delay allows
	}{
		{time.Second, 1, 0, 0.97},
		{time.Second, 4, 0, 0.75},
		{100 * time.Millisecond, 2, 0, 0.8},
		{time.Second, 1, 3, 0.97},
		{7 * time.Second, 3, 0, 0.6},
		{time.Minute, 1, 0, 0.97},
		{time.Minute, 5, 0, 0.8},
		{10 * time.Minute, 3, 0, 0.9},
	} {
		t.Run(fmt.Sprintf("%v, %d workers", tt.delay, tt.workers), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			key, g := Key{Domain: "a.example"}, NewGranter(1, Chunk)
			type answer struct {
				at    time.Time
				n     int
				holds time.Duration
			}
			type worker struct {
				*Wallet
				next    time.Time // by its own frontier
				answers []answer
				made    int
			}
			workers := make([]worker, tt.workers+tt.idle)
			for i := range workers {
				workers[i].Wallet = NewWallet(0, Chunk, tt.delay)
			}
			var last time.Time
			by, made := -1, 0
			for now := begin; now.Before(begin.Add(long)); now = now.Add(step) {
				for i := range workers {
					w := &workers[i]
					for len(w.answers) > 0 && !w.answers[0].at.After(now) {
						w.Granted(now, key, w.answers[0].n, w.answers[0].holds)
						w.answers = w.answers[1:]
					}
					if i >= tt.workers && now.Sub(begin) > time.Second { // it asks once, and does nothing with it
						continue
					}
					if !now.Before(w.next) {
						if ok, again := w.Take(now, key, "a.example"); ok {
							if gap := now.Sub(last); i != by && gap < tt.delay {
								t.Fatalf("worker %d asks %v after worker %d", i, gap, by)
							}
							last, by, w.next = now, i, now.Add(tt.delay)
							w.made++
							made++
						} else if !again.After(now) {
							t.Fatalf("worker %d is to try again at %v, at %v", i, again, now)
						}
					}
					for _, q := range w.Asks(now) {
						there := now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
						n, holds, err := g.Turn(there, key.Domain, Caller{Peer: fmt.Sprint(i)}, tt.delay, q.Want)
						if err != nil {
							t.Fatal(err)
						}
						w.answers = append(w.answers, answer{at: there.Add(time.Duration(rnd.IntN(300)) * time.Millisecond), n: n, holds: holds})
					}
				}
			}
			if share := float64(made) * float64(tt.delay) / float64(long); share < tt.least {
				t.Errorf("%d requests, %.2f of what the delay allows", made, share)
			}
			for i := range workers[:tt.workers] {
				if n := workers[i].made; n < made/tt.workers/3 {
					t.Errorf("worker %d made %d of %d", i, n, made)
				}
			}
		})
	}
}

// TestTurnsEnd: a domain is forgotten when its turn is, not before; there is room for so many.
func TestTurnsEnd(t *testing.T) {
	g := NewGranter(1, Chunk)
	g.prefixes = 2
	turn := func(after time.Duration, domain, worker string) (n int, holds time.Duration, err error) {
		return g.Turn(begin.Add(after), domain, Caller{Peer: worker}, 10*time.Minute, 8)
	}
	for _, domain := range []string{"a", "b"} {
		if n, holds, err := turn(0, domain, "one"); n != 8 || holds != Chunk/longTurn || err != nil {
			t.Errorf("%s: %d for %v, %v", domain, n, holds, err)
		}
	}
	if _, _, err := turn(5*time.Minute, "c", "one"); err == nil {
		t.Error("a domain too many")
	}
	if n, holds, err := turn(10*time.Minute, "a", "two"); n != 0 || holds != Chunk/longTurn || err != nil {
		t.Errorf("within the delay: %d for %v, %v", n, holds, err)
	}
	if n, _, err := turn(12*time.Minute, "c", "one"); n != 8 || err != nil {
		t.Errorf("when others have ended: %d, %v", n, err)
	}
}

// TestGreedyCaller: one that says another delay than others, and that it was started anew, and
// asks all the time, has no more turns than who waits as long as it is told; nobody asks within the
// delay that somebody wants.
func TestGreedyCaller(t *testing.T) {
	const ring = 5 * time.Second
	for _, row := range []struct {
		name  string
		delay time.Duration // that the greedy one says
		guest bool
		anew  bool
	}{
		{"none", 0, true, false},
		{"none, and started anew", 0, true, true},
		{"none, of a member", 0, false, true},
		{"as others, and started anew", ring, true, true},
		{"an hour", MaxDelay, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewGranter(1, Chunk)
			g.Delay = ring
			var next, end time.Time // when the modest one asks again, and when the turn before ends
			var turns, greedy int
			last := ""
			for now := begin; now.Before(begin.Add(time.Hour)); now = now.Add(50 * time.Millisecond) {
				by := Caller{Peer: "greedy", Guest: row.guest}
				if row.anew {
					by.Incarnation = uint64(now.UnixNano()) // after 1970
				}
				delay := row.delay
				for _, by := range []Caller{by, {Peer: "modest"}} {
					if by.Peer == "modest" {
						if delay = ring; now.Before(next) {
							continue
						}
					}
					n, holds, err := g.Turn(now, "a.example", by, delay, 8)
					if err != nil {
						t.Fatal(err)
					}
					if by.Peer == "modest" {
						next = now.Add(holds + 300*time.Millisecond)
					}
					if n == 0 {
						continue
					}
					if last != "" && last != by.Peer && now.Sub(end) < ring {
						t.Fatalf("%s has a turn %v after that of %s", by.Peer, now.Sub(end), last)
					}
					if by.Peer == "modest" {
						turns++
					} else if last != by.Peer { // it may go on with the one it has
						greedy++
					}
					last, end = by.Peer, now.Add(holds)
				}
			}
			if turns < 50 || greedy > turns+1 {
				t.Errorf("%d turns, and %d of the greedy one", turns, greedy)
			}
		})
	}
}

// TestGuestsTurnsAreForgotten: of a guest that wants an hour between turns no longer than this
// peer's delay is remembered.
func TestGuestsTurnsAreForgotten(t *testing.T) {
	g := NewGranter(1, Chunk)
	g.Delay = 5 * time.Second
	for range 2 {
		if _, _, err := g.Turn(begin, "a.example", Caller{Peer: "p", Guest: true}, MaxDelay, 8); err != nil {
			t.Fatal(err)
		}
	}
	g.begin(begin.Add(2 * Chunk))
	if len(g.turns) > 0 {
		t.Error("it is remembered")
	}
}
