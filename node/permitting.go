package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

// servicePermits is the service of those that share out the requests to addresses.
const servicePermits = "permit"

// grants asks for requests to an address.
var grants = rpc.Method[*wire.Permits, *wire.PermitsReply]{
	Service: servicePermits,
	Check:   func(q *wire.Permits, a *wire.PermitsReply) error { return a.Validate(int(q.GetWant())) },
}

// permitting is both sides of permits: it grants those of the addresses whose homes this peer serves, and asks the others for its worker.
type permitting struct {
	router *rpc.Router

	mu      sync.Mutex // guards granter
	granter *permit.Granter
}

var _ worker.Permits = (*permitting)(nil)

func newPermitting(limit int, chunk time.Duration, r *rpc.Router) *permitting {
	return &permitting{router: r, granter: permit.NewGranter(limit, chunk)}
}

func (p *permitting) handler() p2p.Handler { return grants.Handle(p.grant) }

// grant answers a worker.
func (p *permitting) grant(_ context.Context, _ peer.ID, m *wire.Permits) (*wire.PermitsReply, error) {
	prefix, err := permit.ParseName(m.GetPrefix())
	if err != nil {
		return nil, rpc.Refuse("permits: %v", err)
	}
	if key := permit.Home(prefix); !p.router.Ring.Serves(key) {
		return nil, p.router.Moved(key)
	}
	p.mu.Lock()
	n, holds, err := p.granter.Grant(time.Now(), prefix, int(m.GetWant()))
	p.mu.Unlock()
	if errors.Is(err, permit.ErrBusy) {
		return nil, rpc.Busy(err.Error())
	}
	return &wire.PermitsReply{Permits: uint32(n), HoldsMs: uint32(holds.Milliseconds())}, nil //nolint:gosec // bounded by what was asked for, and a minute
}

// Ask implements worker.Permits.
func (p *permitting) Ask(ctx context.Context, prefix netip.Prefix, want int) (n int, holds time.Duration, err error) {
	m := &wire.Permits{Prefix: permit.Name(prefix), Want: uint32(want)} //nolint:gosec // at most permit.MaxWant
	reply, err := grants.CallOwner(ctx, p.router, permit.Home(prefix), m)
	if err != nil {
		return 0, 0, fmt.Errorf("permits for %s: %w", prefix, err)
	}
	return int(reply.GetPermits()), time.Duration(reply.GetHoldsMs()) * time.Millisecond, nil
}
