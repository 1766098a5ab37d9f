package p2p

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Handler answers one request of a peer. req belongs to the handler; the
// answer belongs to the network once returned. ctx ends when the caller no
// longer waits (by the time it said), when its stream breaks or the Net closes.
// Handlers of one stream run at the same time, in no promised order.
type Handler func(ctx context.Context, from peer.ID, req []byte) ([]byte, error)

// Handle serves a service from now on, or with a nil h serves it no more.
// Register what is served before Listen: each later change is told to all
// connected peers.
func (n *Net) Handle(name string, h Handler) {
	svc := n.service(name)
	if h == nil {
		svc.handler.Store(nil)
		n.host.RemoveStreamHandler(svc.protocol)
		return
	}
	if svc.handler.Swap(&h) != nil {
		return
	}
	major := strings.SplitAfterN(wireVersion, ".", 2)[0]
	prefix := strings.TrimSuffix(string(svc.protocol), wireVersion) + major
	n.host.SetStreamHandlerMatch(svc.protocol,
		func(id protocol.ID) bool { return strings.HasPrefix(string(id), prefix) },
		func(s network.Stream) { n.in.serve(svc, s) })
}

// Call asks a peer and waits for its answer, which belongs to the caller. The
// error is an *Error (see CodeOf) when the peer answered that it did not serve,
// ErrUnreachable when it cannot be asked or broke off, ErrTooLarge, ErrClosed or
// the context's own. Without a deadline in ctx a call ends after one to two minutes.
// A call to the peer itself runs the handler at once, in this goroutine.
func (n *Net) Call(ctx context.Context, to peer.ID, name string, req []byte) ([]byte, error) {
	svc := n.service(name)
	svc.counters.callsOut.Add(1)
	answer, err := n.call(ctx, to, svc, req)
	if err != nil {
		svc.counters.failed.Add(1)
		if CodeOf(err) == 0 {
			err = fmt.Errorf("call %s of %s: %w", name, to, err)
		}
		return nil, err
	}
	return answer, nil
}

func (n *Net) call(ctx context.Context, to peer.ID, svc *service, req []byte) ([]byte, error) {
	if len(req) > MaxPayload {
		return nil, fmt.Errorf("%w: request of %d bytes", ErrTooLarge, len(req))
	}
	if to == n.self {
		return n.callSelf(ctx, svc, req)
	}
	for {
		st, err := n.out.stream(ctx, to, svc)
		if err != nil {
			return nil, err
		}
		answer, err := st.call(ctx, req)
		if !errors.Is(err, errNotSent) {
			return answer, err
		}
		// The stream ended between being found and being used: nothing went
		// out, so another one may carry it. Opening fails by itself in the end.
	}
}

func (n *Net) callSelf(ctx context.Context, svc *service, req []byte) ([]byte, error) {
	svc.counters.callsIn.Add(1)
	h := svc.handler.Load()
	if h == nil {
		return nil, &Error{Code: CodeRefused, Message: "service " + svc.name + " is not served here"}
	}
	answer, err := (*h)(ctx, n.self, req)
	if err != nil {
		return nil, asError(err)
	}
	if len(answer) > MaxPayload {
		return nil, fmt.Errorf("%w: answer of %d bytes", ErrTooLarge, len(answer))
	}
	return answer, nil
}

// ServiceStats counts what one service did since the start.
type ServiceStats struct {
	CallsOut uint64 // calls to others (and to itself)
	CallsIn  uint64 // requests that reached a handler
	Failed   uint64 // calls that ended with an error, refusals included
	BytesOut uint64 // bytes of frames written, before encryption
	BytesIn  uint64 // bytes of frames read, after decryption
}

// Stats counts what a Net did since the start.
type Stats struct {
	Services map[string]ServiceStats // by name
	Peers    int                     // connected at present
	Streams  int                     // of services, open at present, in both directions
}

// Stats returns the counters of this moment.
func (n *Net) Stats() Stats {
	s := Stats{Services: map[string]ServiceStats{}, Peers: len(n.host.Network().Peers())}
	n.byName.Range(func(name, value any) bool {
		c := &value.(*service).counters
		s.Services[name.(string)] = ServiceStats{
			CallsOut: c.callsOut.Load(), CallsIn: c.callsIn.Load(), Failed: c.failed.Load(),
			BytesOut: c.bytesOut.Load(), BytesIn: c.bytesIn.Load(),
		}
		return true
	})
	s.Streams = n.out.count() + len(n.in.all())
	return s
}

const (
	// sweepEvery is how often idle streams and calls without a deadline are looked for.
	sweepEvery = 30 * time.Second
	// idleOut and idleIn are after how many sweeps a stream without traffic is
	// closed: by its opener after three minutes, by the other side after ten,
	// which only an opener that forgot it lets come.
	idleOut = 6
	idleIn  = 20
	// staleCall is after how many sweeps a call without a deadline fails.
	staleCall = 3
)

// sweep is run every sweepEvery by Run.
func (n *Net) sweep() {
	for _, st := range n.out.all() {
		st.sweep()
	}
	for _, st := range n.in.all() {
		st.sweep()
	}
	n.dials.sweep(time.Now())
}
