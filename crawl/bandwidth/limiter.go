package bandwidth

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
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
	// Share of the limit is granted on average, and burst seconds of it at once: so no second has more
	// than 0.98 of the limit. The rest allows for unsolicited bytes in the kernel's buffer of a
	// connection, and for the time between the grant and the read.
	Share = 0.95
	burst = 0.03
	// pieceTime is the duration of a piece; leastPiece and mostPiece bound it, in bytes: smaller ones
	// need too many system calls, larger ones cause spikes.
	pieceTime  = 0.02
	leastPiece = 64
	mostPiece  = 16 << 10
	// debtBound bounds the debt, in seconds of the limit: a peer that is silent for longer loses its
	// leases and connections, which costs more bytes than it saves.
	debtBound = 5
	// MaxRate bounds a limit, in bytes a second: beyond a terabyte it is a typing error.
	MaxRate = 1 << 40
)

// Limiter enforces a limit in one direction. In no window of one second does Wait grant more than
// 0.98 of the limit (and 64 bytes more under 2 kB/s). Under constant load it grants 0.95. Safe for
// concurrent use.
type Limiter struct {
	limit  atomic.Int64
	used   [classes]atomic.Int64
	tokens atomic.Pointer[rate.Limiter] // nil without a limit
	// turns admit one reservation of each class at a time, so that two classes alternate.
	turns [classes]*semaphore.Weighted
}

// NewLimiter returns a limiter with a limit in bytes a second; zero, or less, is none.
func NewLimiter(limit int64) *Limiter {
	l := &Limiter{}
	for c := range l.turns {
		l.turns[c] = semaphore.NewWeighted(1)
	}
	l.SetRate(limit)
	return l
}

// Rate returns the limit in bytes a second; zero without one.
func (l *Limiter) Rate() int64 { return l.limit.Load() }

// SetRate changes the limit and forgives the debt. A call that already waits gets its present piece
// as under the old limit. Zero, or less, removes the limit; the maximum is MaxRate.
func (l *Limiter) SetRate(limit int64) {
	limit = min(max(limit, 0), MaxRate)
	if l.limit.Swap(limit) == limit {
		return
	}
	if limit == 0 {
		l.tokens.Store(nil)
		return
	}
	l.tokens.Store(rate.NewLimiter(rate.Limit(Share*float64(limit)), max(int(burst*float64(limit)), leastPiece)))
}

// Used returns the bytes of a class since the limiter was created: those granted, and those spent
// without a grant.
func (l *Limiter) Used(c Class) int64 { return l.used[c].Load() }

// Piece returns how many bytes to request at a time for an even flow. It changes with the limit;
// without one it is large.
func (l *Limiter) Piece() int {
	limit := l.limit.Load()
	if limit == 0 {
		return mostPiece
	}
	return int(min(max(float64(limit)*pieceTime, leastPiece), mostPiece))
}

// Wait waits until n bytes may be read or written, a piece at a time. An error is ctx's; the pieces
// granted before it are spent.
func (l *Limiter) Wait(ctx context.Context, c Class, n int) error {
	if l.tokens.Load() == nil {
		l.used[c].Add(int64(max(n, 0)))
		return nil
	}
	if err := l.turns[c].Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for bandwidth: %w", context.Cause(ctx))
	}
	defer l.turns[c].Release(1)
	for n > 0 {
		part := min(n, l.Piece())
		if err := l.reserve(ctx, part); err != nil {
			return fmt.Errorf("wait for bandwidth: %w", err)
		}
		l.used[c].Add(int64(part))
		n -= part
	}
	return nil
}

// reserve waits for a piece.
func (l *Limiter) reserve(ctx context.Context, n int) error {
	t := l.tokens.Load()
	if t == nil {
		return nil
	}
	r := t.ReserveN(time.Now(), min(n, t.Burst())) // less only if the limit has just fallen
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return context.Cause(ctx)
	}
}

// Spent takes bytes that could not be requested before, as they were already transferred. Others
// wait for their duration.
func (l *Limiter) Spent(c Class, n int) {
	if n <= 0 {
		return
	}
	l.used[c].Add(int64(n))
	t := l.tokens.Load()
	if t == nil {
		return
	}
	for n > 0 && t.Tokens() > -debtBound*float64(t.Limit()) {
		part := min(n, t.Burst())
		t.ReserveN(time.Now(), part)
		n -= part
	}
}

// Line is the internet connection, with a limiter for each direction.
type Line struct {
	Down, Up *Limiter // download and upload
}

// NewLine returns a line with the same limit in both directions, in bytes a second; zero is none.
func NewLine(rate int64) *Line { return &Line{Down: NewLimiter(rate), Up: NewLimiter(rate)} }

// SetRate changes the limit in both directions, at once.
func (l *Line) SetRate(rate int64) {
	l.Down.SetRate(rate)
	l.Up.SetRate(rate)
}

// Rate returns the download limit.
func (l *Line) Rate() int64 { return l.Down.Rate() }

const (
	// leastBuffer and mostBuffer bound the kernel's receive buffer of a connection, in bytes: so much
	// of each may arrive before it is requested. It also bounds the bytes of a connection in a round
	// trip: at one of 150 ms, ten connections use the whole limit.
	leastBuffer = 1 << 10
	mostBuffer  = 256 << 10
	// bufferShare of the limit, in seconds.
	bufferShare = 1.0 / 128
)

// Control is for [net.Dialer]: while there is a limit it keeps the kernel from receiving much more
// on a new connection than is read.
func (l *Line) Control(_, _ string, c syscall.RawConn) error {
	rate := l.Down.Rate()
	if rate == 0 {
		return nil
	}
	// If the system does not permit it, the connection is used with a larger buffer.
	return c.Control(func(fd uintptr) { _ = setReadBuffer(fd, buffer(rate)) })
}

// buffer returns the approximate bytes of a connection that arrive before they are read.
func buffer(rate int64) int {
	return int(min(max(float64(rate)*bufferShare, leastBuffer), mostBuffer))
}
