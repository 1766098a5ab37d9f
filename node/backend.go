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

// Alone reports whether no other peer can take over this peer's records: it is the only one, or not
// yet in a ring.
func (n *Node) Alone() bool { return n.ring.dht.State() != dht.Serving || n.ring.dht.Size() <= 1 }
