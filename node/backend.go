package node

import (
	"context"
	"fmt"
	"io"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/control"
)

// Post implements control.Backend.
func (n *Node) Post(ctx context.Context, spec control.JobSpec) (*control.Job, error) {
	if err := n.Ready(ctx); err != nil {
		return nil, err
	}
	return n.desk.post(ctx, spec)
}

// Jobs implements control.Backend.
func (n *Node) Jobs(ctx context.Context) ([]control.Job, error) { return n.desk.jobs(ctx) }

// Job implements control.Backend.
func (n *Node) Job(ctx context.Context, id string) (*control.Job, error) { return n.desk.find(ctx, id) }

// SetJob implements control.Backend.
func (n *Node) SetJob(ctx context.Context, id, action string) (*control.Job, error) {
	return n.desk.change(ctx, id, action)
}

// Wait implements control.Backend.
func (n *Node) Wait(ctx context.Context, id string, fn func(control.Progress) error) error {
	if err := n.Ready(ctx); err != nil {
		return err
	}
	if id != "" {
		j, err := n.desk.find(ctx, id)
		if err != nil {
			return err
		}
		id = j.ID
	}
	return n.walker.waitIdle(ctx, id, fn)
}

// Leave implements control.Backend.
func (n *Node) Leave(context.Context) error {
	if n.leaving.CompareAndSwap(false, true) {
		close(n.stop)
	}
	return nil
}

// Alone says whether there is nobody to whom this peer could hand what it keeps: it is the only one, or not yet part of a ring.
func (n *Node) Alone() bool { return n.room.dht.State() != dht.Serving || n.room.dht.Size() <= 1 }

// Export implements control.Backend.
func (n *Node) Export(ctx context.Context, what string, whole bool, w io.Writer) error {
	peers := []peer.ID{n.room.net.Self()}
	if whole {
		r, err := n.walker.walk(ctx)
		if err != nil {
			return err
		}
		peers = peers[:0]
		for _, m := range r.Members {
			id, err := peer.Decode(m.Peer)
			if err != nil {
				return err
			}
			peers = append(peers, id)
		}
	}
	if err := n.crawl.flush(); err != nil {
		return err
	}
	switch what {
	case "warc":
		return exportWARC(ctx, n.room.net, peers, w)
	case "links":
		return exportLinks(ctx, n.room.net, peers, w)
	case "cdxj":
		return exportCDXJ(ctx, n.room.net, peers, w)
	case "urls":
		return n.exportURLs(ctx, peers, w)
	default:
		return control.Usage(fmt.Sprintf("export %q: must be warc, cdxj, links or urls", what))
	}
}
