package bandwidth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Class is a class of traffic. When several request more than the limit, each gets an equal part;
// what one does not use goes to the others.
type Class uint8

// The classes.
const (
	// Sites is traffic with web sites.
	Sites Class = iota
	// Peers is traffic with other peers.
	Peers
	classes
)

const (
	// Share of the limit is granted on average, windowShare in any one second. The rest allows for
	// unsolicited bytes in the kernel's buffer of a connection, and for the time between the grant and
	// the read.
	Share       = 0.97
	windowShare = 0.98
	// burst bounds the late grants that are made up for, in seconds of the limit: a busy machine wakes
	// up late. A larger burst would cause spikes, once a second.
	burst = 0.05
	// rest is the minimum time between two rounds of grants: each wakes the processor up. A second is
	// not a multiple of it, or the round of a second ago would still be in the window.
	rest = 18 * time.Millisecond
	// pieceTime is the duration of a piece; leastPiece and mostPiece bound it, in bytes: smaller ones
	// need too many system calls, larger ones cause spikes.
	pieceTime  = 0.02
	leastPiece = 64
	mostPiece  = 16 << 10
	// debtBound bounds the debt, in seconds of the limit: a peer that is silent for longer loses its
	// leases and connections, which costs more bytes than it saves.
	debtBound = 5
	// MaxRate bounds a limit, in bytes a second: beyond a terabyte it is a typing error, and
	// arithmetic stays exact.
	MaxRate = 1 << 40
)

// Limiter enforces a limit in one direction. In no window of one second does Wait grant more than
// 0.98 of the limit (and 64 bytes more under 6.5 kB/s), if no call requests more than
// [Limiter.Piece]. Under constant load it grants 0.97. It starts no goroutine. Safe for concurrent
// use.
type Limiter struct {
	rate atomic.Int64
	used [classes]atomic.Int64

	mu     sync.Mutex // guards the rest, for moments
	bucket bucket
	queues [classes][]*waiter
	served [classes]float64 // bytes, for alternating; see turn
	timer  *time.Timer
}

// waiter is one call of Wait.
type waiter struct {
	left int
	done chan struct{}
}

// NewLimiter returns a limiter with a limit in bytes a second; zero, or less, is none.
func NewLimiter(rate int64) *Limiter {
	l := &Limiter{}
	l.SetRate(rate)
	return l
}

// Rate returns the limit in bytes a second; zero without one.
func (l *Limiter) Rate() int64 { return l.rate.Load() }

// SetRate changes the limit, at once also for waiting calls. Zero, or less, removes it; the maximum
// is MaxRate.
func (l *Limiter) SetRate(rate int64) {
	rate = min(max(rate, 0), MaxRate)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.setRate(time.Now(), float64(rate))
	l.rate.Store(rate)
	l.serve()
}

// Used returns the bytes of a class since the limiter was created: those granted, and those spent
// without a grant.
func (l *Limiter) Used(c Class) int64 { return l.used[c].Load() }

// Piece returns how many bytes to request at a time for an even flow. It changes with the limit;
// without one it is large.
func (l *Limiter) Piece() int {
	rate := l.rate.Load()
	if rate == 0 {
		return mostPiece
	}
	return piece(float64(rate))
}

func piece(rate float64) int { return int(min(max(rate*pieceTime, leastPiece), mostPiece)) }

// Wait waits until n bytes may be read or written. An error is ctx's; nothing is taken then. More
// than a piece is collected over time and then granted at once.
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

// Spent takes bytes that could not be requested before, as they were already transferred. Others
// wait for their duration.
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

// Return returns granted bytes that are not needed, such as the rest of a piece.
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

// join starts a class that was idle at the level of the others: what it did not use is not saved.
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

// turn returns the next class: of those that wait, the one that got least.
func (l *Limiter) turn() (Class, bool) {
	best, found := Class(0), false
	for c := range classes {
		if len(l.queues[c]) > 0 && (!found || l.served[c] < l.served[best]) {
			best, found = c, true
		}
	}
	return best, found
}

// serve grants the available bytes, a piece at a time, and schedules the next round.
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
