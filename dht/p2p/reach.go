package p2p

import (
	"fmt"
	"sync"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

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
