package p2p

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/time/rate"

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

const (
	// dialBurst is the number of peers that a public peer dials at once; then one each dialEvery. A
	// home router's connection table is small: a burst of dead addresses fills it for minutes.
	dialBurst = 32
	dialEvery = 100 * time.Millisecond
	// maxDialWait is the maximum delay of a dial, because its caller gives up soon after.
	maxDialWait = 3 * time.Second
	// maxDialAddrs is the maximum number of addresses dialed of one peer.
	maxDialAddrs = 8
)

// dialPace limits the rate of dials. It is safe for concurrent use.
type dialPace struct{ *rate.Limiter }

func newDialPace() dialPace { return dialPace{rate.NewLimiter(rate.Every(dialEvery), dialBurst)} }

// rank is a dial ranker that delays dials beyond the rate.
func (p dialPace) rank(addrs []ma.Multiaddr) []network.AddrDelay {
	ranked := preferTCP(addrs)
	ranked = ranked[:min(len(ranked), maxDialAddrs)]
	wait := p.take(time.Now())
	for i := range ranked {
		ranked[i].Delay += wait
	}
	return ranked
}

// take returns the delay of the next dial.
func (p dialPace) take(now time.Time) time.Duration {
	r := p.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > maxDialWait {
		r.CancelAt(now)
	}
	return min(wait, maxDialWait)
}

const (
	// firstBackoff is the time after a failed dial before a peer is dialed again; it doubles up to
	// lastBackoff. It is short compared with libp2p's five seconds to five minutes, so that a
	// restarted peer is found at once.
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// maxBackoffs is the number of peers in the table; one more evicts the one that failed longest
	// ago, which costs a dial.
	maxBackoffs = 4096
)

// backoffs records which peers could not be dialed. It is safe for concurrent use.
type backoffs struct {
	peers *lru.Cache[peer.ID, backoff]
}

type backoff struct {
	until time.Time
	delay time.Duration
	cause error // of the last failure
}

func newBackoffs() backoffs {
	peers, err := lru.New[peer.ID, backoff](maxBackoffs)
	if err != nil {
		panic(err) // the size is one
	}
	return backoffs{peers}
}

// wait returns the cause of the last failure while a peer must not be dialed.
func (b *backoffs) wait(p peer.ID, now time.Time) error {
	if e, ok := b.peers.Peek(p); ok && now.Before(e.until) {
		return e.cause
	}
	return nil
}

// failed records a dial that failed at now. A failure of long ago does not count.
func (b *backoffs) failed(p peer.ID, now time.Time, cause error) {
	e, _ := b.peers.Peek(p)
	if now.Sub(e.until) > lastBackoff {
		e.delay = firstBackoff / 2
	}
	e.delay = min(2*e.delay, lastBackoff)
	e.until = now.Add(e.delay)
	e.cause = cause
	b.peers.Add(p, e)
}

// cleared removes a peer that was reached, or that reached us.
func (b *backoffs) cleared(p peer.ID) { b.peers.Remove(p) }

// dialCause returns in one line why a peer could not be dialed; libp2p's error has many.
func dialCause(err error) string {
	if e, ok := errors.AsType[resting](err); ok {
		return e.Error()
	}
	dial, ok := errors.AsType[*swarm.DialError](err)
	if !ok {
		return plainly(calls.Cause(err))
	}
	var causes []string
	if dial.Cause != nil && len(dial.DialErrors) == 0 {
		causes = append(causes, plainly(dial.Cause))
	}
	for i := range dial.DialErrors {
		if cause := plainly(dial.DialErrors[i].Cause); !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	return strings.Join(causes, ", ")
}

// plainly returns the result of one attempt, in plain words for common errors.
func plainly(err error) string {
	other, mismatch := errors.AsType[sec.ErrPeerIDMismatch](err)
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case mismatch:
		return "another peer answers there, " + other.Actual.String() + ": if it is the intended one, its address ends in that ID"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, swarm.ErrDialTimeout),
		strings.HasSuffix(text, "i/o timeout"), strings.HasSuffix(text, "no recent network activity"):
		return "no answer: nothing runs there, or a firewall or router blocks it"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route from this machine"
	case errors.Is(err, network.ErrReset):
		return "connection lost: the peer stopped, or the network failed; try again"
	case strings.Contains(text, "failed to negotiate security protocol"):
		return "no compatible peer answers: another service, another release, or an overloaded peer; try again, or compare the address with apoidea peers --addrs there"
	case hungUp(err):
		return "connection closed by the peer: it is stopping or overloaded; try again"
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return "no address can be dialed from this machine"
	case errors.Is(err, swarm.ErrGaterDisallowedConnection):
		return "loopback or private address, not dialed with --profile public"
	case errors.Is(err, swarm.ErrNoAddresses):
		return "no known address"
	case errors.Is(err, network.ErrResourceLimitExceeded):
		return "connection limit of this peer reached: try again"
	default:
		return text
	}
}

// resting is the cause of the last dial of a peer in backoff.
type resting struct{ error }

func (r resting) Error() string { return "in backoff after: " + dialCause(r.error) }

// Unwrap returns the error itself.
func (r resting) Unwrap() error { return r.error }

// causedBy formats an error by dialCause when it is printed.
type causedBy struct{ error }

func (s causedBy) Error() string { return dialCause(s.error) }

// Unwrap returns the error itself.
func (s causedBy) Unwrap() error { return s.error }

// ListenCause returns a short reason why an address cannot be listened on.
func ListenCause(err error) string {
	switch {
	case comes(err, syscall.EADDRINUSE):
		return "the port is in use"
	case comes(err, syscall.EADDRNOTAVAIL):
		return "no such address on this machine"
	case comes(err, syscall.EACCES):
		return "not permitted; ports below 1024 require privileges"
	default:
		return err.Error()
	}
}

// ListenCure returns what to do about it.
func ListenCure(err error) string {
	switch {
	case comes(err, syscall.EADDRNOTAVAIL):
		return "pass an address of this machine (see ip addr) to --listen, or /ip4/0.0.0.0 for all"
	case comes(err, syscall.EACCES):
		return "pass a port of 1024 or above to --listen"
	default:
		return "stop the process that uses the port (see ss -ltnup), or pass another port or address to --listen"
	}
}

// comes reports whether an error is the system's errno; libp2p keeps only its text.
func comes(err error, no syscall.Errno) bool {
	return errors.Is(err, no) || strings.Contains(err.Error(), no.Error())
}
