package limits

import (
	"context"
	"errors"
	"time"

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
