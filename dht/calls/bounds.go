package calls

import (
	"errors"
	"sync/atomic"
)

// bound identifies a limit that closed a stream, for the counters.
type bound int

const (
	boundFirstByte bound = iota // no byte received on a stream
	boundFrame                  // a frame took too long
	boundWrite                  // a write made no progress for too long
	bounds
)

// boundNames are the keys of Stats.Bounds.
var boundNames = [bounds]string{"first_byte", "frame", "write"}

// met counts how often each limit was reached.
type met [bounds]atomic.Uint64

func (m *met) add(b bound) { m[b].Add(1) }

// slow counts err if it reports that the peer sent too slowly.
func (m *met) slow(err error) {
	switch {
	case errors.Is(err, errNothingCame):
		m.add(boundFirstByte)
	case isTimeout(err):
		m.add(boundFrame)
	}
}

// unwritten counts err if it reports that the peer did not read.
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
