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
	// lookTime is how long a peer that knows nobody listens for others on the local network before
	// it founds a ring. Rings that are founded at the same moment become one when they hear of each
	// other.
	lookTime = 3 * time.Second
	// nearbyKept bounds the peers heard of that are ways into the ring, meetings those that are
	// dialled at the same time.
	nearbyKept = 64
	meetings   = 4
	// meetTime bounds one of them, nearbyAgain is the wait after multicast failed.
	meetTime    = 10 * time.Second
	nearbyAgain = time.Minute
)

// nearby are the peers of this ring that were heard of on the local network; nil without --mdns,
// and then nobody is.
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

func (n *nearby) note(info peer.AddrInfo) {
	addrs, err := peer.AddrInfoToP2pAddrs(&info)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.heard[info.ID]; !known && len(n.heard) >= nearbyKept {
		for id := range n.heard {
			delete(n.heard, id) // any of them: whoever is still there is heard again within a minute
			break
		}
	}
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
	}
	n.heard[info.ID] = list
}

// addrs are the ways into the ring that were heard of.
func (n *nearby) addrs() []string {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(n.heard))...)
}

// look listens for a moment, before the peer has a name.
func (n *nearby) look(ctx context.Context, r *ringRoom) {
	if n == nil || !r.sources.Empty() || r.restarted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := p2p.Nearby(ctx, r.cfg.Network, n.note); err != nil {
		r.log.Warn("the local network was not asked for peers", "err", err)
	}
	r.sources.Nearby = n.addrs()
}

// run answers for this peer on the local network and connects to those that answer, until ctx ends;
// the ring finds its place among them by itself. It never fails: a machine whose network is down
// may get it back.
func (n *nearby) run(ctx context.Context, r *ringRoom) error {
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
	group.Go(again("announcing this peer", func() error { return r.net.Announce(ctx) }))
	var meet errgroup.Group
	meet.SetLimit(meetings)
	group.Go(again("looking for peers", func() error {
		return p2p.Nearby(ctx, r.cfg.Network, func(info peer.AddrInfo) {
			n.note(info)
			meet.TryGo(func() error { // who finds all busy is told of again
				n.meet(ctx, r, info)
				return nil
			})
		})
	}))
	return errors.Join(group.Wait(), meet.Wait())
}

func (n *nearby) meet(ctx context.Context, r *ringRoom, info peer.AddrInfo) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	if err := r.net.Meet(ctx, info); err != nil {
		r.log.Debug("a peer heard of on the local network does not answer", "peer", info.ID, "err", err)
	}
}
