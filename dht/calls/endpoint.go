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

// Stream carries the frames of calls.
type Stream interface {
	io.ReadWriteCloser
	// Reset aborts the stream at both ends; pending reads and writes return.
	Reset() error
	// SetReadDeadline sets the read deadline, see net.Conn.
	SetReadDeadline(t time.Time) error
	// SetWriteDeadline sets the write deadline, see net.Conn. A write that times out returns the
	// number of bytes written.
	SetWriteDeadline(t time.Time) error
}

// Network opens streams. It is safe for concurrent use.
type Network interface {
	// Open opens a stream to a service of a peer and dials it if mayDial and not connected. It times
	// out by itself. All callers waiting for the stream get its error: an *Error, ErrClosed or one
	// made by Unreachable.
	Open(ctx context.Context, to peer.ID, service string, mayDial bool) (Stream, error)
	// Refusal translates cause, the error that broke a stream of Open, into the peer's refusal to
	// serve; nil if it is none.
	Refusal(to peer.ID, service string, cause error) *Error
	// Known reports whether a peer is trusted, such as a neighbor. Part of each shared limit is
	// reserved for trusted peers.
	Known(id peer.ID) bool
	// Origin returns the network that a peer is connected from. Untrusted peers of one origin share
	// one quota. If empty, the origin is unknown and each peer has its own.
	Origin(id peer.ID) string
}

// Handler answers one request of a peer. It owns req; the network owns the returned answer. ctx
// ends when the caller's deadline passes, its stream breaks or the Endpoint closes. Handlers of one
// stream run concurrently, in no fixed order.
type Handler func(ctx context.Context, from peer.ID, req []byte) ([]byte, error)

// Endpoint sends and answers the calls of one peer. It is safe for concurrent use.
type Endpoint struct {
	*ground
	byName sync.Map // name -> *service
	out    *outStreams
	in     *inStreams
}

// ground is the state that both directions share.
type ground struct {
	self    peer.ID
	network Network
	log     *slog.Logger

	// life ends with Close. It is a field because streams and handlers outlive the call that opened
	// them.
	life context.Context //nolint:containedctx // see above
	end  context.CancelFunc
	wg   sync.WaitGroup // all goroutines of this package
}

// service is the state of one service name, in both directions.
type service struct {
	name     string
	long     bool // see Endpoint.Long
	handler  atomic.Pointer[Handler]
	counters counters
}

// counters are the statistics of one service.
type counters struct {
	callsOut, callsIn, failed, bytesOut, bytesIn atomic.Uint64
}

// New returns the Endpoint of the peer self on a network.
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

// service returns the service of that name and creates it on first use. Names come from our own
// code, so their number is small.
func (e *Endpoint) service(name string) *service {
	if svc, ok := e.byName.Load(name); ok {
		return svc.(*service)
	}
	svc, _ := e.byName.LoadOrStore(name, &service{name: name})
	return svc.(*service)
}

// Handle registers the handler of a service, or removes it with a nil h. It reports whether there
// was one before.
func (e *Endpoint) Handle(name string, h Handler) (served bool) {
	svc := e.service(name)
	if h == nil {
		return svc.handler.Swap(nil) != nil
	}
	return svc.handler.Swap(&h) != nil
}

// Long declares that answers of a service may be much longer than requests. The Endpoint makes one
// answer at a time per stream of an untrusted peer and limits unwritten bytes. Call it before the
// first stream of the service is accepted.
func (e *Endpoint) Long(name string) { e.service(name).long = true }

// Serve answers the requests on a stream that a peer opened to a service, until it ends.
func (e *Endpoint) Serve(name string, from peer.ID, s Stream) {
	e.in.serve(streamKey{from, e.service(name)}, s)
}

type withoutDial struct{}

// WithoutDial returns a context in which Call uses an existing connection, and fails with
// ErrUnreachable if there is none. Use it for attached workers, which cannot be dialed.
func WithoutDial(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutDial{}, true)
}

// Call sends a request to a peer and returns its answer, which the caller owns. The error is an
// *Error (see CodeOf) if the peer did not serve it, ErrUnreachable if the connection failed,
// ErrTooLarge, ErrClosed or the context's own. Without a deadline in ctx a call ends after
// callTimeout. A call to the peer itself runs the handler in this goroutine.
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
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
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
		// The stream ended before the request was sent, so another stream may carry it. The loop ends
		// because opening fails in the end.
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

// ServiceStats are the counters of one service since the start.
type ServiceStats struct {
	CallsOut uint64 // calls sent (including to itself)
	CallsIn  uint64 // requests that reached a handler
	Failed   uint64 // calls that ended with an error, including refusals
	BytesOut uint64 // bytes of frames written, before encryption
	BytesIn  uint64 // bytes of frames read, after decryption
}

// Stats are the counters of an Endpoint since the start.
type Stats struct {
	Services map[string]ServiceStats // by name
	Streams  int                     // currently open, in both directions
}

// Stats returns the current counters.
func (e *Endpoint) Stats() Stats {
	s := Stats{Services: map[string]ServiceStats{}}
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
	// SweepEvery is the interval at which Sweep must be called.
	SweepEvery = 10 * time.Second
	// idleOut and idleIn are the idle time, in sweeps, after which a stream is closed: by its opener
	// after half a minute, by the other side after a minute, in case the opener failed to close it.
	idleOut = 3
	idleIn  = 5
	// callTimeout is the timeout of a call without a deadline.
	callTimeout = 90 * time.Second
)

// Sweep closes idle streams. It does not block.
func (e *Endpoint) Sweep() {
	for _, st := range e.out.all() {
		st.sweep()
	}
	for _, st := range e.in.all() {
		st.sweep()
	}
}

// Close resets all streams and accepts no more. Pending calls fail with ErrClosed. Further calls do
// nothing. It does not wait, see Wait.
func (e *Endpoint) Close() {
	e.out.close()
	e.in.close()
	e.end()
	for _, st := range e.out.all() {
		st.end(ErrClosed)
	}
}

// Wait waits until all handlers and goroutines have returned. Call Close first.
func (e *Endpoint) Wait() { e.wg.Wait() }

var (
	// ErrUnreachable reports a peer that cannot be dialed or whose stream broke before the answer. The
	// peer may or may not have received the request.
	ErrUnreachable = errors.New("peer unreachable")
	// ErrTooLarge reports a request or answer beyond MaxPayload.
	ErrTooLarge = errors.New("message too large")
	// ErrClosed is returned by calls on a closed Endpoint.
	ErrClosed = errors.New("network closed")
)

// Code is the reason why a peer did not serve a call.
type Code uint32

const (
	// CodeInternal: the handler failed; a retry may succeed.
	CodeInternal Code = iota + 1
	// CodeMoved: another peer serves this; Detail has hints of the service.
	CodeMoved
	// CodeBusy: a limit is reached; keep the request and retry later.
	CodeBusy
	// CodeRefused: not served here, a retry is useless.
	CodeRefused
	// CodeVersion: incompatible protocol version or another network.
	CodeVersion
)

// String returns the name of the code.
func (c Code) String() string {
	switch c {
	case CodeInternal:
		return "internal"
	case CodeMoved:
		return "moved"
	case CodeBusy:
		return "busy"
	case CodeRefused:
		return "refused"
	case CodeVersion:
		return "unknown version"
	default:
		return fmt.Sprintf("code %d", uint32(c))
	}
}

// Error is a peer's answer that it did not serve a call. A handler returns one to choose the code;
// any other error of a handler arrives as CodeInternal with its text.
type Error struct {
	Code    Code   // machine-readable reason
	Detail  []byte // defined by the service, at most MaxErrorDetail bytes
	Message string // for people, truncated to MaxErrorMessage bytes
}

// Error returns the code's name and the message, if any.
func (e *Error) Error() string {
	switch {
	case e.Message == "":
		return e.Code.String()
	case e.Code == CodeVersion: // the message is complete
		return e.Message
	}
	return e.Code.String() + ": " + e.Message
}

// CodeOf returns the code of the *Error in err's chain, or 0 if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// asError converts a handler's error to the one that is sent.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// Unreachable returns an ErrUnreachable with its peer and cause.
func Unreachable(to peer.ID, cause error) error { return &unreachable{to, cause} }

type unreachable struct {
	peer  peer.ID
	cause error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("peer %s unreachable: %v", e.peer, e.cause)
}

// Cause returns the cause of an ErrUnreachable, without the peer's name; any other error unchanged.
func Cause(err error) error {
	if e, ok := errors.AsType[*unreachable](err); ok {
		return e.cause
	}
	return err
}

func (e *unreachable) Unwrap() []error { return []error{ErrUnreachable, e.cause} }
