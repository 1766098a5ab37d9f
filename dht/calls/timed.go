package calls

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// How long a stream may hold what this peer keeps for it. Who is slower loses the stream and
// nothing else: the next one is as good as the first.
const (
	// FirstByte is how long an incoming stream may bring nothing at all.
	FirstByte = 15 * time.Second
	// frameTime is how long a frame that has begun may take to be whole, besides what has come of
	// it over frameRate in bytes a second. That is an eighth of a megabit, less than a line has
	// that crawls. What is announced and does not come gives no time.
	frameTime = 15 * time.Second
	frameRate = 16 << 10
	// WriteTime is how long a write may take, besides what is written over frameRate.
	WriteTime = 30 * time.Second
)

// errNothingCame ends a stream that was opened and not used.
var errNothingCame = errors.New("nothing came on the stream")

// timedFrames reads frames, each within its time. Between whole frames a stream may be quiet.
type timedFrames struct {
	frameReader
	s       Stream
	limited bool      // reads of the stream have a deadline
	begun   time.Time // when the frame did that is being read
	timed   int       // bytes of it that it has time for
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

// header waits for the next frame, however long that takes, and returns its header. What follows of
// it has a deadline.
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

// errNoRoom says that a payload was skipped.
var errNoRoom = errors.New("no room")

// payload is frameReader's, in memory that grows with what comes. Of payloads of a size from on
// take is asked for it as it grows, from so much to twice what came, which may take time: held is
// how much it gave, and without room the rest is skipped.
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

// waited gives a frame the time back that it had to wait for us.
func (t *timedFrames) waited(since time.Time) error {
	took := time.Since(since)
	if !t.limited || took < time.Second {
		return nil
	}
	t.begun = t.begun.Add(took)
	return t.until(time.Now().Add(frameTime))
}

// skip reads past the rest of a payload, of which n bytes have come.
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

// came gives a frame more time, for what has come of it; by the second, as a deadline has its cost.
func (t *timedFrames) came(n int) error {
	if !t.limited || n < t.timed+frameRate {
		return nil
	}
	t.timed = n
	due, now := t.begun.Add(frameTime+time.Duration(n)*time.Second/frameRate), time.Now()
	if stalled := now.Add(frameTime); stalled.Before(due) { // what came fast gives no time to rest
		due = stalled
	}
	return t.until(due)
}

// wholly is the error of a read in the middle of a frame.
func wholly(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// whole says whether all of a frame was read already, as most are that are small: a deadline costs
// as much as reading one.
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

// writeTimed writes all of b, in WriteTime and what frameRate takes for the part that is written:
// who reads a byte now and then does not hold the rest.
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
