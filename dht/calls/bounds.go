package calls

import (
	"errors"
	"sync/atomic"
)

// bound is one of those that a peer may meet, for the counters.
type bound int

const (
	boundFirstByte bound = iota // nothing came on a stream
	boundFrame                  // a frame took too long
	boundWrite                  // nothing could be written for too long
	bounds
)

// boundNames are what Stats calls them.
var boundNames = [bounds]string{"first_byte", "frame", "write"}

// met counts how often each bound was met.
type met [bounds]atomic.Uint64

func (m *met) add(b bound) { m[b].Add(1) }

// slow counts the end of a stream if it is that its peer was too slow.
func (m *met) slow(err error) {
	switch {
	case errors.Is(err, errNothingCame):
		m.add(boundFirstByte)
	case isTimeout(err):
		m.add(boundFrame)
	}
}

// unwritten counts the end of a stream if it is that its peer did not read.
func (m *met) unwritten(err error) {
	if isTimeout(err) {
		m.add(boundWrite)
	}
}

// read returns the counts by name.
func (m *met) read() map[string]uint64 {
	counts := make(map[string]uint64, bounds)
	for b, name := range boundNames {
		counts[name] = m[b].Load()
	}
	return counts
}
