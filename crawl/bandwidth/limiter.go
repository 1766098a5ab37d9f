package bandwidth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Class is who bytes are for. When several want more than the cap, each gets an equal part; what
// one does not want goes to the others.
type Class uint8

// The classes.
const (
	// Sites is what is exchanged with web sites.
	Sites Class = iota
	// Peers is what is exchanged with other peers.
	Peers
	classes
)

const (
	// Share of the cap is given out on the average, windowShare in any one second. The rest is for
	// what the kernel takes in of a connection unasked, and for the time between the leave to read
	// and the read.
	Share       = 0.97
	windowShare = 0.98
	// burst is how much of what was not given out in time may be made up for, in seconds of the
	// cap: a busy machine wakes up late. With more of it bytes would come in lumps, once a second.
	burst = 0.05
	// rest is the least time between two rounds of giving out: each wakes the processor up. A
	// second is no multiple of it, or the round of a second ago would still be in the window.
	rest = 18 * time.Millisecond
	// pieceTime is how long a piece lasts; leastPiece and mostPiece bound it, in bytes: less costs
	// a system call for next to nothing, more comes in lumps.
	pieceTime  = 0.02
	leastPiece = 64
	mostPiece  = 16 << 10
	// debtBound is how much debt is remembered, in seconds of the cap: a peer that falls silent for
	// longer loses its leases and connections, which costs more bytes than it saves.
	debtBound = 5
	// MaxRate bounds a cap, in bytes a second: beyond a terabyte it is a slip of the finger, and
	// arithmetic stays exact.
	MaxRate = 1 << 40
)

// Limiter holds a cap in one direction. Of what passes Wait, no window of one second has more than
// 0.98 of the cap (and 64 bytes more under 6.5 kB/s), if nobody asks for more at a time than
// [Limiter.Piece]. Who never lets it rest gets 0.97. It starts no goroutine, and all methods may be
// called concurrently.
type Limiter struct {
	rate atomic.Int64
	used [classes]atomic.Int64

	mu     sync.Mutex // guards the rest, for moments
	bucket bucket
	queues [classes][]*waiter
	served [classes]float64 // bytes, for taking turns; see turn
	timer  *time.Timer
}

// waiter is one call of Wait.
type waiter struct {
	left int
	done chan struct{}
}

// NewLimiter returns a limiter with a cap in bytes a second; zero, or less, is none.
func NewLimiter(rate int64) *Limiter {
	l := &Limiter{}
	l.SetRate(rate)
	return l
}

// Rate is the cap in bytes a second; zero if there is none.
func (l *Limiter) Rate() int64 { return l.rate.Load() }

// SetRate changes the cap, at once also for those that wait. Zero, or less, lifts it; more than
// MaxRate is MaxRate.
func (l *Limiter) SetRate(rate int64) {
	rate = min(max(rate, 0), MaxRate)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.setRate(time.Now(), float64(rate))
	l.rate.Store(rate)
	l.serve()
}

// Used counts the bytes of a class since the limiter was made: those granted, and those spent
// unasked.
func (l *Limiter) Used(c Class) int64 { return l.used[c].Load() }

// Piece is how many bytes to ask for at a time, so that what is read or written is as even as the
// cap. It changes with the cap; without one it is large.
func (l *Limiter) Piece() int {
	rate := l.rate.Load()
	if rate == 0 {
		return mostPiece
	}
	return piece(float64(rate))
}

func piece(rate float64) int { return int(min(max(rate*pieceTime, leastPiece), mostPiece)) }

// Wait waits until n bytes may be read or written. An error is ctx's; nothing is taken then. More
// than a piece is collected over a while and then there at once.
func (l *Limiter) Wait(ctx context.Context, c Class, n int) error {
	if n <= 0 {
		return nil
	}
	if l.rate.Load() == 0 {
		l.used[c].Add(int64(n))
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for bandwidth: %w", context.Cause(ctx))
	}
	w := l.enter(c, n)
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queues[c], w)
	if i < 0 {
		return nil // granted meanwhile
	}
	l.queues[c] = slices.Delete(l.queues[c], i, i+1)
	l.giveBack(c, n-w.left)
	l.serve()
	return fmt.Errorf("wait for bandwidth: %w", context.Cause(ctx))
}

// enter grants n bytes and returns nil, or queues for them.
func (l *Limiter) enter(c Class, n int) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting() && l.bucket.take(time.Now(), float64(n)) {
		l.used[c].Add(int64(n))
		return nil
	}
	w := &waiter{left: n, done: make(chan struct{})}
	l.join(c)
	l.queues[c] = append(l.queues[c], w)
	l.serve()
	if w.left == 0 {
		return nil
	}
	return w
}

// Spent takes bytes that could not be asked for before: they are there already. Others wait for as
// long as they take.
func (l *Limiter) Spent(c Class, n int) {
	if n <= 0 {
		return
	}
	l.used[c].Add(int64(n))
	if l.rate.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.owe(time.Now(), float64(n))
	l.join(c)
	l.served[c] += float64(n)
}

// Return gives back what was granted and is not needed, such as the rest of a piece that was not
// there to be read.
func (l *Limiter) Return(c Class, n int) {
	if n <= 0 {
		return
	}
	if l.rate.Load() == 0 {
		l.used[c].Add(-int64(n))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(c, n)
	l.serve()
}

func (l *Limiter) giveBack(c Class, n int) {
	l.bucket.giveBack(time.Now(), float64(n))
	l.served[c] -= float64(n)
	l.used[c].Add(-int64(n))
}

func (l *Limiter) waiting() bool {
	for c := range l.queues {
		if len(l.queues[c]) > 0 {
			return true
		}
	}
	return false
}

// join has a class that wanted nothing begin where the others are: what it did not want is not kept
// for it.
func (l *Limiter) join(c Class) {
	if len(l.queues[c]) > 0 {
		return
	}
	for other := range l.queues {
		if len(l.queues[other]) > 0 {
			l.served[c] = max(l.served[c], l.served[other])
		}
	}
}

// turn is the class that is next: of those that wait, the one that got least.
func (l *Limiter) turn() (Class, bool) {
	best, found := Class(0), false
	for c := range classes {
		if len(l.queues[c]) > 0 && (!found || l.served[c] < l.served[best]) {
			best, found = c, true
		}
	}
	return best, found
}

// serve grants what there is, a piece at a time, and plans the next round.
func (l *Limiter) serve() {
	for {
		c, ok := l.turn()
		if !ok {
			return
		}
		w := l.queues[c][0]
		n := w.left
		if l.bucket.rate > 0 {
			n = min(n, piece(l.bucket.rate))
		}
		if now := time.Now(); !l.bucket.take(now, float64(n)) {
			l.plan(l.bucket.until(now, float64(n)))
			return
		}
		w.left -= n
		l.used[c].Add(int64(n))
		l.served[c] += float64(n)
		l.queues[c] = slices.Delete(l.queues[c], 0, 1)
		if w.left == 0 {
			close(w.done)
		} else {
			l.queues[c] = append(l.queues[c], w)
		}
	}
}

func (l *Limiter) plan(d time.Duration) {
	d = max(d, rest)
	if l.timer != nil {
		l.timer.Reset(d)
		return
	}
	l.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.serve()
	})
}
