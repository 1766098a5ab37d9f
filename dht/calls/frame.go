package calls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds of what one frame may carry. They are checked before anything is
// allocated.
const (
	// maxFrame is the largest frame body in bytes.
	maxFrame = 4 << 20
	// maxFrameHeader covers kind, ID and the third field at their longest.
	maxFrameHeader = 1 + 3*binary.MaxVarintLen64
	// MaxPayload is the largest request or answer in bytes.
	MaxPayload = maxFrame - maxFrameHeader
	// MaxErrorDetail bounds Error.Detail in bytes: hints, not data.
	MaxErrorDetail = 64 << 10
	// MaxErrorMessage bounds Error.Message in bytes: one line for a log.
	MaxErrorMessage = 512
	// maxHandlerTime is the longest a caller may ask a handler to work for it.
	maxHandlerTime = 5 * time.Minute
)

// kind of a frame.
//
//	frame   = uvarint(len(body)) body
//	body    = kind uvarint(id) rest
//	request: rest = uvarint(milliseconds the caller waits, 0 unknown) payload
//	answer:  rest = payload
//	failure: rest = uvarint(code) uvarint(len(detail)) detail message
type kind byte

const (
	kindRequest kind = 1
	kindAnswer  kind = 2
	kindFailure kind = 3
)

var errFrame = errors.New("malformed frame")

// header is a frame without its payload, of which size bytes follow.
type header struct {
	kind   kind
	id     uint64
	wait   time.Duration // request: how long the caller waits, 0 unknown
	code   Code          // failure
	detail int           // failure: how many of the size bytes are detail
	size   int
	frame  int // bytes of the whole frame, for the counters
}

// frameReader reads headers one by one; between two headers the payload must
// have been taken with payload or skip.
type frameReader struct {
	r *bufio.Reader
}

// readBuffer holds a few dozen small frames; larger payloads bypass it.
const readBuffer = 4 << 10

func newFrameReader(r io.Reader) frameReader {
	return frameReader{r: bufio.NewReaderSize(r, readBuffer)}
}

// header returns the next frame's header. io.EOF means that the other side
// ended between two frames.
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

// fields reads what stands before the payload and returns how much is left of
// the body's length.
func (f frameReader) fields(h *header, length int) (int, error) {
	if length == 0 {
		return 0, fmt.Errorf("%w: no body", errFrame)
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

// uvarint reads one number of at most limit from at most room bytes, and says how
// many it took.
func (f frameReader) uvarint(limit uint64, room int) (v uint64, n int, err error) {
	for shift := uint(0); ; shift += 7 {
		if n == room {
			return 0, n, fmt.Errorf("%w: number runs over the body", errFrame)
		}
		b, err := f.r.ReadByte()
		if err != nil {
			return 0, n, err
		}
		n++
		if shift > 63 || shift == 63 && b > 1 {
			return 0, n, fmt.Errorf("%w: number beyond 64 bits", errFrame)
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	if v > limit {
		return 0, n, fmt.Errorf("%w: %d is over the limit %d", errFrame, v, limit)
	}
	return v, n, nil
}

// payload reads the h.size bytes after a header into a slice of the caller's.
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
		detail = nil // half a hint is worse than none
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
