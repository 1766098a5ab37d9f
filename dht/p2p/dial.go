package p2p

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/apoidea/apoidea/dht/calls"
)

// dialer connects to peers, with backoff after failures.
type dialer struct {
	*ground
	dials backoffs
	kad   atomic.Pointer[Kad] // finds addresses; nil until there is one
}

// Connect ensures a connection. It dials the known addresses of the peer, or those that the
// membership finds. The error is ErrUnreachable.
func (d *dialer) Connect(ctx context.Context, to peer.ID) error {
	if to == d.self {
		return nil
	}
	return d.connect(ctx, to)
}

func (d *dialer) connect(ctx context.Context, to peer.ID) error {
	if d.Connected(to) {
		return nil
	}
	if cause := d.dials.wait(to, time.Now()); cause != nil {
		return calls.Unreachable(to, resting{cause})
	}
	target := peer.AddrInfo{ID: to}
	kad := d.kad.Load()
	if kad != nil && len(d.host.Peerstore().Addrs(to)) == 0 {
		if found, err := kad.dht.FindPeer(ctx, to); err == nil {
			target = found
		}
	}
	// libp2p's own backoff starts at five seconds; ours decides.
	if s, ok := d.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(to)
	}
	err := d.dialOrMeet(ctx, target)
	switch {
	case err == nil:
		return nil
	case d.life.Err() != nil:
		return calls.ErrClosed
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.dials.failed(to, time.Now(), err)
		if kad != nil {
			kad.forget(to)
		}
	}
	return calls.Unreachable(to, err)
}

// dialOrMeet dials a peer until that succeeds, fails, or the peer itself has dialed. A peer that
// restarted at another port would otherwise be unreachable for the timeout of its old address, as
// over UDP nothing refuses.
func (d *dialer) dialOrMeet(ctx context.Context, to peer.AddrInfo) error {
	dial, cancel := context.WithCancel(ctx)
	defer cancel()
	met := &network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		if c.RemotePeer() == to.ID && c.Stat().Direction == network.DirInbound && !c.Stat().Limited {
			cancel()
		}
	}}
	d.host.Network().Notify(met)
	defer d.host.Network().StopNotify(met)
	if d.Connected(to.ID) {
		return nil
	}
	err := d.host.Connect(dial, to)
	switch {
	case err == nil || d.Connected(to.ID):
		return nil
	case dial.Err() != nil && ctx.Err() == nil:
		return errHungUp // not the end of the caller's context; the error must differ
	default:
		return err
	}
}

// errHungUp ends a dial of a peer that dialed us meanwhile and closed the connection at once.
var errHungUp = errors.New("peer dialed and closed the connection")
