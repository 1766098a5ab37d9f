package limits

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// Commands implements the part of control.Backend for limits. Each change returns the resulting
// limits.
type Commands struct{ limits *Limits }

// Commands returns the API of the limits.
func (l *Limits) Commands() Commands { return Commands{l} }

// Pause begins a pause by the user, without an end if d is 0.
func (c Commands) Pause(ctx context.Context, d time.Duration) (*control.Limits, error) {
	p := volunteer.Pause{On: true}
	if d > 0 {
		p.Until = time.Now().Add(d).Round(0)
	}
	return c.changed(ctx, c.limits.setPause(p))
}

// Resume ends a pause by the user.
func (c Commands) Resume(ctx context.Context) (*control.Limits, error) {
	return c.changed(ctx, c.limits.setPause(volunteer.Pause{}))
}

// SetLimits changes settings by key, all or none.
func (c Commands) SetLimits(ctx context.Context, values map[string]string) (*control.Limits, error) {
	return c.changed(ctx, c.limits.set(values))
}

func (c Commands) changed(ctx context.Context, err error) (*control.Limits, error) {
	if err != nil {
		return nil, err
	}
	return c.Limits(ctx)
}

// Limits returns settings, active throttles and usage, with the current free disk space.
func (c Commands) Limits(ctx context.Context) (*control.Limits, error) {
	v := c.limits.View()
	free, err := c.limits.free()
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	v.Used.DiskFree = int64(min(free, 1<<62)) // bounded
	return v, ctx.Err()
}

// Go collects the heap of an idle process every two minutes and returns its pages to the system
// even later. An idle peer returns them at once.
const (
	// restAfter is the time without progress after which a peer is idle.
	restAfter = 15 * time.Second
	// restEvery is the interval of checks.
	restEvery = 5 * time.Second
)

// rest decides when an idle peer returns memory. The zero value is ready to use.
type rest struct {
	moved    int64     // requests and acknowledged outcomes
	since    time.Time // last progress
	released bool      // since then
}

// due records an observation and reports whether to release memory: once until the next progress.
func (r *rest) due(now time.Time, w *worker.Stats) bool {
	moved := w.Requests + w.Acknowledged
	if r.since.IsZero() || w.InFlight+w.Processing+w.Unreported > 0 || moved != r.moved {
		*r = rest{moved: moved, since: now}
		return false
	}
	due := !r.released && now.Sub(r.since) >= restAfter
	r.released = r.released || due
	return due
}

// GiveBack returns free memory to the system whenever the worker has become idle, until ctx ends.
// It requires that the peer is alone in its process.
func GiveBack(ctx context.Context, worker func() worker.Stats) error {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var r rest
	for {
		if w := worker(); r.due(time.Now(), &w) {
			freeMemory()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// freeMemory returns unused memory to the system. A sync.Pool survives one collection, and the
// pools of a crawl hold megabytes of buffers and decoder windows.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
