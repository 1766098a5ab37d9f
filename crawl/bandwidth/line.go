package bandwidth

import "syscall"

// Line is the internet connection, with a limiter for each direction.
type Line struct {
	Down, Up *Limiter // download and upload
}

// NewLine returns a line with the same limit in both directions, in bytes a second; zero is none.
func NewLine(rate int64) *Line { return &Line{Down: NewLimiter(rate), Up: NewLimiter(rate)} }

// SetRate changes the limit in both directions, at once.
func (l *Line) SetRate(rate int64) {
	l.Down.SetRate(rate)
	l.Up.SetRate(rate)
}

// Rate returns the download limit.
func (l *Line) Rate() int64 { return l.Down.Rate() }

const (
	// leastBuffer and mostBuffer bound the kernel's receive buffer of a connection, in bytes: so much
	// of each may arrive before it is requested. It also bounds the bytes of a connection in a round
	// trip: at one of 150 ms, ten connections use the whole limit.
	leastBuffer = 1 << 10
	mostBuffer  = 256 << 10
	// bufferShare of the limit, in seconds.
	bufferShare = 1.0 / 128
)

// Control is for [net.Dialer]: while there is a limit it keeps the kernel from receiving much more
// on a new connection than is read.
func (l *Line) Control(_, _ string, c syscall.RawConn) error {
	rate := l.Down.Rate()
	if rate == 0 {
		return nil
	}
	return shrink(c, rate)
}

// shrink sizes the buffer of a connection for a limit. If the system does not permit it, the
// connection is used nevertheless, with a larger buffer.
func shrink(c syscall.RawConn, rate int64) error {
	return c.Control(func(fd uintptr) { _ = setReadBuffer(fd, buffer(rate)) })
}

// buffer returns the approximate bytes of a connection that arrive before they are read.
func buffer(rate int64) int {
	return int(min(max(float64(rate)*bufferShare, leastBuffer), mostBuffer))
}
