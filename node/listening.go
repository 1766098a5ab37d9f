package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

// listenOn converts Listen into multiaddrs, given those of the last run; empty leaves the choice to
// the profile. own means that the ports are this peer's choice: those of the last run, so that
// others find it again; if they are in use any others will do.
func (c *Config) listenOn(last []string) (addrs []string, own bool) {
	switch {
	case len(c.Listen) == 0 && c.MDNS && len(p2p.Elsewhere(last)) == 0 && !slices.ContainsFunc(last, isEverywhere):
		return mustListenOn(p2p.ListenAll), true // a peer that uses mDNS must be reachable on the local network
	case len(c.Listen) == 0:
		return c.standing(last), true
	case len(c.Listen) == 1 && c.Listen[0] == p2p.ListenAll:
		if before := slices.DeleteFunc(slices.Clone(last), func(a string) bool { return !isEverywhere(a) }); len(before) > 0 {
			return before, true
		}
		return mustListenOn(p2p.ListenAll), true
	}
	for _, text := range c.Listen {
		addrs = append(addrs, mustListenOn(text)...)
	}
	return addrs, false
}

// isEverywhere reports whether a multiaddr is of all interfaces.
func isEverywhere(addr string) bool {
	return strings.HasPrefix(addr, "/ip4/0.0.0.0/") || strings.HasPrefix(addr, "/ip6/::/")
}

// mustListenOn is p2p.ListenOn for validated input.
func mustListenOn(text string) []string {
	addrs, err := p2p.ListenOn(text)
	if err != nil {
		return []string{text} // listening returns the error
	}
	return addrs
}

// listens names the first invalid listen address.
func listens(addrs []string) error {
	for _, a := range addrs {
		if _, err := p2p.ListenOn(a); err != nil {
			return control.Usage(err.Error())
		}
	}
	return nil
}

// DialAddrs returns those of a peer's own addresses that other machines may dial, best first; if
// there are none, those for peers of this machine.
func DialAddrs(own []string) (addrs []string, elsewhere bool) {
	addrs = p2p.Elsewhere(own)
	if elsewhere = len(addrs) > 0; !elsewhere {
		addrs = slices.Clone(own)
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return cmp.Compare(dialOrder(a), dialOrder(b)) })
	return addrs, elsewhere
}

// dialOrder returns the sort order of an address for dialing: IPv4 before IPv6 and TCP before QUIC,
// since more networks pass them; relays last.
func dialOrder(addr string) (n int) {
	for i, part := range []string{"/ip6/", "/quic-v1", "/p2p-circuit"} {
		if strings.Contains(addr, part) {
			n += 1 << i
		}
	}
	return n
}

// cannotBeDialled reports an entry peer on another machine while this one listens on loopback only:
// the ring would have an unreachable member. Entry peers given by name are not checked.
func cannotBeDialled(own, entries []string) error {
	if len(p2p.Elsewhere(own)) > 0 {
		return nil
	}
	for _, e := range entries {
		info, err := peer.AddrInfoFromString(e)
		if err != nil || len(info.Addrs) == 0 || manet.IsIPLoopback(info.Addrs[0]) {
			continue
		}
		if ip, err := manet.ToIP(info.Addrs[0]); err == nil && !isOurs(ip) {
			return control.Usage(fmt.Sprintf("bootstrap %s: the peer is on another machine and cannot dial this one, which listens on loopback only: add --listen all", e))
		}
	}
	return nil
}

// isOurs reports whether an address is one of this machine.
func isOurs(ip net.IP) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

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
