package job

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// IDSize is the length of an ID in bytes.
const IDSize = 16

// ID names a job: random, so that nobody can prepare URLs whose hashes meet in its URL sets.
type ID [IDSize]byte

// NewID draws an ID.
func NewID() ID {
	var id ID
	rand.Read(id[:]) // never fails
	return id
}

// ParseID reads an ID as String writes it.
func ParseID(s string) (ID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != IDSize {
		return ID{}, fmt.Errorf("job ID %.40q: want %d hexadecimal digits", s, 2*IDSize)
	}
	return ID(b), nil
}

// IDFrom reads the raw bytes of an ID, as they travel on the wire; false for another length.
func IDFrom(b []byte) (ID, bool) {
	if len(b) != IDSize {
		return ID{}, false
	}
	return ID(b), true
}

// String is the ID in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// State says whether a job's URLs are fetched. Part of the wire and the disk format.
type State uint32

const (
	// StateNone is no state: a question without an answer, or a request that leaves it as it is.
	StateNone State = iota
	// StateRunning: its URLs are granted to workers.
	StateRunning
	// StatePaused: links are taken, nothing new is granted; what is out is finished.
	StatePaused
	// StateCanceled: pending URLs are dropped. Final.
	StateCanceled
	// StateDone: the poster saw the ring idle. A link that still arrives is taken and crawled.
	StateDone

	stateEnd
)

var stateNames = [stateEnd]string{"none", "running", "paused", "canceled", "done"}

// String is the state's stable name.
func (s State) String() string {
	if s < stateEnd {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// Grants says whether URLs of a job in this state are given to workers.
func (s State) Grants() bool { return s == StateRunning || s == StateDone }
