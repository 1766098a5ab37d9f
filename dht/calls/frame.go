package calls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Size limits of frames, checked before any allocation.
const (
	// maxFrame is the largest frame body in bytes.
	maxFrame = 4 << 20
	// maxFrameHeader covers kind, ID and the third field at their longest.
	maxFrameHeader = 1 + 3*binary.MaxVarintLen64
	// MaxPayload is the largest request or answer in bytes.
	MaxPayload = maxFrame - maxFrameHeader
	// MaxErrorDetail is the maximum size of Error.Detail in bytes: hints, not data.
	MaxErrorDetail = 64 << 10
	// MaxErrorMessage is the maximum size of Error.Message in bytes: one log line.
	MaxErrorMessage = 512
	// maxHandlerTime is the longest deadline of a handler that a caller may set.
	maxHandlerTime = 5 * time.Minute
)

// kind is the type of a frame.
//
//	frame   = uvarint(len(body)) body
//	body    = kind uvarint(id) rest
//	request: rest = uvarint(milliseconds until the caller's deadline, 0 unknown) payload
//	answer:  rest = payload
//	failure: rest = uvarint(code) uvarint(len(detail)) detail message
type kind byte

const (
	kindRequest kind = 1
	kindAnswer  kind = 2
	kindFailure kind = 3
)

var errFrame = errors.New("malformed frame")

// header is a frame without its payload of size bytes, which follows.
type header struct {
	kind   kind
	id     uint64
	wait   time.Duration // request: time to the caller's deadline, 0 unknown
	code   Code          // failure
	detail int           // failure: number of the size bytes that are detail
	size   int
	frame  int // bytes of the whole frame, for the counters
}

// frameReader reads headers. Between two headers the caller must take the payload with payload or
// skip.
type frameReader struct {
	r *bufio.Reader
}

// readBuffer holds a few dozen small frames; larger payloads bypass it.
const readBuffer = 4 << 10

func newFrameReader(r io.Reader) frameReader {
	return frameReader{r: bufio.NewReaderSize(r, readBuffer)}
}

// header returns the next frame's header, or io.EOF if the stream ended between two frames.
func (f frameReader) header() (header, error) {
	length, lead, err := f.uvarint(maxFrame, binary.MaxVarintLen64)
	if err != nil {
		if lead > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return header{}, err
	}
	h := header{frame: lead + int(length)}
	h.size, err = f.fields(&h, int(length))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return h, err
}

// fields reads the fields before the payload and returns the bytes left of the body.
func (f frameReader) fields(h *header, length int) (int, error) {
	if length == 0 {
		return 0, fmt.Errorf("%w: empty body", errFrame)
	}
	k, err := f.r.ReadByte()
	if err != nil {
		return 0, err
	}
	h.kind = kind(k)
	left := length - 1
	field := func(limit uint64) uint64 {
		if err != nil {
			return 0
		}
		var v uint64
		var n int
		v, n, err = f.uvarint(limit, left)
		left -= n
		return v
	}
	h.id = field(1<<64 - 1)
	switch h.kind {
	case kindRequest:
		ms := field(1<<64 - 1)
		h.wait = time.Duration(min(ms, uint64(maxHandlerTime/time.Millisecond))) * time.Millisecond
	case kindAnswer:
	case kindFailure:
		h.code = Code(field(1<<32 - 1))
		h.detail = int(field(MaxErrorDetail))
		if err == nil && (h.detail > left || left-h.detail > MaxErrorMessage) {
			err = fmt.Errorf("%w: failure of %d bytes with detail of %d", errFrame, left, h.detail)
		}
	default:
		err = fmt.Errorf("%w: kind %d", errFrame, k)
	}
	return left, err
}

// uvarint reads a number of at most limit from at most room bytes and returns the bytes read.
func (f frameReader) uvarint(limit uint64, room int) (v uint64, n int, err error) {
	for shift := uint(0); ; shift += 7 {
		if n == room {
			return 0, n, fmt.Errorf("%w: number exceeds the body", errFrame)
		}
		b, err := f.r.ReadByte()
		if err != nil {
			return 0, n, err
		}
		n++
		if shift > 63 || shift == 63 && b > 1 {
			return 0, n, fmt.Errorf("%w: number exceeds 64 bits", errFrame)
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	if v > limit {
		return 0, n, fmt.Errorf("%w: %d exceeds the limit %d", errFrame, v, limit)
	}
	return v, n, nil
}

// payload reads the h.size bytes after a header into a slice that the caller owns.
func (f frameReader) payload(h header) ([]byte, error) {
	if h.size == 0 {
		return nil, nil
	}
	b := make([]byte, h.size)
	_, err := io.ReadFull(f.r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// failure reads the *Error that follows a kindFailure header.
func (f frameReader) failure(h header) (*Error, error) {
	b, err := f.payload(h)
	if err != nil {
		return nil, err
	}
	return &Error{Code: h.code, Detail: b[:h.detail:h.detail], Message: string(b[h.detail:])}, nil
}

func appendRequest(b []byte, id uint64, wait time.Duration, payload []byte) []byte {
	ms := uint64((wait + time.Millisecond - 1) / time.Millisecond)
	b = binary.AppendUvarint(b, uint64(1+uvarintLen(id)+uvarintLen(ms)+len(payload)))
	b = append(b, byte(kindRequest))
	b = binary.AppendUvarint(b, id)
	b = binary.AppendUvarint(b, ms)
	return append(b, payload...)
}

func appendAnswer(b []byte, id uint64, payload []byte) []byte {
	b = binary.AppendUvarint(b, uint64(1+uvarintLen(id)+len(payload)))
	b = append(b, byte(kindAnswer))
	b = binary.AppendUvarint(b, id)
	return append(b, payload...)
}

func appendFailure(b []byte, id uint64, e *Error) []byte {
	detail, message := e.Detail, e.Message
	if len(detail) > MaxErrorDetail {
		detail = nil // a truncated hint is useless
	}
	message = message[:min(len(message), MaxErrorMessage)]
	code, size := uint64(e.Code), uint64(len(detail))
	b = binary.AppendUvarint(b, uint64(1+uvarintLen(id)+uvarintLen(code)+uvarintLen(size)+len(detail)+len(message)))
	b = append(b, byte(kindFailure))
	b = binary.AppendUvarint(b, id)
	b = binary.AppendUvarint(b, code)
	b = binary.AppendUvarint(b, size)
	b = append(b, detail...)
	return append(b, message...)
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// Timeouts of streams. A slow peer loses only the stream; the next one has no penalty.
const (
	// FirstByte is the timeout for the first byte of an incoming stream.
	FirstByte = 15 * time.Second
	// frameTime is the time to receive a whole frame, plus the received bytes divided by frameRate
	// (bytes per second, an eighth of a megabit, below any useful line). Announced bytes that do not
	// arrive add no time.
	frameTime = 15 * time.Second
	frameRate = 16 << 10
	// WriteTime is the timeout of a write, plus the written bytes divided by frameRate.
	WriteTime = 30 * time.Second
)

// errNothingCame ends a stream that was opened and not used.
var errNothingCame = errors.New("no request received on the stream")

// timedFrames reads frames with a timeout for each. Between frames a stream may be idle.
type timedFrames struct {
	frameReader
	s       Stream
	limited bool      // reads of the stream have a deadline
	begun   time.Time // start of the frame being read
	timed   int       // its bytes that added time
}

func newTimedFrames(s Stream) *timedFrames { return &timedFrames{frameReader: newFrameReader(s), s: s} }

// first waits up to FirstByte for the first byte of a stream.
func (t *timedFrames) first() error {
	if err := t.until(time.Now().Add(FirstByte)); err != nil {
		return err
	}
	_, err := t.r.Peek(1)
	if isTimeout(err) {
		err = errNothingCame
	}
	return err
}

// header waits without limit for the next frame and returns its header. The rest of the frame has a
// deadline.
func (t *timedFrames) header() (header, error) {
	if t.limited {
		if err := t.until(time.Time{}); err != nil {
			return header{}, err
		}
	}
	if _, err := t.r.Peek(1); err != nil {
		return header{}, err
	}
	if !t.whole() {
		t.begun, t.timed = time.Now(), 0
		if err := t.until(t.begun.Add(frameTime)); err != nil {
			return header{}, err
		}
	}
	return t.frameReader.header()
}

// errNoRoom reports that a payload was skipped because no memory was left.
var errNoRoom = errors.New("no memory left for large requests")

// payload reads a payload into memory that grows with the received bytes. From size from on it
// calls take to reserve each increase, up to twice the received bytes, which may block: held is the
// reserved size. If take fails, the rest is skipped.
func (t *timedFrames) payload(h header, from int, take func(more int) bool) (b []byte, held int, err error) {
	if h.size < from {
		b, err = t.frameReader.payload(h)
		return b, 0, err
	}
	for len(b) < h.size {
		if len(b) == cap(b) {
			room := min(max(2*len(b), from), h.size)
			asked := time.Now()
			given := take(room - held)
			if err := t.waited(asked); err != nil {
				return nil, held, err
			}
			if !given {
				if err := t.skip(h.size, len(b)); err != nil {
					return nil, held, err
				}
				return nil, held, errNoRoom
			}
			held = room
			b = append(make([]byte, 0, room), b...)
		}
		n, err := t.r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil {
			return nil, held, wholly(err)
		}
		if err := t.came(len(b)); err != nil {
			return nil, held, err
		}
	}
	return b, held, nil
}

// waited extends a frame's deadline by the time it waited for us.
func (t *timedFrames) waited(since time.Time) error {
	took := time.Since(since)
	if !t.limited || took < time.Second {
		return nil
	}
	t.begun = t.begun.Add(took)
	return t.until(time.Now().Add(frameTime))
}

// skip discards the rest of a payload, of which n bytes were read.
func (t *timedFrames) skip(size, n int) error {
	for n < size {
		part, err := t.r.Discard(min(frameRate, size-n))
		if err != nil {
			return wholly(err)
		}
		n += part
		if err := t.came(n); err != nil {
			return err
		}
	}
	return nil
}

// came extends a frame's deadline for received bytes; once per second, as deadlines are costly.
func (t *timedFrames) came(n int) error {
	if !t.limited || n < t.timed+frameRate {
		return nil
	}
	t.timed = n
	due, now := t.begun.Add(frameTime+time.Duration(n)*time.Second/frameRate), time.Now()
	if stalled := now.Add(frameTime); stalled.Before(due) { // fast bytes earn no idle time
		due = stalled
	}
	return t.until(due)
}

// wholly converts the error of a read inside a frame.
func wholly(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// whole reports whether the whole frame is already buffered, as most small frames are: a deadline
// costs as much as reading one.
func (t *timedFrames) whole() bool {
	b, _ := t.r.Peek(t.r.Buffered())
	length, n := binary.Uvarint(b)
	return n > 0 && length <= uint64(len(b)-n)
}

// until sets the deadline of reads, none if at is zero.
func (t *timedFrames) until(at time.Time) error {
	t.limited = !at.IsZero()
	return t.s.SetReadDeadline(at)
}

// isTimeout reports whether a read or write timed out.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// writeTimed writes all of b, within WriteTime plus the written bytes divided by frameRate: a peer
// that reads a byte now and then does not block the rest.
func writeTimed(s Stream, b []byte) error {
	due := time.Now().Add(WriteTime)
	for {
		if err := s.SetWriteDeadline(due); err != nil {
			return err
		}
		n, err := s.Write(b)
		if b = b[n:]; err == nil && len(b) > 0 {
			err = io.ErrShortWrite
		}
		due = due.Add(time.Duration(n) * time.Second / frameRate)
		if err == nil || !isTimeout(err) || !time.Now().Before(due) {
			return err
		}
	}
}
