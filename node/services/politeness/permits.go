// Package politeness implements the ring's politeness towards sites: opt-outs, host limits of
// domains, and rate limits of addresses. Each part is server and client of a service: it serves the
// keys that this peer owns, and calls the owners of others.
package politeness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// ServicePermits is the service of permits for addresses and domains.
const ServicePermits = "permit"

// permitsMethod requests permits for an address or a domain.
var permitsMethod = rpc.Method[*wire.Permits, *wire.PermitsReply]{
	Service: ServicePermits,
	Check:   func(q *wire.Permits, a *wire.PermitsReply) error { return a.Validate(int(q.GetWant())) },
}

// Permits is server and client of permits: it grants those of the addresses and domains that this
// peer owns, and requests others for its worker.
type Permits struct {
	router      *rpc.Router
	delay       time.Duration // of a domain
	incarnation uint64

	mu      sync.Mutex // guards granter
	granter *permit.Granter
}

var _ worker.Permits = (*Permits)(nil)

// NewPermits grants limit requests per chunk to an address. For its own worker, of that
// incarnation, it requests time slices at domains with a delay between them.
func NewPermits(limit int, chunk, delay time.Duration, incarnation uint64, r *rpc.Router) *Permits {
	g := permit.NewGranter(limit, chunk)
	g.Delay = delay
	return &Permits{router: r, delay: delay, incarnation: incarnation, granter: g}
}

// Service returns the service for workers.
func (p *Permits) Service() rpc.Service {
	return permitsMethod.Handle(rpc.Anyone("caller is a member, or worker of the host by its owner; this peer owns the address or domain; a caller gets at most half of the rest; a share is reserved for members"), p.grant)
}

// grant processes a request for permits.
func (p *Permits) grant(ctx context.Context, from peer.ID, m *wire.Permits) (*wire.PermitsReply, error) {
	k, err := permit.Key{Domain: m.GetDomain()}, error(nil)
	if k.Domain == "" {
		if k.Prefix, err = permit.ParseName(m.GetPrefix()); err != nil {
			return nil, rpc.Refuse("permits: %v", err)
		}
	}
	if key := permit.Home(k); !p.router.Ring.Serves(key) {
		return nil, p.router.Moved(key)
	}
	if !rpc.OfWorker(ctx, func() []string { return []string{m.GetHost()} }) {
		return nil, rpc.Busy("permits: the caller is not known to be a worker of the host")
	}
	by := permit.Caller{Peer: string(from), Incarnation: m.GetIncarnation(), Guest: !rpc.OfMember(ctx)}
	var n int
	var holds time.Duration
	p.mu.Lock()
	if k.Domain == "" {
		n, holds, err = p.granter.Grant(time.Now(), k.Prefix, by, int(m.GetWant()))
	} else {
		n, holds, err = p.granter.Turn(time.Now(), k.Domain, by, time.Duration(m.GetDelayMs())*time.Millisecond, int(m.GetWant()))
	}
	p.mu.Unlock()
	if errors.Is(err, permit.ErrBusy) {
		return nil, rpc.Busy(err.Error())
	}
	return &wire.PermitsReply{Permits: uint32(n), HoldsMs: uint32(holds.Milliseconds())}, nil // bounded by the request, and a minute
}

// Ask implements worker.Permits.
func (p *Permits) Ask(ctx context.Context, q permit.Ask) (n int, holds time.Duration, err error) {
	k, m := q.Key, &wire.Permits{Want: uint32(q.Want), Host: q.Host} // at most permit.MaxWant
	if k.Domain == "" {
		m.Prefix = permit.Name(k.Prefix)
	} else {
		m.Domain, m.DelayMs, m.Incarnation = k.Domain, uint32((p.delay + time.Millisecond - 1).Milliseconds()), p.incarnation // at most permit.MaxDelay
	}
	reply, err := permitsMethod.CallOwner(ctx, p.router, permit.Home(k), m)
	if err != nil {
		return 0, 0, fmt.Errorf("permits for %v: %w", k, err)
	}
	return int(reply.GetPermits()), time.Duration(reply.GetHoldsMs()) * time.Millisecond, nil
}
