package crawling

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// sessions sends the worker's messages to owners, and looks those up.
type sessions struct {
	say    func(ctx context.Context, to peer.ID, m *wire.Session) (*wire.SessionReply, error)
	router *rpc.Router
	log    *slog.Logger
}

var _ worker.Owners = sessions{}

// Session implements worker.Owners. Before it returns, the owners of hosts that have moved, or
// whose owner is gone, were looked up, so that OwnerOf returns them.
func (s sessions) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	to := peer.ID(owner)
	reply, err := s.say(ctx, to, m)
	if err != nil {
		s.log.Debug("no answer from owner", "peer", to, "err", err)
	} else if len(reply.GetMoved())+len(reply.GetRefused())+len(reply.GetRevoked()) > 0 {
		s.log.Debug("owner returned hosts", "peer", to, "moved", reply.GetMoved(), "refused", reply.GetRefused(), "revoked", reply.GetRevoked())
	}
	switch {
	case err == nil:
		s.seek(ctx, to, reply.GetMoved())
	case errors.Is(err, calls.ErrUnreachable):
		var hosts []string
		for _, held := range m.GetHeld() {
			hosts = append(hosts, held.GetHost())
		}
		for _, work := range m.GetHosts() {
			hosts = append(hosts, work.GetHost())
		}
		s.seek(ctx, to, hosts)
	}
	return reply, err
}

// maxSeeks and seekTime bound the lookups of owners, which delay the renewal of leases, or a page.
const (
	maxSeeks = 16
	seekTime = time.Second
)

// seek looks up the owners of hosts for which the presumed owner is still the peer not, or unknown.
func (s sessions) seek(ctx context.Context, not peer.ID, hosts []string) {
	seek(ctx, s.router, not, func(yield func(ring.Key) bool) {
		for _, host := range hosts {
			if !yield(ring.HostKey(host)) {
				return
			}
		}
	})
}

// seek looks up the owners of keys for which the presumed owner is the peer not, or unknown. A
// lookup returns a whole arc: of adjacent keys the first is enough.
func seek(ctx context.Context, r *rpc.Router, not peer.ID, keys iter.Seq[ring.Key]) {
	ctx, cancel := context.WithTimeout(ctx, seekTime)
	defer cancel()
	seeks := 0
	for key := range keys {
		if p, ok := r.Ring.Guess(key); ok && p.ID != not {
			continue
		}
		if seeks++; seeks > maxSeeks {
			return
		}
		if _, err := r.Owner(ctx, key, true); err != nil {
			return // retried with the next message
		}
	}
}

// OwnerOf implements worker.Owners.
func (s sessions) OwnerOf(host string) string {
	p, ok := s.router.Ring.Guess(ring.HostKey(host))
	if !ok {
		return ""
	}
	return string(p.ID)
}
