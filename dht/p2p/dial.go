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

// dialer makes connections, and remembers to whom it could not make any.
type dialer struct {
	*ground
	dials backoffs
	kad   atomic.Pointer[Kad] // knows addresses; nil until there is one
}

// Connect makes sure that there is a connection, dialling the addresses known
// of the peer, or those that the membership finds. The error is ErrUnreachable.
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
	// libp2p's own back-off starts at five seconds; ours decides.
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

// dialOrMeet dials a peer until that succeeds, fails, or the peer itself has dialled. One that came
// back at another port would otherwise be out of reach for as long as the dial of its old one
// takes, which over UDP nobody refuses.
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
		return errHungUp // no end of the caller's context, which its error must not look like
	default:
		return err
	}
}

// errHungUp ends a dial of a peer that dialled meanwhile and closed the connection at once.
var errHungUp = errors.New("it dialled, and hung up")
