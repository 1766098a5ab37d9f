package calls

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// How long a stream may hold what this peer keeps for it. Who is slower loses the stream and nothing
// else: the next one is as good as the first.
const (
	// FirstByte is how long an incoming stream may bring nothing at all.
	FirstByte = 15 * time.Second
	// frameTime is how long a frame that has begun may take to be whole, and besides its length over
	// frameRate in bytes a second. That is an eighth of a megabit, less than a line has that crawls:
	// the largest frame has four and a half minutes. What waits meanwhile is bounded.
	frameTime = 15 * time.Second
	frameRate = 16 << 10
	// WriteTime is how long a write may take not one byte.
	WriteTime = 30 * time.Second
)

// errNothingCame ends a stream that was opened and not used.
var errNothingCame = errors.New("nothing came on the stream")

// timedFrames reads frames, each within its time. Between whole frames a stream may be quiet.
type timedFrames struct {
	frameReader
	s       Stream
	limited bool // reads of the stream have a deadline
}

func newTimedFrames(s Stream) *timedFrames { return &timedFrames{frameReader: newFrameReader(s), s: s} }

// first waits for the first byte of a stream, for FirstByte.
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

// header waits for the next frame, however long that takes, and returns its header. What follows of it has a deadline.
func (t *timedFrames) header() (header, error) {
	if t.limited {
		if err := t.until(time.Time{}); err != nil {
			return header{}, err
		}
	}
	if _, err := t.r.Peek(1); err != nil {
		return header{}, err
	}
	begun := time.Now()
	if !t.whole() {
		if err := t.until(begun.Add(frameTime)); err != nil {
			return header{}, err
		}
	}
	h, err := t.frameReader.header()
	if err == nil && t.limited && h.size > t.r.Buffered() {
		err = t.until(begun.Add(frameTime + time.Duration(h.frame)*time.Second/frameRate))
	}
	return h, err
}

// whole says whether all of a frame was read already, as most are that are small: a deadline costs as much as reading one.
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

// isTimeout says whether a read or write met its deadline.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// writeTimed writes all of b, however long that takes, unless WriteTime goes by without a byte.
func writeTimed(s Stream, b []byte) error {
	for {
		if err := s.SetWriteDeadline(time.Now().Add(WriteTime)); err != nil {
			return err
		}
		n, err := s.Write(b)
		if b = b[n:]; err == nil && len(b) > 0 {
			err = io.ErrShortWrite
		}
		if err == nil || n == 0 || !isTimeout(err) {
			return err
		}
	}
}
