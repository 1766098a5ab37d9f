package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
)

// Stream is what calls go over.
type Stream interface {
	io.ReadWriteCloser
	// Reset breaks the stream at both ends; whoever reads or writes it returns.
	Reset() error
	// SetReadDeadline ends reads at a time, see net.Conn.
	SetReadDeadline(t time.Time) error
	// SetWriteDeadline ends writes at a time, see net.Conn. One that ends so says how much it wrote
	// before.
	SetWriteDeadline(t time.Time) error
}

// Network opens streams. It is safe for concurrent use.
type Network interface {
	// Open opens a stream to a service of a peer, dialling it if need be and it may. It ends by
	// itself in a while. Its error is told to all who wait for the stream: an *Error, ErrClosed or
	// one made by Unreachable.
	Open(ctx context.Context, to peer.ID, service string, mayDial bool) (Stream, error)
	// Refusal says what a peer means by the error that broke a stream of Open, if it is that it
	// does not serve; else nil.
	Refusal(to peer.ID, service string, cause error) *Error
	// Known says whether a peer is one of those that this one always talks to. They have a part of
	// what all may use to themselves.
	Known(id peer.ID) bool
	// Origin says where a peer is connected from. Peers of one origin that are not Known have one
	// share together. Empty: that tells nothing, and each has its own.
	Origin(id peer.ID) string
}

// Handler answers one request of a peer. req belongs to the handler; the
// answer belongs to the network once returned. ctx ends when the caller no
// longer waits (by the time it said), when its stream breaks or the Endpoint closes.
// Handlers of one stream run at the same time, in no promised order.
type Handler func(ctx context.Context, from peer.ID, req []byte) ([]byte, error)

// Endpoint is one peer's side of all calls: what it asks others, and what it answers. It is safe
// for concurrent use.
type Endpoint struct {
	*ground
	byName sync.Map // name -> *service
	out    *outStreams
	in     *inStreams
}

// ground is what both directions stand on.
type ground struct {
	self    peer.ID
	network Network
	log     *slog.Logger

	// life ends with Close. It is kept here because streams and handlers belong
	// to the Endpoint and not to whoever's call happened to open them.
	life context.Context //nolint:containedctx // see above
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of this package
	met  met
}

// service is one name under which calls go out and come in.
type service struct {
	name     string
	long     bool // see Endpoint.Long
	handler  atomic.Pointer[Handler]
	counters counters
}

// counters of one service.
type counters struct {
	callsOut, callsIn, failed, bytesOut, bytesIn atomic.Uint64
}

// New returns the Endpoint of the peer named self, which asks over a network.
func New(self peer.ID, network Network, log *slog.Logger) *Endpoint {
	g := &ground{self: self, network: network, log: log}
	g.life, g.end = context.WithCancel(context.Background())
	return &Endpoint{
		ground: g,
		out:    &outStreams{ground: g, open: map[streamKey]*outSlot{}},
		in: &inStreams{
			ground: g, open: map[streamKey][]*inStream{},
			large:   shares{most: maxLargeBytes, ofParty: maxLargeOfPeer, strangers: maxLargeOfStrangers, known: network.Known},
			pace:    rate.NewLimiter(strangersRate, maxFrame),
			answers: shares{most: maxAnswerBytes, ofParty: maxAnswersOfPeer, strangers: maxAnswersOfStrangers, known: network.Known},
		},
	}
}

// service returns the one of that name, made when first named. Names come from
// our own code, so their number is small.
func (e *Endpoint) service(name string) *service {
	if svc, ok := e.byName.Load(name); ok {
		return svc.(*service)
	}
	svc, _ := e.byName.LoadOrStore(name, &service{name: name})
	return svc.(*service)
}

// Handle serves a service from now on, or with a nil h serves it no more; it says whether it was
// served before.
func (e *Endpoint) Handle(name string, h Handler) (served bool) {
	svc := e.service(name)
	if h == nil {
		return svc.handler.Swap(nil) != nil
	}
	return svc.handler.Swap(&h) != nil
}

// Long says that the answers of a service may be long where the question is short: of a peer that
// the Network does not know one on a stream is made at a time, and what is not written yet is
// bounded. It is called before any stream of the service comes in.
func (e *Endpoint) Long(name string) { e.service(name).long = true }

// Serve answers the requests on a stream that a peer opened to a service, until the stream ends.
func (e *Endpoint) Serve(name string, from peer.ID, s Stream) {
	e.in.serve(streamKey{from, e.service(name)}, s)
}

type withoutDial struct{}

// WithoutDial returns a context in which Call uses a connection that is there, and fails with
// ErrUnreachable when there is none. For calls to attached workers: dialling one would only wait
// for an answer that cannot come.
func WithoutDial(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutDial{}, true)
}

// Call asks a peer and waits for its answer, which belongs to the caller. The
// error is an *Error (see CodeOf) when the peer answered that it did not serve,
// ErrUnreachable when it cannot be asked or broke off, ErrTooLarge, ErrClosed or
// the context's own. Without a deadline in ctx a call ends after one to two minutes.
// A call to the peer itself runs the handler at once, in this goroutine.
func (e *Endpoint) Call(ctx context.Context, to peer.ID, name string, req []byte) ([]byte, error) {
	svc := e.service(name)
	svc.counters.callsOut.Add(1)
	answer, err := e.call(ctx, to, svc, req)
	if err != nil {
		svc.counters.failed.Add(1)
		if CodeOf(err) == 0 {
			err = fmt.Errorf("call %s of %s: %w", name, to, err)
		}
		return nil, err
	}
	return answer, nil
}

func (e *Endpoint) call(ctx context.Context, to peer.ID, svc *service, req []byte) ([]byte, error) {
	if len(req) > MaxPayload {
		return nil, fmt.Errorf("%w: request of %d bytes", ErrTooLarge, len(req))
	}
	if to == e.self {
		return e.callSelf(ctx, svc, req)
	}
	for {
		st, err := e.out.stream(ctx, to, svc)
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

func (e *Endpoint) callSelf(ctx context.Context, svc *service, req []byte) ([]byte, error) {
	svc.counters.callsIn.Add(1)
	h := svc.handler.Load()
	if h == nil {
		return nil, svc.refusal()
	}
	answer, err := (*h)(ctx, e.self, req)
	if err != nil {
		return nil, asError(err)
	}
	if len(answer) > MaxPayload {
		return nil, fmt.Errorf("%w: answer of %d bytes", ErrTooLarge, len(answer))
	}
	return answer, nil
}

// refusal answers requests to a service without a handler.
func (s *service) refusal() *Error {
	return &Error{Code: CodeRefused, Message: "service " + s.name + " is not served here"}
}

// ServiceStats counts what one service did since the start.
type ServiceStats struct {
	CallsOut uint64 // calls to others (and to itself)
	CallsIn  uint64 // requests that reached a handler
	Failed   uint64 // calls that ended with an error, refusals included
	BytesOut uint64 // bytes of frames written, before encryption
	BytesIn  uint64 // bytes of frames read, after decryption
}

// Stats counts what an Endpoint did since the start.
type Stats struct {
	Services map[string]ServiceStats // by name
	Streams  int                     // open at present, in both directions
	Bounds   map[string]uint64       // how often each bound on what a peer may use was met, by its name
}

// Stats returns the counters of this moment.
func (e *Endpoint) Stats() Stats {
	s := Stats{Services: map[string]ServiceStats{}, Bounds: e.met.read()}
	e.byName.Range(func(name, value any) bool {
		c := &value.(*service).counters
		s.Services[name.(string)] = ServiceStats{
			CallsOut: c.callsOut.Load(), CallsIn: c.callsIn.Load(), Failed: c.failed.Load(),
			BytesOut: c.bytesOut.Load(), BytesIn: c.bytesIn.Load(),
		}
		return true
	})
	s.Streams = e.out.count() + len(e.in.all())
	return s
}

const (
	// SweepEvery is how often Sweep is to be called.
	SweepEvery = 10 * time.Second
	// idleOut and idleIn are after how many sweeps a stream without traffic is
	// closed: by its opener after half a minute, by the other side after a minute,
	// which only an opener that forgot it lets come, or one that means to hold it.
	idleOut = 3
	idleIn  = 5
	// staleCall is after how many sweeps a call without a deadline fails.
	staleCall = 9
)

// Sweep looks for idle streams and for calls without a deadline. It does not block.
func (e *Endpoint) Sweep() {
	for _, st := range e.out.all() {
		st.sweep()
	}
	for _, st := range e.in.all() {
		st.sweep()
	}
}

// Close breaks all streams off and takes no more. Calls under way fail with ErrClosed. Further
// Closes do nothing. It does not wait, see Wait.
func (e *Endpoint) Close() {
	e.out.close()
	e.in.close()
	e.end()
	for _, st := range e.out.all() {
		st.end(ErrClosed)
	}
}

// Wait waits until every handler has returned, and whatever else runs. Close first.
func (e *Endpoint) Wait() { e.wg.Wait() }
