package bandwidth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Class is who bytes are for. When several want more than the cap, each gets an equal part; what one does not want goes to the others.
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
	// burst is how much of the cap may be taken at once after a pause, in seconds. With it no window of one second sees more than 1.01 L asked for, which
	// leaves 0.01 L to what happens between being told to read and having read.
	burst = 0.01
	// leastPiece and mostPiece bound what is asked for at a time, in bytes: less costs a system call for next to nothing, more comes in lumps.
	leastPiece = 256
	mostPiece  = 16 << 10
	// debtBound is how much debt is remembered, in seconds of the cap: a peer that falls silent for longer loses its leases and connections, which costs more
	// bytes than it saves.
	debtBound = 5
	// MaxRate bounds a cap, in bytes a second: beyond a terabyte it is a slip of the finger, and arithmetic stays exact.
	MaxRate = 1 << 40
)

// Limiter holds a cap in one direction: of what was waited for, no window of one second, whatever its phase, has more than 1.01 of the cap (under 26 kB/s:
// the cap and 256 bytes), pieces asked for at a time being no larger than [Limiter.Piece]. It starts no goroutine. All methods may be called by many goroutines at once.
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

// SetRate changes the cap, at once also for those that wait. Zero, or less, lifts it; more than MaxRate is MaxRate.
func (l *Limiter) SetRate(rate int64) {
	rate = min(max(rate, 0), MaxRate)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.setRate(time.Now(), float64(rate))
	l.rate.Store(rate)
	l.serve()
}

// Used counts the bytes of a class since the limiter was made: those granted, and those spent unasked.
func (l *Limiter) Used(c Class) int64 { return l.used[c].Load() }

// Piece is how many bytes to ask for at a time, so that what is read or written is as even as the cap. It changes with the cap; without one it is large.
func (l *Limiter) Piece() int {
	rate := l.rate.Load()
	if rate == 0 {
		return mostPiece
	}
	return piece(float64(rate))
}

// piece is half of the burst: what comes late by less than the other half is made up for.
func piece(rate float64) int { return min(max(int(rate*burst/2), leastPiece), mostPiece) }

// Wait waits until n bytes may be read or written. An error is ctx's; nothing is taken then. More than a piece is collected over a while and then there
// at once.
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

// Spent takes bytes that could not be asked for before: they are there already. Others wait for as long as they take.
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

// Return gives back what was granted and is not needed, such as the rest of a piece that was not there to be read.
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

// join has a class that wanted nothing begin where the others are: what it did not want is not kept for it.
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

// bucket fills at the rate and holds a burst. Without a rate it has everything. It is below zero while there is debt.
type bucket struct {
	rate   float64 // bytes a second
	tokens float64
	at     time.Time
}

// holds is what the bucket holds at most: never less than the least piece, or that could not be had.
func (b *bucket) holds() float64 { return max(b.rate*burst, leastPiece) }

func (b *bucket) setRate(now time.Time, rate float64) {
	b.refill(now)
	b.rate = rate
	b.tokens = min(max(b.tokens, -rate*debtBound), b.holds())
}

func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.rate, b.holds())
		b.at = now
	}
}

func (b *bucket) take(now time.Time, n float64) bool {
	if b.rate == 0 {
		return true
	}
	b.refill(now)
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

func (b *bucket) owe(now time.Time, n float64) {
	b.refill(now)
	b.tokens = max(b.tokens-n, -b.rate*debtBound)
}

func (b *bucket) giveBack(now time.Time, n float64) {
	b.refill(now)
	b.tokens = min(b.tokens+n, b.holds())
}

// until is how long it takes until n can be taken; a microsecond more than computed, so that rounding does not ask twice.
func (b *bucket) until(now time.Time, n float64) time.Duration {
	b.refill(now)
	return time.Duration((n-b.tokens)/b.rate*float64(time.Second)) + time.Microsecond
}
