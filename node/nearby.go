package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// lookTime is how long a peer without known peers listens on the local network before it founds a
	// ring. Rings founded at the same moment merge later.
	lookTime = 3 * time.Second
	// nearbyKept is the maximum number of found peers used as entry points, meetings the number dialed
	// concurrently.
	nearbyKept = 64
	meetings   = 4
	// meetTime is the timeout of one, nearbyAgain the delay after multicast failed.
	meetTime    = 10 * time.Second
	nearbyAgain = time.Minute
)

// nearby finds peers of this ring on the local network; nil without --mdns.
type nearby struct {
	mu    sync.Mutex
	heard map[peer.ID][]string
}

func newNearby(on bool) *nearby {
	if !on {
		return nil
	}
	return &nearby{heard: make(map[peer.ID][]string)}
}

func (n *nearby) record(info peer.AddrInfo) {
	addrs, err := peer.AddrInfoToP2pAddrs(&info)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.heard[info.ID]; !known && len(n.heard) >= nearbyKept {
		for id := range n.heard {
			delete(n.heard, id) // any: a live peer is found again within a minute
			break
		}
	}
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
	}
	n.heard[info.ID] = list
}

// addrs returns the entry points found.
func (n *nearby) addrs() []string {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(n.heard))...)
}

// look listens for lookTime, before the peer has an identity.
func (n *nearby) look(ctx context.Context, r *ringServices) {
	if n == nil || !r.sources.Empty() || r.restarted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := p2p.Nearby(ctx, r.cfg.Network, n.record); err != nil {
		r.log.Warn("mDNS query failed", "err", err)
	}
	r.sources.Nearby = n.addrs()
}

// run announces this peer on the local network and connects to the peers it finds, until ctx ends;
// the ring then integrates them. It never fails: the network may be down temporarily.
func (n *nearby) run(ctx context.Context, r *ringServices) error {
	group, ctx := errgroup.WithContext(ctx)
	again := func(what string, do func() error) func() error {
		return func() error {
			for {
				if err := do(); err != nil && ctx.Err() == nil {
					r.log.Warn("multicast DNS failed", "at", what, "err", err, "again_in", nearbyAgain)
				}
				if err := loop.Sleep(ctx, nearbyAgain); err != nil {
					return nil //nolint:nilerr // the end was asked for
				}
			}
		}
	}
	group.Go(again("announce by mDNS", func() error { return r.net.Announce(ctx) }))
	var meet errgroup.Group
	meet.SetLimit(meetings)
	group.Go(again("query by mDNS", func() error {
		return p2p.Nearby(ctx, r.cfg.Network, func(info peer.AddrInfo) {
			n.record(info)
			meet.TryGo(func() error { // if all are busy the peer is reported again later
				n.meet(ctx, r, info)
				return nil
			})
		})
	}))
	return errors.Join(group.Wait(), meet.Wait())
}

func (n *nearby) meet(ctx context.Context, r *ringServices, info peer.AddrInfo) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	if err := r.net.Meet(ctx, info); err != nil {
		r.log.Debug("peer found by mDNS does not answer", "peer", info.ID, "err", err)
	}
}
