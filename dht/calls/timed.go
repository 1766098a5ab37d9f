package calls

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

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
