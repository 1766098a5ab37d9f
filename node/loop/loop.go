// Package loop provides helpers for a peer's goroutines: serialized execution ([Serial]), waiting
// and waking, and shutdown errors.
package loop

import (
	"context"
	"errors"
	"time"
)

// ErrStopping answers requests that reach a loop after it has ended.
var ErrStopping = errors.New("the peer is stopping")

// UnlessStopping drops the error of a part that found a loop ended: the loop's own error, if any,
// is the cause.
func UnlessStopping(err error) error {
	if errors.Is(err, ErrStopping) {
		return nil
	}
	return UnlessCanceled(err)
}

// UnlessCanceled drops an error that only reports cancellation.
func UnlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Sleep waits, or returns the error of ctx if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake wakes the goroutine waiting at c. c has capacity 1, so it does not block, and no wake-up is
// lost.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
