package p2p

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/autorelay"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht"
)

// What a peer that nobody can dial asks of relays. They are members of the ring, so that nobody else need be trusted to be there.
const (
	// relaysWanted at the same time: one may go.
	relaysWanted = 2
	// relayCandidates are known at most while some are looked for.
	relayCandidates = 8
	// relayDelay is how long the search waits for more of them, relayAgain how often members are looked through, and relayBackoff how long one that
	// refused is left alone.
	relayDelay   = 2 * time.Second
	relayAgain   = 10 * time.Second
	relayBackoff = time.Minute
	// punchTime is how long a call waits, of dialTimeout, for the hole to be punched before it goes through the relay.
	punchTime = 4 * time.Second
)

// What a member does for those peers. A circuit is for finding each other and for a few short calls: pages never go through it, since workers report to
// members, whom they dial.
const (
	relaySlots       = 16 // as many peers may be reached through us: half of the workers that a member takes
	relaySlotsPerIP  = 4
	relaySlotsPerASN = 8
	relayCircuits    = 4 // at the same time, to each
	relayBuffer      = 2048
	relayTime        = 2 * time.Minute
	relayBytes       = 256 << 10 // each way, of a circuit
	// relaySlotTime is when a slot must be asked for anew.
	relaySlotTime = 30 * time.Minute
)

// traversalOptions sets how the peer gets through routers, and helps others to. Relay client and relay service follow the role that SetRole tells, or the word of
// reachOptions: the client runs in a worker, the service in a member.
func traversalOptions(cfg Config, n *Net) []libp2p.Option {
	if !cfg.Traversal {
		return []libp2p.Option{libp2p.DisableRelay()}
	}
	options := []libp2p.Option{
		libp2p.EnableRelay(),
		libp2p.EnableHolePunching(),
		libp2p.EnableAutoRelayWithPeerSource(n.relays,
			autorelay.WithNumRelays(relaysWanted), autorelay.WithMinCandidates(1), autorelay.WithMaxCandidates(relayCandidates),
			autorelay.WithBootDelay(relayDelay), autorelay.WithMinInterval(relayAgain), autorelay.WithBackoff(relayBackoff)),
		libp2p.EnableRelayService(relay.WithACL(relayGuests{n}), relay.WithResources(relay.Resources{
			Limit:          &relay.RelayLimit{Duration: relayTime, Data: relayBytes},
			ReservationTTL: relaySlotTime, MaxReservations: relaySlots, MaxCircuits: relayCircuits, BufferSize: relayBuffer,
			MaxReservationsPerIP: relaySlotsPerIP, MaxReservationsPerASN: relaySlotsPerASN,
		})),
	}
	if cfg.Reachability != ReachPrivate {
		options = append(options, libp2p.NATPortMap())
	}
	return options
}

// relays names members of the ring that may serve as relays, in random order; it never waits.
func (n *Net) relays(_ context.Context, count int) <-chan peer.AddrInfo {
	var members []peer.AddrInfo
	if kad := n.kad.Load(); kad != nil {
		for _, p := range kad.All() {
			if addrs := slices.DeleteFunc(slices.Clone(n.addrsOf(p.ID)), isRelayed); len(addrs) > 0 {
				members = append(members, peer.AddrInfo{ID: p.ID, Addrs: addrs})
			}
		}
	}
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	members = members[:min(len(members), count)]
	list := make(chan peer.AddrInfo, len(members))
	for _, m := range members {
		list <- m
	}
	close(list)
	return list
}

// relayGuests says for whom a member relays: peers of its own network, while it has connections to spare.
type relayGuests struct{ net *Net }

// AllowReserve implements relay.ACLFilter. A peer whose protocols are not known yet is let in: identify is on its way.
func (g relayGuests) AllowReserve(p peer.ID, _ ma.Multiaddr) bool {
	n := g.net
	if len(n.host.Network().Conns()) > n.cfg.HighWater*3/4 {
		return false
	}
	spoken, err := n.host.Peerstore().GetProtocols(p)
	return err == nil && (len(spoken) == 0 || slices.Contains(spoken, n.service(ringService).protocol))
}

// AllowConnect implements relay.ACLFilter: circuits are bounded by number, time and bytes, whoever asks.
func (relayGuests) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool { return true }

// newStream opens a stream over a direct connection. Where there is one through a relay only, it waits a while for the hole to be punched and then
// takes that: slow and short-lived, and better than nothing.
func (n *Net) newStream(ctx context.Context, to peer.ID, id protocol.ID) (network.Stream, error) {
	if n.host.Network().Connectedness(to) != network.Limited {
		return n.host.NewStream(ctx, to, id)
	}
	punch, cancel := context.WithTimeout(ctx, punchTime)
	defer cancel()
	if s, err := n.host.NewStream(punch, to, id); err == nil || isNotSupported(err) {
		return s, err
	}
	return n.host.NewStream(network.WithAllowLimitedConn(ctx, "no direct way"), to, id)
}

// Reached is how others reach a peer.
type Reached string

// The ways.
const (
	// ReachedDirect: at an address of its own.
	ReachedDirect Reached = "direct"
	// ReachedMapped: at an address of its router, which passes a port on.
	ReachedMapped Reached = "mapped"
	// ReachedRelayed: nobody can dial it, but members relay for it.
	ReachedRelayed Reached = "relayed"
	// ReachedNot: nobody can, except over connections that it makes.
	ReachedNot Reached = "not"
	// ReachedUnknown: nobody has tried yet.
	ReachedUnknown Reached = "unknown"
)

// Reached says how others reach this peer, by what they found when they dialled it.
func (n *Net) Reached() Reached {
	if n.cfg.Reachability == ReachPublic {
		return ReachedDirect
	}
	n.mu.Lock()
	dialled, seen := n.reachable, n.reachability
	n.mu.Unlock()
	own, err := n.host.Network().InterfaceListenAddresses()
	if err != nil {
		own = nil
	}
	return reachedBy(dialled, own, n.host.Addrs(), n.cfg.Reachability == ReachPrivate || seen == dht.ReachPrivate)
}

// reachedBy judges by the addresses that others dialled, those of this machine, and those that are told to others.
func reachedBy(dialled, own, told []ma.Multiaddr, private bool) Reached {
	for _, a := range dialled {
		if slices.ContainsFunc(own, func(o ma.Multiaddr) bool { return sameIP(a, o) }) {
			return ReachedDirect
		}
	}
	switch {
	case len(dialled) > 0:
		return ReachedMapped
	case slices.ContainsFunc(told, isRelayed):
		return ReachedRelayed
	case private:
		return ReachedNot
	default:
		return ReachedUnknown
	}
}

// RelayedAddrsOf returns the addresses at relays that are known of a peer, without /p2p: of one that nobody can dial the only ones of use to others.
func (n *Net) RelayedAddrsOf(id peer.ID) (list []string) {
	for _, a := range n.addrsOf(id) {
		if isRelayed(a) && len(list) < relayCandidates {
			list = append(list, a.String())
		}
	}
	return list
}

func sameIP(a, b ma.Multiaddr) bool {
	x, errX := manet.ToIP(a)
	y, errY := manet.ToIP(b)
	return errX == nil && errY == nil && x.Equal(y)
}

// isRelayed says whether an address leads through a relay.
func isRelayed(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil
}
