package records

import (
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// Mover is one kind of records with its state machine.
type Mover interface {
	// Scan reads the records, as storage.Keyspace.Scan does.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	// Note and Remove are those of handoff.Space.
	Note(pos ring.Pos) []byte
	Remove(pos ring.Pos) error
	// Import begins to merge records. Merge is called on the goroutine of the kind until it returns
	// true, or fails. Later reports that they need not be on disk then: neither these, nor those
	// merged by an earlier attempt, which this one does not write again.
	Import(p handoff.Push) (merge func() (through bool, err error), later bool)
}

// State is a state machine whose records merge by union and have no notes.
type State interface {
	// Remove deletes the records of an arc, and Import merges those of another peer; wait returns when
	// the change is on disk.
	Remove(lo, hi ring.Pos) (wait func() error, err error)
	Import(records []kv.Record) (wait func() error, err error)
}

// merging is the Mover of a State.
type merging struct {
	*storage.Keyspace
	state    State
	imported func() // called after each Import; nil: nothing
}

// Note implements Mover.
func (merging) Note(ring.Pos) []byte { return nil }

// Remove implements Mover.
func (m merging) Remove(pos ring.Pos) error {
	_, err := m.state.Remove(pos, pos.Next())
	return err
}

// recordsAtOnce is how many records are merged before the loop processes other requests.
const recordsAtOnce = 256

// Import implements Mover.
func (m merging) Import(p handoff.Push) (merge func() (through bool, err error), later bool) {
	records := p.Records
	return func() (bool, error) {
		n := min(recordsAtOnce, len(records))
		_, err := m.state.Import(records[:n])
		if m.imported != nil {
			m.imported()
		}
		if err != nil {
			return false, rpc.Refuse("%v", err)
		}
		records = records[n:]
		return len(records) == 0, nil
	}, true
}

// space adapts a Mover to package handoff.
type space struct {
	handoff.Ranged
	Mover
}
