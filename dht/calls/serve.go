package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
)

// Bounds of what one peer can make another do.
const (
	// maxHandlers run at the same time for one stream, handlersOfStrangers for one of who is no
	// neighbour; further requests queue.
	maxHandlers         = 64
	handlersOfStrangers = 8
	// maxQueued requests, and maxQueuedBytes of them, wait for a handler; then
	// the stream is not read on, and the caller's window fills.
	maxQueued            = window
	maxQueuedBytes       = 8 << 20
	maxQueuedOfStrangers = 64 << 10
	// maxStreamsIn of one peer to one service: the one in use, and one that the
	// peer opened because it believes the first to be gone. The oldest gives way.
	maxStreamsIn = 2
	// largeRequest is from where requests count against maxLargeBytes, and largeOfStrangers those of
	// who is no neighbour, and the answers to them.
	largeRequest     = 64 << 10
	largeOfStrangers = 4 << 10
	// maxLargeBytes of large requests of all peers together are held in memory, and beyond
	// maxLargeOfStrangers none of those who are no neighbours: a large request is answered busy
	// unread.
	maxLargeBytes       = 64 << 20
	maxLargeOfStrangers = 8 << 20
	// strangersRate is how many bytes a second of large requests of those are read, all together:
	// what comes faster waits in the sockets, and does not keep the collector of garbage busy.
	strangersRate = 16 << 20
	// slowFrame is after how long a large request that has not come whole may have to give way: when
	// strangers have no room for another, that party of them which holds most for such frames, and
	// no less than slowBytes, loses them, and has no room for restTime.
	slowFrame = 5 * time.Second
	slowBytes = 256 << 10
	restTime  = time.Minute
	// yieldEvery is the least time between two of them.
	yieldEvery = 100 * time.Millisecond
	// maxLargeOfPeer of large requests are one party's. They count as they come, so that who
	// announces and sends nothing has none.
	maxLargeOfPeer = 16 << 20
	// maxAnswerBytes of long answers of all peers together, and maxAnswersOfPeer of one, may be
	// made and not written yet; of who is no neighbour the answers of all services count. Who reads
	// slowly is told busy before more is made for it: while there is no room for longRoom. longAnswer
	// is what one that is being made counts as.
	maxAnswerBytes        = 16 << 20
	maxAnswersOfStrangers = 8 << 20
	maxAnswersOfPeer      = 4 << 20
	longAnswer            = 64 << 10
	longRoom              = 1 << 20
)

// request waits for a handler, or runs in one.
type request struct {
	header
	payload []byte
	held    int // bytes of it that count as large
}

// inStream is the server's side of a stream.
type inStream struct {
	in  *inStreams
	key streamKey
	of  party // whose share it counts for
	s   Stream
	w   *frameWriter

	mu      sync.Mutex // guards what follows
	held    int        // bytes that the frame holds that is being read
	since   time.Time  // it was begun
	queue   []request
	bytes   int           // in queue
	running int           // workers
	room    chan struct{} // not nil while the reader waits for room in the queue
	count   uint64        // requests read
	swept   uint64        // count at the last sweep
	idle    int           // sweeps without a request
}

// inStreams are the streams on which others ask this peer.
type inStreams struct {
	*ground
	large   shares        // requests from largeRequest on, of strangers from largeOfStrangers
	answers shares        // of long services, and those to strangers from largeOfStrangers on
	pace    *rate.Limiter // of the large requests of strangers

	mu     sync.Mutex // guards what follows; never held over the network
	open   map[streamKey][]*inStream
	closed bool
	yields time.Time // when somebody had to give way last
}

// party is who a peer shares with.
func (i *inStreams) party(id peer.ID) party {
	if origin := i.network.Origin(id); origin != "" && !i.network.Known(id) {
		return party{id, origin}
	}
	return party{id, string(id)}
}

// paced waits until it is the turn of so many bytes of a large request; false if ctx ends.
func (i *inStreams) paced(ctx context.Context, of party, bytes int) bool {
	return i.network.Known(of.peer) || i.pace.WaitN(ctx, bytes) == nil
}

// makeRoom has the party give way that holds most of the room of strangers for frames that do not
// come, unless somebody had to just now.
func (i *inStreams) makeRoom(now time.Time) {
	i.mu.Lock()
	if now.Sub(i.yields) < yieldEvery {
		i.mu.Unlock()
		return
	}
	i.yields = now
	i.mu.Unlock()
	slow := make(map[string][]*inStream)
	held := make(map[string]int)
	most := ""
	for _, st := range i.all() {
		if n := st.slow(now); n > 0 && st.isStranger() {
			slow[st.of.name] = append(slow[st.of.name], st)
			if held[st.of.name] += n; held[st.of.name] > held[most] {
				most = st.of.name
			}
		}
	}
	if held[most] < slowBytes {
		return
	}
	i.large.rest(most, now.Add(restTime))
	for _, st := range slow[most] {
		_ = st.s.Reset()
	}
}

// serve runs a stream that a peer opened, until it ends.
func (i *inStreams) serve(key streamKey, s Stream) {
	done := make(chan struct{})
	st := &inStream{in: i, s: s, key: key, of: i.party(key.peer), w: newFrameWriter(done, maxUnsent)}
	if !i.network.Known(key.peer) {
		st.w = newFrameWriter(done, maxUnsentOfStrangers)
	}
	if !i.remember(st) {
		_ = s.Reset()
		return
	}
	defer i.wg.Done() // added by remember

	ctx, cancel := context.WithCancel(i.life)
	var workers, writer sync.WaitGroup
	writer.Go(func() {
		if err := st.w.run(s, func(held int) { i.answers.add(st.of, -held) }); err != nil {
			i.met.unwritten(err)
			_ = s.Reset()
			cancel()
		}
	})
	err := st.read(ctx, &workers)
	cancel() // nobody waits for what still runs
	if err != nil {
		i.met.slow(err)
		i.log.Debug("stream ended", "service", key.service.name, "peer", key.peer, "err", err)
		_ = s.Reset()
	}
	workers.Wait()
	close(done)
	writer.Wait()
	i.answers.add(st.of, -st.w.unwritten())
	_ = s.Close()
	i.forget(st)
}

// remember notes a stream as served, unless the Endpoint is closed.
func (i *inStreams) remember(st *inStream) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.wg.Add(1)
	streams := i.open[st.key]
	for len(streams) >= maxStreamsIn {
		_ = streams[0].s.Reset()
		streams = streams[1:]
	}
	i.open[st.key] = append(slices.Clone(streams), st)
	return true
}

func (i *inStreams) forget(st *inStream) {
	i.mu.Lock()
	defer i.mu.Unlock()
	streams := slices.DeleteFunc(i.open[st.key], func(o *inStream) bool { return o == st })
	if len(streams) == 0 {
		delete(i.open, st.key)
		return
	}
	i.open[st.key] = streams
}

// all returns those that are open.
func (i *inStreams) all() (list []*inStream) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, streams := range i.open {
		list = append(list, streams...)
	}
	return list
}

// close breaks those that are open, and takes no more.
func (i *inStreams) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	for _, st := range i.all() {
		_ = st.s.Reset()
	}
}

// read takes requests until the stream ends; nil if the peer ended it in order.
func (st *inStream) read(ctx context.Context, workers *sync.WaitGroup) error {
	frames := newTimedFrames(st.s)
	err := frames.first()
	for {
		var h header
		if err == nil {
			h, err = frames.header()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		st.key.service.counters.bytesIn.Add(uint64(h.frame))
		if h.kind != kindRequest {
			return fmt.Errorf("%w: kind %d on the serving side", errFrame, h.kind)
		}
		from := largeRequest
		if st.isStranger() {
			from = largeOfStrangers
		}
		payload, held, err := frames.payload(h, from, func(more int) bool { return st.take(ctx, more) })
		st.holds(0, 0)
		if errors.Is(err, errNoRoom) {
			st.in.large.add(st.of, -held)
			st.fail(ctx, h.id, &Error{Code: CodeBusy, Message: "too many large requests"})
			continue
		}
		if err == nil {
			err = st.enqueue(ctx, request{h, payload, held}, workers)
		}
		if err != nil {
			st.in.large.add(st.of, -held)
			return err
		}
	}
}

func (st *inStream) isStranger() bool { return !st.in.network.Known(st.of.peer) }

// take asks for room for more bytes of the frame that is being read.
func (st *inStream) take(ctx context.Context, more int) bool {
	taken, full := st.in.large.take(st.of, more, 0)
	if !taken {
		if full && st.isStranger() {
			st.in.makeRoom(time.Now())
		}
		return false
	}
	begun := time.Now()
	if !st.in.paced(ctx, st.of, more) {
		st.in.large.add(st.of, -more)
		return false
	}
	st.holds(more, time.Since(begun))
	return true
}

// holds notes that the frame that is being read holds more, for which it waited for us, or with 0
// that none is.
func (st *inStream) holds(more int, waited time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case more == 0:
		st.held = 0
		return
	case st.held == 0:
		st.since = time.Now()
	default:
		st.since = st.since.Add(waited)
	}
	st.held += more
}

// slow is what a frame holds that has not come whole for slowFrame.
func (st *inStream) slow(now time.Time) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.held == 0 || now.Sub(st.since) < slowFrame {
		return 0
	}
	return st.held
}

// enqueue hands a request to a new worker, or to the queue when enough run,
// waiting while that is full.
func (st *inStream) enqueue(ctx context.Context, r request, workers *sync.WaitGroup) error {
	atOnce, most := maxHandlers, maxQueuedBytes
	if st.isStranger() {
		atOnce, most = handlersOfStrangers, maxQueuedOfStrangers
		if st.key.service.long {
			atOnce = 1
		}
	}
	st.mu.Lock()
	st.count++
	for st.running >= atOnce && (len(st.queue) >= maxQueued || st.bytes > most) {
		room := make(chan struct{})
		st.room = room
		st.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
		st.mu.Lock()
	}
	defer st.mu.Unlock()
	if st.running < atOnce {
		st.running++
		workers.Go(func() { st.work(ctx, r) })
		return nil
	}
	st.queue = append(st.queue, r)
	st.bytes += r.size
	return nil
}

// work handles its request and then what is queued, and ends when nothing is:
// a quiet stream keeps no goroutine for its handlers.
func (st *inStream) work(ctx context.Context, r request) {
	for {
		st.handle(ctx, r)
		st.in.large.add(st.of, -r.held)
		st.mu.Lock()
		if len(st.queue) == 0 {
			st.running--
			st.wakeReader()
			st.mu.Unlock()
			return
		}
		r = st.queue[0]
		st.queue[0] = request{}
		st.queue = st.queue[1:]
		st.bytes -= r.size
		st.wakeReader()
		st.mu.Unlock()
	}
}

// wakeReader lets a waiting reader look again; st.mu is held.
func (st *inStream) wakeReader() {
	if st.room != nil {
		close(st.room)
		st.room = nil
	}
}

// errUnread is the answer to a question whose answer would have no room beside those that nobody
// has read yet.
var errUnread = &Error{Code: CodeBusy, Message: "too many answers are to be read first"}

func (st *inStream) handle(ctx context.Context, r request) {
	if ctx.Err() != nil {
		return // the stream is over
	}
	svc := st.key.service
	svc.counters.callsIn.Add(1)
	h := svc.handler.Load()
	if h == nil {
		st.fail(ctx, r.id, svc.refusal())
		return
	}
	answer, held, err := st.answer(ctx, r, *h)
	switch {
	case err != nil:
		st.fail(ctx, r.id, asError(err))
	case len(answer) > MaxPayload:
		st.fail(ctx, r.id, &Error{Code: CodeInternal, Message: fmt.Sprintf("answer of %d bytes is too large", len(answer))})
	case st.send(ctx, held, func(b []byte) []byte { return appendAnswer(b, r.id, answer) }):
		return // the writer gives it back
	}
	st.in.answers.add(st.of, -held)
}

// answer has a request handled; held is what counts of the answer.
func (st *inStream) answer(ctx context.Context, r request, h Handler) (answer []byte, held int, err error) {
	long := st.key.service.long
	if long {
		if taken, _ := st.in.answers.take(st.of, longAnswer, longRoom); !taken {
			return nil, 0, errUnread
		}
	}
	callCtx := newCallContext(ctx, r.wait)
	answer, err = h(callCtx, st.key.peer, r.payload) //nolint:contextcheck // it wraps ctx
	callCtx.end()
	if long {
		st.in.answers.add(st.of, -longAnswer)
	} else if len(answer) < largeOfStrangers || !st.isStranger() {
		return answer, 0, err
	}
	if taken, _ := st.in.answers.take(st.of, len(answer), 0); !taken {
		return nil, 0, errUnread
	}
	return answer, len(answer), err
}

func (st *inStream) fail(ctx context.Context, id uint64, e *Error) {
	st.send(ctx, 0, func(b []byte) []byte { return appendFailure(b, id, e) })
}

// send hands a frame to the writer, which tells written of those bytes of it that are held; false
// if the stream or ctx ended before.
func (st *inStream) send(ctx context.Context, held int, put func([]byte) []byte) bool {
	size := 0
	sent := st.w.add(ctx.Done(), held, func(b []byte) []byte {
		before := len(b)
		b = put(b)
		size = len(b) - before
		return b
	})
	st.key.service.counters.bytesOut.Add(uint64(size))
	return sent
}

// sweep resets a stream on which nothing came for long: its opener closes idle
// ones much sooner, so this one is forgotten or kept open to tie us down.
func (st *inStream) sweep() {
	st.mu.Lock()
	st.idle++
	if st.swept != st.count || st.running > 0 {
		st.idle = 0
	}
	st.swept = st.count
	idle := st.idle
	st.mu.Unlock()
	if idle >= idleIn {
		_ = st.s.Reset()
	}
}

// callContext is the stream's context with the caller's deadline. Its timer is
// made when somebody first asks for Done: most handlers never do, and the timer
// would be a large part of what a small call costs.
type callContext struct {
	context.Context //nolint:containedctx // the stream's: this type is a context itself
	deadline        time.Time

	mu     sync.Mutex      // guards the two below
	timed  context.Context //nolint:containedctx // the same with a timer
	cancel context.CancelFunc
}

// newCallContext makes a context that ends after wait, or at maxHandlerTime
// when the caller named none.
func newCallContext(parent context.Context, wait time.Duration) *callContext {
	if wait == 0 {
		wait = maxHandlerTime
	}
	return &callContext{Context: parent, deadline: time.Now().Add(wait)}
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Done() <-chan struct{} { return c.withTimer().Done() }

func (c *callContext) Err() error {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.deadline) {
		return c.withTimer().Err()
	}
	return nil
}

func (c *callContext) withTimer() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
	}
	return c.timed
}

// end frees the timer; the handler has returned.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
