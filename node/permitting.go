package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

// servicePermits is the service of those that share out the requests to addresses.
const servicePermits = "permit"

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

// handle answers a worker.
func (p *permitting) handle(_ context.Context, _ peer.ID, raw []byte) ([]byte, error) {
	m := new(wire.Permits)
	if err := rpc.Decode(raw, m); err != nil {
		return nil, err
	}
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
	return proto.Marshal(&wire.PermitsReply{Permits: uint32(n), HoldsMs: uint32(holds.Milliseconds())}) //nolint:gosec // bounded by what was asked for, and a minute
}

// Ask implements worker.Permits.
func (p *permitting) Ask(ctx context.Context, prefix netip.Prefix, want int) (n int, holds time.Duration, err error) {
	raw, err := proto.Marshal(&wire.Permits{Prefix: permit.Name(prefix), Want: uint32(want)}) //nolint:gosec // at most permit.MaxWant
	if err != nil {
		return 0, 0, err
	}
	answer, err := p.router.CallOwner(ctx, permit.Home(prefix), servicePermits, raw)
	if err != nil {
		return 0, 0, fmt.Errorf("permits for %s: %w", prefix, err)
	}
	reply := new(wire.PermitsReply)
	if err := proto.Unmarshal(answer, reply); err != nil {
		return 0, 0, fmt.Errorf("permits for %s: %w", prefix, err)
	}
	return int(reply.GetPermits()), time.Duration(reply.GetHoldsMs()) * time.Millisecond, reply.Validate(want)
}
