package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// window is the maximum number of outstanding calls on one stream; further callers wait.
const window = 256

// errNotSent reports that the stream ended before the request was queued on it.
var errNotSent = errors.New("request not sent")

// streamKey identifies a stream in one direction.
type streamKey struct {
	peer    peer.ID
	service *service
}

// outSlot holds an outgoing stream, also while it is being opened.
type outSlot struct {
	ready chan struct{} // closed when stream or err is set
	st    *outStream
	err   error
}

// opened returns the slot's stream, or nil if it is being opened or opening failed.
func (o *outSlot) opened() *outStream {
	select {
	case <-o.ready:
		return o.st
	default:
		return nil
	}
}

// outStreams are the outgoing streams, one for each peer and service.
type outStreams struct {
	*ground

	mu     sync.Mutex // guards the fields below; never held during network I/O
	open   map[streamKey]*outSlot
	closed bool
}

// stream returns the stream to a peer's service and opens it if there is none. Concurrent callers
// wait for the same stream.
func (o *outStreams) stream(ctx context.Context, to peer.ID, svc *service) (*outStream, error) {
	key := streamKey{to, svc}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil, ErrClosed
	}
	slot := o.open[key]
	if slot == nil {
		slot = &outSlot{ready: make(chan struct{})}
		o.open[key] = slot
		mayDial := ctx.Value(withoutDial{}) == nil
		o.wg.Go(func() { o.fill(slot, key, mayDial) }) // other callers may wait for it too
	}
	o.mu.Unlock()
	select {
	case <-slot.ready:
	default:
		select {
		case <-slot.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return slot.st, slot.err
}

// fill opens the stream of a slot. It ignores the first caller's context, because others may wait
// for the same stream.
func (o *outStreams) fill(slot *outSlot, key streamKey, mayDial bool) {
	s, err := o.network.Open(o.life, key.peer, key.service.name, mayDial)
	o.mu.Lock()
	if o.closed {
		if err == nil {
			_ = s.Reset()
		}
		err = ErrClosed
	}
	if err != nil {
		slot.err = err
		delete(o.open, key)
	} else {
		slot.st = newOutStream(o, key, slot, s)
		o.wg.Go(slot.st.read)
		o.wg.Go(slot.st.write)
	}
	o.mu.Unlock()
	close(slot.ready)
}

// forget removes a closed stream from the map, so that the next call opens another.
func (o *outStreams) forget(st *outStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[st.key] == st.slot {
		delete(o.open, st.key)
	}
}

// all returns the open streams.
func (o *outStreams) all() (list []*outStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, slot := range o.open {
		if st := slot.opened(); st != nil {
			list = append(list, st)
		}
	}
	return list
}

// close opens no more streams and ends the open ones with end.
func (o *outStreams) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// count returns the number of streams, including those being opened.
func (o *outStreams) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// outStream is the opener's side of a stream: it sends requests and reads answers.
type outStream struct {
	out    *outStreams
	key    streamKey
	slot   *outSlot
	s      Stream
	w      *frameWriter
	window chan struct{} // one element for each outstanding call
	done   chan struct{} // closed when the stream has ended

	mu      sync.Mutex // guards the fields below
	pending map[uint64]*pendingCall
	nextID  uint64
	ended   bool
	idle    int    // sweeps since the last call
	swept   uint64 // nextID at the last sweep
}

// pendingCall is the state of a waiting call. It is pooled: it is released only after its done was
// received or its own caller removed it from pending.
type pendingCall struct {
	done   chan struct{} // capacity 1
	answer []byte
	err    error
}

var callPool = sync.Pool{New: func() any { return &pendingCall{done: make(chan struct{}, 1)} }}

func newOutStream(out *outStreams, key streamKey, slot *outSlot, s Stream) *outStream {
	done := make(chan struct{})
	return &outStream{
		out: out, key: key, slot: slot, s: s, done: done, w: newFrameWriter(done, maxUnsent),
		window: make(chan struct{}, window), pending: map[uint64]*pendingCall{},
	}
}

// call sends one request and waits for the answer. errNotSent means that the stream ended before
// the request was queued.
func (st *outStream) call(ctx context.Context, req []byte) ([]byte, error) {
	select {
	case st.window <- struct{}{}:
	default:
		select {
		case st.window <- struct{}{}:
		case <-st.done:
			return nil, errNotSent
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-st.window }()

	deadline, _ := ctx.Deadline() // set by Endpoint.Call
	wait := time.Until(deadline)
	if wait <= 0 {
		return nil, context.DeadlineExceeded
	}
	c := callPool.Get().(*pendingCall)
	defer func() {
		*c = pendingCall{done: c.done}
		callPool.Put(c)
	}()
	id, ok := st.register(c)
	if !ok {
		return nil, errNotSent
	}
	size := 0
	if !st.w.add(ctx.Done(), 0, func(b []byte) []byte {
		before := len(b)
		b = appendRequest(b, id, wait, req)
		size = len(b) - before
		return b
	}) {
		if !st.forget(id) {
			<-c.done
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, errNotSent
	}
	st.key.service.counters.bytesOut.Add(uint64(size))
	select {
	case <-c.done:
	case <-ctx.Done():
		if st.forget(id) {
			return nil, ctx.Err()
		}
		<-c.done // the answer has already arrived
	}
	return c.answer, c.err
}

func (st *outStream) register(c *pendingCall) (id uint64, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return 0, false
	}
	st.nextID++
	st.pending[st.nextID] = c
	return st.nextID, true
}

// forget removes a call; false if the reader already took it and will complete it.
func (st *outStream) forget(id uint64) bool { return st.take(id) != nil }

func (st *outStream) take(id uint64) *pendingCall {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := st.pending[id]
	delete(st.pending, id)
	return c
}

func (st *outStream) write() {
	if err := st.w.run(st.s, nil); err != nil {
		_ = st.s.Reset() // the reader then fails all pending calls
	}
}

// read delivers answers until the stream ends; then all pending calls fail.
func (st *outStream) read() {
	frames := newTimedFrames(st.s)
	for {
		if err := st.readOne(frames); err != nil {
			st.end(err)
			return
		}
	}
}

func (st *outStream) readOne(frames *timedFrames) error {
	h, err := frames.header()
	if err != nil {
		return err
	}
	st.key.service.counters.bytesIn.Add(uint64(h.frame))
	if h.kind == kindRequest {
		return fmt.Errorf("%w: unexpected request from the answering peer", errFrame)
	}
	c := st.take(h.id)
	if c == nil { // the caller no longer waits
		return frames.skip(h.size, 0)
	}
	if h.kind == kindFailure {
		var failure *Error
		if failure, err = frames.failure(h); err == nil {
			c.err = failure
		}
	} else {
		c.answer, _, err = frames.payload(h, largeRequest, func(int) bool { return true }) // we requested it
	}
	if err != nil {
		c.answer, c.err = nil, Unreachable(st.key.peer, err)
	}
	c.done <- struct{}{}
	return err
}

// end closes the stream and fails the pending calls with cause. Only the first end counts.
func (st *outStream) end(cause error) {
	st.mu.Lock()
	if st.ended {
		st.mu.Unlock()
		return
	}
	st.ended = true
	pending := st.pending
	st.pending = nil
	st.mu.Unlock()

	close(st.done)
	_ = st.s.Reset()
	st.out.forget(st)
	err := Unreachable(st.key.peer, cause)
	if refusal := st.out.network.Refusal(st.key.peer, st.key.service.name, cause); refusal != nil {
		err = refusal
	}
	for _, c := range pending {
		c.err = err
		c.done <- struct{}{}
	}
}

// retire closes a stream without pending calls; false if there are any.
func (st *outStream) retire() bool {
	st.mu.Lock()
	if st.ended || len(st.pending) > 0 {
		st.mu.Unlock()
		return false
	}
	st.ended = true
	st.mu.Unlock()
	st.out.forget(st)
	close(st.done)
	_ = st.s.Close()
	return true
}

// sweep retires an idle stream.
func (st *outStream) sweep() {
	st.mu.Lock()
	st.idle++
	if st.swept != st.nextID {
		st.idle = 0
	}
	st.swept = st.nextID
	idle := st.idle
	st.mu.Unlock()
	if idle >= idleOut {
		st.retire()
	}
}
