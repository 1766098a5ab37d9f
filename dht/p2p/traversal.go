package p2p

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/autorelay"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// What a peer that nobody can dial asks of relays. They are members of the ring, so that nobody
// else need be trusted to be there.
const (
	// relaysWanted at the same time: one may go.
	relaysWanted = 2
	// relayCandidates are known at most while some are looked for.
	relayCandidates = 8
	// relayDelay is how long the search waits for more of them, relayAgain how often members are
	// looked through, and relayBackoff how long one that refused is left alone.
	relayDelay   = 2 * time.Second
	relayAgain   = 10 * time.Second
	relayBackoff = time.Minute
	// punchTime is how long a call waits, of dialTimeout, for the hole to be punched before it goes
	// through the relay.
	punchTime = 4 * time.Second
)

// What a member does for those peers. A circuit is for finding each other and for a few short
// calls: pages never go through it, since workers report to members, whom they dial.
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

// traversalOptions sets how the peer gets through routers, and helps others to. Relay client and
// relay service follow the role that SetRole tells, or the word of reachOptions: the client runs in
// a worker, the service in a member.
func traversalOptions(cfg Config, r *relays) []libp2p.Option {
	if !cfg.Traversal {
		return []libp2p.Option{libp2p.DisableRelay()}
	}
	options := []libp2p.Option{
		libp2p.EnableRelay(),
		libp2p.EnableHolePunching(),
		libp2p.EnableAutoRelayWithPeerSource(r.source,
			autorelay.WithNumRelays(relaysWanted), autorelay.WithMinCandidates(1), autorelay.WithMaxCandidates(relayCandidates),
			autorelay.WithBootDelay(relayDelay), autorelay.WithMinInterval(relayAgain), autorelay.WithBackoff(relayBackoff)),
		libp2p.EnableRelayService(relay.WithACL(r), relay.WithResources(relay.Resources{
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

// relays says through whom a worker can be reached, and for whom a member relays: peers of its own
// network, while it has connections to spare.
type relays struct {
	*ground
	addresses *addresses
	services  *services
	dialer    *dialer
}

var _ relay.ACLFilter = (*relays)(nil)

// source names members of the ring that may serve as relays, in random order; it never waits.
func (r *relays) source(_ context.Context, count int) <-chan peer.AddrInfo {
	var members []peer.AddrInfo
	if kad := r.dialer.kad.Load(); kad != nil {
		for _, p := range kad.All() {
			if addrs := slices.DeleteFunc(slices.Clone(r.addresses.addrsOf(p.ID)), isRelayed); len(addrs) > 0 {
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

// AllowReserve implements relay.ACLFilter. A peer whose protocols are not known yet is let in:
// identify is on its way.
func (r *relays) AllowReserve(p peer.ID, _ ma.Multiaddr) bool {
	if len(r.host.Network().Conns()) > r.cfg.HighWater*3/4 {
		return false
	}
	spoken, err := r.host.Peerstore().GetProtocols(p)
	return err == nil && (len(spoken) == 0 || slices.Contains(spoken, r.services.protocolOf(ringService)))
}

// AllowConnect implements relay.ACLFilter: circuits are bounded by number, time and bytes, whoever
// asks.
func (*relays) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool { return true }

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

// reachedBy judges by the addresses that others dialled, those of this machine, and those that are
// told to others.
func reachedBy(dialled, own, told []ma.Multiaddr, private bool) Reached {
	for _, a := range dialled {
		if slices.ContainsFunc(own, func(o ma.Multiaddr) bool { return sameIP(a, o) }) {
			return ReachedDirect
		}
	}
	switch {
	case len(dialled) > 0:
		return ReachedMapped
	case !private && slices.ContainsFunc(own, manet.IsPublicAddr): // it may have a relay before anybody has tried
		return ReachedUnknown
	case slices.ContainsFunc(told, isRelayed):
		return ReachedRelayed
	case private:
		return ReachedNot
	default:
		return ReachedUnknown
	}
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
