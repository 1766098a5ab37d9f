package p2p

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/autorelay"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/workers"
)

// Reachability is how a Net learns whether other peers can dial it.
type Reachability uint8

const (
	// ReachByProfile is ReachPublic in Lab and ReachAuto in Public.
	ReachByProfile Reachability = iota
	// ReachAuto: other peers are asked periodically to dial this one (AutoNAT v2).
	ReachAuto
	// ReachPublic: they can, no check.
	ReachPublic
	// ReachPrivate: they cannot, no check.
	ReachPrivate
)

// String returns auto, public, private or by profile.
func (r Reachability) String() string {
	switch r {
	case ReachAuto:
		return "auto"
	case ReachPublic:
		return "public"
	case ReachPrivate:
		return "private"
	default:
		return "by profile"
	}
}

// dialBacks handles the results of dial-backs and passes the role to kad-dht; nil without
// ReachAuto.
type dialBacks struct {
	heard event.Subscription
	role  event.Emitter
}

func newDialBacks(h host.Host) (*dialBacks, error) {
	heard, err := h.EventBus().Subscribe(new(event.EvtHostReachableAddrsChanged))
	if err != nil {
		return nil, fmt.Errorf("reachability: %w", err)
	}
	role, err := h.EventBus().Emitter(new(event.EvtLocalReachabilityChanged))
	if err != nil {
		return nil, fmt.Errorf("reachability: %w", err)
	}
	return &dialBacks{heard: heard, role: role}, nil
}

// reach tracks whether others can dial this peer, and derives its role.
type reach struct {
	*ground
	// dialBacks is nil unless Reachability is ReachAuto.
	dialBacks *dialBacks

	mu      sync.Mutex // guards the fields below
	hear    []func(workers.Reachability)
	dialled []ma.Multiaddr       // own addresses that others dialed last
	seen    workers.Reachability // last reported
}

// Role returns the initial role. With ReachAuto a founder is a ring member, since no peer could
// dial it; a restarted peer keeps its last role; any other is a worker until others have dialed it
// for long enough.
func (r *reach) Role(memory *dht.Memory, founder bool) dht.Role {
	switch {
	case r.cfg.Reachability == ReachPrivate:
		return dht.RoleWorker
	case r.cfg.Reachability == ReachPublic || founder:
		return dht.RoleMember
	case memory != nil:
		return memory.Role
	default:
		return dht.RoleWorker
	}
}

// OnReachability registers f, which Run calls with ReachAuto whenever the reachability changes:
// usually (*dht.DHT).Observe. f must not block. Call it before Run.
func (r *reach) OnReachability(f func(workers.Reachability)) {
	if r.dialBacks != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hear = append(r.hear, f)
	}
}

// Follow connects a DHT of this Net: it observes the reachability, and SetRole follows its role.
// Call it before either runs.
func (r *reach) Follow(d *dht.DHT) error {
	r.OnReachability(d.Observe)
	d.Subscribe(func(e dht.Event) {
		s, ok := e.(dht.StateChanged)
		if !ok || (s.New == dht.Worker) == (s.Old == dht.Worker) {
			return
		}
		role := dht.RoleMember
		if s.New == dht.Worker {
			role = dht.RoleWorker
		}
		if err := r.SetRole(role); err != nil {
			r.log.Warn("set role of kad-dht failed", "err", err)
		}
	})
	return r.SetRole(d.Self().Role)
}

// SetRole sets the role of this peer, at the start and after each change: with ReachAuto a worker
// is a client of kad-dht, so that it is in no routing table. Otherwise the role is fixed, and
// SetRole does nothing.
func (r *reach) SetRole(role dht.Role) error {
	if r.dialBacks == nil {
		return nil
	}
	as := network.ReachabilityPublic
	if role == dht.RoleWorker {
		as = network.ReachabilityPrivate
	}
	if err := r.dialBacks.role.Emit(event.EvtLocalReachabilityChanged{Reachability: as}); err != nil {
		return fmt.Errorf("role %s: %w", role, err)
	}
	return nil
}

// news returns the channel of dial-back results; nil without ReachAuto.
func (r *reach) news() <-chan any {
	if r.dialBacks == nil {
		return nil
	}
	return r.dialBacks.heard.Out()
}

// dialledBack handles a dial-back result.
func (r *reach) dialledBack(e any) {
	changed, ok := e.(event.EvtHostReachableAddrsChanged)
	if !ok {
		return
	}
	seen := reachabilityOf(changed)
	r.mu.Lock()
	last := r.seen
	r.dialled, r.seen = changed.Reachable, seen
	hear := r.hear
	r.mu.Unlock()
	if seen == last {
		return
	}
	r.log.Info("reachability changed", "reachability", seen, "dialled", len(changed.Reachable), "not", len(changed.Unreachable))
	for _, f := range hear {
		f(seen)
	}
}

// Reached returns how others reach this peer, by the results of dial-backs.
func (r *reach) Reached() Reached {
	if r.cfg.Reachability == ReachPublic {
		return ReachedDirect
	}
	r.mu.Lock()
	dialled, seen := r.dialled, r.seen
	r.mu.Unlock()
	own, err := r.host.Network().InterfaceListenAddresses()
	if err != nil {
		own = nil
	}
	return reachedBy(dialled, own, r.host.Addrs(), r.cfg.Reachability == ReachPrivate || seen == workers.ReachPrivate)
}

// reachabilityOf: one address that can be dialed is enough; a failed address outweighs an untried
// one.
func reachabilityOf(e event.EvtHostReachableAddrsChanged) workers.Reachability {
	switch {
	case len(e.Reachable) > 0:
		return workers.ReachPublic
	case len(e.Unreachable) > 0:
		return workers.ReachPrivate
	default:
		return workers.ReachUnknown
	}
}

func (d *dialBacks) close() {
	if d != nil {
		_ = d.heard.Close()
		_ = d.role.Close()
	}
}

// Relays used by a peer that cannot be dialed. They are ring members, so that no other servers are
// needed.
const (
	// relaysWanted is the number of relays used at once: one may fail.
	relaysWanted = 2
	// relayCandidates is the maximum number of candidates during a search.
	relayCandidates = 8
	// relayDelay is how long a search waits for more candidates, relayAgain the interval of searches,
	// relayBackoff the backoff of a relay that refused.
	relayDelay   = 2 * time.Second
	relayAgain   = 10 * time.Second
	relayBackoff = time.Minute
	// punchTime is how long a call waits, of dialTimeout, for hole punching before it uses the relay.
	punchTime = 4 * time.Second
)

// Relaying by a member. A circuit is for hole punching and a few short calls: pages never use it,
// since workers dial the members that they report to.
const (
	relaySlots       = 16 // peers with a slot: half of the workers that a member takes
	relaySlotsPerIP  = 4
	relaySlotsPerASN = 8
	relayCircuits    = 4 // concurrent circuits to each
	relayBuffer      = 2048
	relayTime        = 2 * time.Minute
	relayBytes       = 256 << 10 // per direction of a circuit
	// relaySlotTime is the lifetime of a slot.
	relaySlotTime = 30 * time.Minute
)

// traversalOptions sets how the peer traverses NATs, and helps others to. Relay client and service
// follow SetRole, or the fixed value of reachOptions: a worker runs the client, a member the
// service.
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

// relays selects the relays of a worker, and the peers that a member relays for: those of its
// network, while it has free connections.
type relays struct {
	*ground
	addresses *addresses
	services  *services
	dialer    *dialer
}

var _ relay.ACLFilter = (*relays)(nil)

// source returns ring members that may serve as relays, in random order; it never blocks.
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

// AllowReserve implements relay.ACLFilter. A peer with unknown protocols is admitted: identify is
// pending.
func (r *relays) AllowReserve(p peer.ID, _ ma.Multiaddr) bool {
	if len(r.host.Network().Conns()) > r.cfg.HighWater*3/4 {
		return false
	}
	spoken, err := r.host.Peerstore().GetProtocols(p)
	return err == nil && (len(spoken) == 0 || slices.Contains(spoken, r.services.Protocol(ringService)))
}

// AllowConnect implements relay.ACLFilter: circuits have limits of number, time and bytes for all
// peers.
func (*relays) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool { return true }

// Reached is how others reach a peer.
type Reached string

// Values of Reached.
const (
	// ReachedDirect: at an address of its own.
	ReachedDirect Reached = "direct"
	// ReachedMapped: at an address of its router, which forwards a port.
	ReachedMapped Reached = "mapped"
	// ReachedRelayed: it cannot be dialed, but members relay for it.
	ReachedRelayed Reached = "relayed"
	// ReachedNot: only over connections that it opens.
	ReachedNot Reached = "not"
	// ReachedUnknown: not tried yet.
	ReachedUnknown Reached = "unknown"
)

// reachedBy derives it from the addresses that others dialed, those of this machine, and the
// advertised ones.
func reachedBy(dialled, own, told []ma.Multiaddr, private bool) Reached {
	for _, a := range dialled {
		if slices.ContainsFunc(own, func(o ma.Multiaddr) bool { return sameIP(a, o) }) {
			return ReachedDirect
		}
	}
	switch {
	case len(dialled) > 0:
		return ReachedMapped
	case !private && slices.ContainsFunc(own, manet.IsPublicAddr): // it may have a relay before the first dial-back
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

// isRelayed reports whether an address uses a relay.
func isRelayed(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil
}
