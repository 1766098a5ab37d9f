package node

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/control"
)

// Wait implements control.Backend.
func (n *Node) Wait(ctx context.Context, id string, patience time.Duration, fn func(control.Progress) error) error {
	if err := n.Ready(ctx); err != nil {
		return err
	}
	if id != "" {
		j, err := n.Job(ctx, id)
		if err != nil {
			return err
		}
		id = j.ID
	}
	return n.WaitIdle(ctx, id, patience, fn)
}

// Pause implements control.Backend.
func (n *Node) Pause(ctx context.Context, d time.Duration) (*control.Limits, error) {
	return n.changedLimits(ctx, n.limits.PauseFor(d))
}

// Resume implements control.Backend.
func (n *Node) Resume(ctx context.Context) (*control.Limits, error) {
	return n.changedLimits(ctx, n.limits.Resume())
}

// SetLimits implements control.Backend.
func (n *Node) SetLimits(ctx context.Context, values map[string]string) (*control.Limits, error) {
	return n.changedLimits(ctx, n.limits.Set(values))
}

func (n *Node) changedLimits(ctx context.Context, err error) (*control.Limits, error) {
	if err != nil {
		return nil, err
	}
	return n.Limits(ctx)
}

// Limits implements control.Backend.
func (n *Node) Limits(ctx context.Context) (*control.Limits, error) {
	return n.limits.ViewWithDisk(ctx)
}

// Alone says whether there is nobody to whom this peer could hand what it keeps: it is the only one, or not yet part of a ring.
func (n *Node) Alone() bool { return n.room.dht.State() != dht.Serving || n.room.dht.Size() <= 1 }
