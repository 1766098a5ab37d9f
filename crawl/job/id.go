package job

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// IDSize is the length of an ID in bytes.
const IDSize = 16

// ID identifies a job. It is random, so that no URLs with colliding hashes can be prepared.
type ID [IDSize]byte

// NewID returns a random ID.
func NewID() ID {
	var id ID
	rand.Read(id[:]) // never fails
	return id
}

// ParseID parses an ID as written by String.
func ParseID(s string) (ID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != IDSize {
		return ID{}, fmt.Errorf("job ID %.40q: want %d hexadecimal digits", s, 2*IDSize)
	}
	return ID(b), nil
}

// IDFrom returns the ID with the given raw bytes; false for another length.
func IDFrom(b []byte) (ID, bool) {
	if len(b) != IDSize {
		return ID{}, false
	}
	return ID(b), true
}

// String returns the ID in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// State determines whether a job's URLs are fetched. Part of the wire and the disk format.
type State uint32

const (
	// StateNone is no state: a query, or a request that leaves the state unchanged.
	StateNone State = iota
	// StateRunning: its URLs are granted to workers.
	StateRunning
	// StatePaused: links are accepted, nothing more is granted; URLs that are out are finished.
	StatePaused
	// StateCanceled: pending URLs are dropped. Final.
	StateCanceled
	// StateDone: the poster found the ring idle. A link that still arrives is accepted and crawled.
	StateDone

	stateEnd
)

var stateNames = [stateEnd]string{"none", "running", "paused", "canceled", "done"}

// String returns the state's stable name.
func (s State) String() string {
	if s < stateEnd {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// Grants reports whether URLs of a job in this state are granted to workers.
func (s State) Grants() bool { return s == StateRunning || s == StateDone }
