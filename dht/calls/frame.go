package calls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
