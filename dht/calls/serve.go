package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
)

// Limits on the resources that remote peers use.
const (
	// maxHandlers is the number of concurrent handlers of one stream, handlersOfStrangers that of an
	// untrusted peer; further requests queue.
	maxHandlers         = 64
	handlersOfStrangers = 8
	// maxQueued is the number of requests waiting for a handler, maxQueuedBytes their size; beyond
	// them the stream is not read, and the caller's window fills.
	maxQueued            = window
	maxQueuedBytes       = 8 << 20
	maxQueuedOfStrangers = 64 << 10
	// maxStreamsIn is the number of streams of one peer to one service: the current one, and one that
	// the peer opened because it assumes the first is dead. The oldest is reset.
	maxStreamsIn = 2
	// largeRequest is the size from which requests count against maxLargeBytes; largeOfStrangers is
	// that of untrusted peers, for requests and answers.
	largeRequest     = 64 << 10
	largeOfStrangers = 4 << 10
	// maxLargeBytes limits the memory of large requests of all peers, maxLargeOfStrangers the part of
	// untrusted peers. Beyond it a large request is answered with CodeBusy, unread.
	maxLargeBytes       = 64 << 20
	maxLargeOfStrangers = 8 << 20
	// strangersRate limits the bytes per second read of large requests of all untrusted peers. The
	// rest waits in socket buffers, which bounds the load of garbage collection.
	strangersRate = 16 << 20
	// slowFrame is the age from which an incomplete large request may be evicted. When untrusted peers
	// have no memory left, the party that holds most for such frames, at least slowBytes, loses them
	// and gets none for restTime.
	slowFrame = 5 * time.Second
	slowBytes = 256 << 10
	restTime  = time.Minute
	// yieldEvery is the minimum interval between evictions.
	yieldEvery = 100 * time.Millisecond
	// maxLargeOfPeer limits the large requests of one party. Bytes count on receipt: announced sizes
	// reserve nothing.
	maxLargeOfPeer = 16 << 20
	// maxAnswerBytes limits the unwritten long answers of all peers, maxAnswersOfPeer those of one.
	// For untrusted peers the answers of all services count. While less than longRoom is left, a slow
	// reader gets CodeBusy before another answer is made. An answer in progress counts as longAnswer.
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
	held    int // bytes that count as large
}

// inStream is the server's side of a stream.
type inStream struct {
	in  *inStreams
	key streamKey
	of  caller // the quota that it counts against
	s   Stream
	w   *frameWriter

	mu      sync.Mutex // guards the fields below
	held    int        // bytes held by the frame being read
	since   time.Time  // start of that frame
	queue   []request
	bytes   int           // in queue
	running int           // workers
	room    chan struct{} // not nil while the reader waits for space in the queue
	count   uint64        // requests read
	swept   uint64        // count at the last sweep
	idle    int           // sweeps without a request
}

// inStreams are the incoming streams.
type inStreams struct {
	*ground
	large   shares        // requests from largeRequest on, from largeOfStrangers on if untrusted
	answers shares        // of long services, and of untrusted peers from largeOfStrangers on
	pace    *rate.Limiter // rate of large requests of untrusted peers

	mu     sync.Mutex // guards the fields below; never held during network I/O
	open   map[streamKey][]*inStream
	closed bool
	yields time.Time // time of the last eviction
}

// caller returns the quota that a peer counts against.
func (i *inStreams) callerOf(id peer.ID) caller {
	if origin := i.network.Origin(id); origin != "" && !i.network.Known(id) {
		return caller{id, origin}
	}
	return caller{id, string(id)}
}

// paced waits until the rate limit admits bytes of a large request; false if ctx ends.
func (i *inStreams) paced(ctx context.Context, of caller, bytes int) bool {
	return i.network.Known(of.peer) || i.pace.WaitN(ctx, bytes) == nil
}

// makeRoom evicts the party that holds most of the untrusted memory for slow frames, at most once
// per yieldEvery.
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
		if n := st.slow(now); n > 0 && st.isUntrusted() {
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

// serve runs an incoming stream until it ends.
func (i *inStreams) serve(key streamKey, s Stream) {
	done := make(chan struct{})
	st := &inStream{in: i, s: s, key: key, of: i.callerOf(key.peer), w: newFrameWriter(done, maxUnsent)}
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
			i.log.Debug("stream ended", "service", key.service.name, "peer", key.peer, "err", err)
			_ = s.Reset()
			cancel()
		}
	})
	err := st.read(ctx, &workers)
	cancel() // no caller waits for running handlers
	if err != nil {
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

// remember registers a stream, unless the Endpoint is closed.
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

// all returns the open streams.
func (i *inStreams) all() (list []*inStream) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, streams := range i.open {
		list = append(list, streams...)
	}
	return list
}

// close resets the open streams and accepts no more.
func (i *inStreams) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	for _, st := range i.all() {
		_ = st.s.Reset()
	}
}

// read takes requests until the stream ends; nil if the peer closed it properly.
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
			return fmt.Errorf("%w: unexpected kind %d from the calling peer", errFrame, h.kind)
		}
		from := largeRequest
		if st.isUntrusted() {
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

func (st *inStream) isUntrusted() bool { return !st.in.network.Known(st.of.peer) }

// take reserves memory for more bytes of the frame being read.
func (st *inStream) take(ctx context.Context, more int) bool {
	taken, full := st.in.large.take(st.of, more, 0)
	if !taken {
		if full && st.isUntrusted() {
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

// holds adds bytes to the frame being read, after waiting for us; 0 ends the frame.
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

// slow returns the bytes held by a frame that is incomplete after slowFrame.
func (st *inStream) slow(now time.Time) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.held == 0 || now.Sub(st.since) < slowFrame {
		return 0
	}
	return st.held
}

// enqueue passes a request to a new worker, or to the queue if enough run, and waits while the
// queue is full.
func (st *inStream) enqueue(ctx context.Context, r request, workers *sync.WaitGroup) error {
	atOnce, most := maxHandlers, maxQueuedBytes
	if st.isUntrusted() {
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

// work handles its request and then the queue, and returns when that is empty: an idle stream has
// no handler goroutines.
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

// wakeReader wakes a waiting reader; st.mu is held.
func (st *inStream) wakeReader() {
	if st.room != nil {
		close(st.room)
		st.room = nil
	}
}

// errUnread refuses a request because too many unread answers fill the memory.
var errUnread = &Error{Code: CodeBusy, Message: "too many unread answers"}

func (st *inStream) handle(ctx context.Context, r request) {
	if ctx.Err() != nil {
		return // the stream has ended
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
		return // the writer releases it
	}
	st.in.answers.add(st.of, -held)
}

// answer runs the handler of a request; held is the reserved size of the answer.
func (st *inStream) answer(ctx context.Context, r request, h Handler) (answer []byte, held int, err error) {
	long := st.key.service.long
	if long {
		if taken, _ := st.in.answers.take(st.of, longAnswer, longRoom); !taken {
			return nil, 0, errUnread
		}
	}
	callCtx, cancel := context.WithTimeout(ctx, cmp.Or(r.wait, maxHandlerTime))
	answer, err = h(callCtx, st.key.peer, r.payload)
	cancel()
	if long {
		st.in.answers.add(st.of, -longAnswer)
	} else if len(answer) < largeOfStrangers || !st.isUntrusted() {
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

// send passes a frame to the writer, which calls written with its held bytes; false if the stream
// or ctx ended before.
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

// sweep resets an idle stream. Openers close theirs much sooner, so this one was leaked or is held
// open on purpose.
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

// shares counts bytes held for peers, by party: at most most for all and ofParty for each.
// Untrusted parties get at most strangers in total, and half of that each. It is safe for
// concurrent use.
type shares struct {
	most, ofParty, strangers int
	known                    func(peer.ID) bool

	mu      sync.Mutex // guards the fields below
	all     int
	of      map[string]int
	resting map[string]time.Time // parties in backoff, and until when
}

// caller is a peer and the name of its quota: its own, or its network of origin.
type caller struct {
	peer peer.ID
	name string
}

// take reserves bytes for a party, or returns false if they, or room, do not fit. full reports that
// no party of its kind has space left.
func (s *shares) take(of caller, size, room int) (taken, full bool) {
	room = max(room, size)
	known := s.known(of.peer)
	most, ofParty := s.most, s.ofParty
	if !known {
		most, ofParty = s.strangers, min(ofParty, s.strangers/2)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until, rests := s.resting[of.name]
	switch {
	case s.all+room > most:
		return false, true
	case s.of[of.name]+room > ofParty, rests && !known && time.Now().Before(until):
		return false, false
	}
	s.count(of, size)
	return true, false
}

// add counts bytes for a party without limit, or releases them if size is negative.
func (s *shares) add(of caller, size int) {
	if size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(of, size)
}

// count is called with the lock held.
func (s *shares) count(of caller, size int) {
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all += size
	if s.of[of.name] += size; s.of[of.name] == 0 {
		delete(s.of, of.name)
	}
}

// rest refuses a party further memory until a time.
func (s *shares) rest(name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting == nil {
		s.resting = make(map[string]time.Time)
	}
	maps.DeleteFunc(s.resting, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	s.resting[name] = until
}
