// Package loop holds what the goroutines of a peer have in common: how work of many is done by one
// ([Serial]), how they wait and are woken, and how they end.
package loop

import (
	"context"
	"errors"
	"time"
)

// ErrStopping answers requests that reach a loop after it has ended.
var ErrStopping = errors.New("the peer is stopping")

// UnlessStopping drops the error of a part that found a loop ended: the loop's own error, if it has
// one, says why.
func UnlessStopping(err error) error {
	if errors.Is(err, ErrStopping) {
		return nil
	}
	return UnlessCanceled(err)
}

// UnlessCanceled drops the error that says no more than that the end was asked for.
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

// Wake has whoever waits at c look again. C holds one token, so that it does not block, and nothing
// is missed.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
