package bandwidth

import "syscall"

// Line is the way to the internet: what comes down it and what goes up, each with a limiter of its
// own.
type Line struct {
	Down, Up *Limiter // what comes, and what goes
}

// NewLine returns a line with the same cap in both directions, in bytes a second; zero is none.
func NewLine(rate int64) *Line { return &Line{Down: NewLimiter(rate), Up: NewLimiter(rate)} }

// SetRate changes the cap in both directions, at once.
func (l *Line) SetRate(rate int64) {
	l.Down.SetRate(rate)
	l.Up.SetRate(rate)
}

// Rate is the cap of what comes down.
func (l *Line) Rate() int64 { return l.Down.Rate() }

const (
	// leastBuffer and mostBuffer bound what the kernel may take in of a connection before it is
	// read, in bytes: so much of each may come over the wire before it was asked for. It also
	// bounds what a connection carries in a round trip: at one of 150 ms, ten connections carry the
	// cap.
	leastBuffer = 1 << 10
	mostBuffer  = 256 << 10
	// bufferShare of the cap, in seconds.
	bufferShare = 1.0 / 128
)

// Control is for [net.Dialer]: while there is a cap it keeps the kernel from taking in much more of
// a new connection than is read of it.
func (l *Line) Control(_, _ string, c syscall.RawConn) error {
	rate := l.Down.Rate()
	if rate == 0 {
		return nil
	}
	return shrink(c, rate)
}

// shrink sizes the buffer of a connection for a cap. A system that does not let us is no reason not
// to connect: then more lies in its buffer.
func shrink(c syscall.RawConn, rate int64) error {
	return c.Control(func(fd uintptr) { _ = setReadBuffer(fd, buffer(rate)) })
}

// buffer is about how many bytes of a connection come before they are read.
func buffer(rate int64) int {
	return int(min(max(float64(rate)*bufferShare, leastBuffer), mostBuffer))
}
