package records

import (
	"bytes"
	"cmp"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// Replicated is a replicated keyspace.
type Replicated struct {
	Prefix byte
	Head   []byte // key prefix of those records that move with the ring

	// change and record return the replicas' form of a change and of a record, if it differs from the
	// local one: see ondisk.Copied and ondisk.CopiedRecord.
	change func(key, value []byte) (k, v []byte, ok bool)
	record func(key, value []byte, get func(key []byte) ([]byte, bool, error)) (v []byte, ok bool, err error)
}

// replicated are the replicated keyspaces, in the order of their bytes.
var replicated = []Replicated{
	{Prefix: storage.KeyspaceContent},
	{Prefix: storage.KeyspaceDomains},
	{Prefix: storage.KeyspaceHosts, Head: []byte{'h'}, change: ondisk.Copied, record: ondisk.CopiedRecord},
	{Prefix: storage.KeyspaceJobs},
	{Prefix: storage.KeyspaceSubnets},
}

// ReplicatedOf returns the replicated form of a keyspace.
func ReplicatedOf(prefix byte) Replicated {
	for _, space := range replicated {
		if space.Prefix == prefix {
			return space
		}
	}
	return Replicated{Prefix: prefix}
}

// headOf returns the key prefix of a keyspace before the position.
func headOf(prefix byte) []byte { return ReplicatedOf(prefix).Head }

// Hand adds the replicated records of keyspaces to a scan, from a key on, which begins with the
// byte of its keyspace.
func Hand(lo []byte, into *replica.Records, keyspace func(prefix byte) kv.Store) error {
	for _, space := range replicated {
		from := space.Head
		if len(lo) > 0 && lo[0] > space.Prefix {
			continue
		} else if len(lo) > 0 && lo[0] == space.Prefix && bytes.Compare(lo[1:], from) > 0 {
			from = lo[1:]
		}
		if full, err := space.hand(keyspace(space.Prefix), from, into); err != nil || full {
			return err
		}
	}
	into.End()
	return nil
}

// hand adds the records of one keyspace to a scan until it is full.
func (r *Replicated) hand(keyspace kv.Store, from []byte, into *replica.Records) (full bool, err error) {
	serr := keyspace.Scan(from, kv.PrefixEnd(r.Head), func(key, value []byte) bool {
		ok := true
		if r.record != nil {
			value, ok, err = r.record(key, value, keyspace.Get)
		}
		if err != nil {
			return false
		}
		if key = append([]byte{r.Prefix}, key...); ok {
			full = !into.Add(key, value)
		} else {
			full = !into.Skip(key)
		}
		return !full
	})
	return full, cmp.Or(serr, err)
}

// Noting is a batch that also records its changes for the replicas.
type Noting struct {
	kv.Batch
	Space *Replicated
	Ops   []replica.Op // recorded changes
	room  []byte       // buffer of keys and values with the lifetime of the batch
}

// notingRoom is the allocation unit for keys and values, in bytes.
const notingRoom = 4096

// keep copies bytes.
func (b *Noting) keep(parts ...[]byte) []byte {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if cap(b.room)-len(b.room) < size {
		b.room = make([]byte, 0, max(notingRoom, size))
	}
	at := len(b.room)
	for _, part := range parts {
		b.room = append(b.room, part...)
	}
	return b.room[at:len(b.room):len(b.room)]
}

func (b *Noting) key(key []byte) []byte { return b.keep([]byte{b.Space.Prefix}, key) }

// copied returns the replicas' form of a change.
func (b *Noting) copied(key, value []byte) (k, v []byte, ok bool) {
	switch {
	case !bytes.HasPrefix(key, b.Space.Head):
		return nil, nil, false
	case b.Space.change == nil:
		return key, value, true
	default:
		return b.Space.change(key, value)
	}
}

// Set implements kv.Batch.
func (b *Noting) Set(key, value []byte) {
	b.Batch.Set(key, value)
	if k, v, ok := b.copied(key, value); ok {
		b.Ops = append(b.Ops, replica.Op{Kind: replica.Set, Key: b.key(k), Value: b.keep(v)})
	}
}

// Delete implements kv.Batch.
func (b *Noting) Delete(key []byte) {
	b.Batch.Delete(key)
	if k, _, ok := b.copied(key, nil); ok {
		b.Ops = append(b.Ops, replica.Op{Kind: replica.Delete, Key: b.key(k)})
	}
}

// DeleteRange implements kv.Batch. A range must not include both replicated and local keys.
func (b *Noting) DeleteRange(lo, hi []byte) {
	b.Batch.DeleteRange(lo, hi)
	if bytes.HasPrefix(lo, b.Space.Head) {
		end := append([]byte{b.Space.Prefix}, hi...)
		if hi == nil {
			end = []byte{b.Space.Prefix + 1}
		}
		if key := b.key(lo); bytes.Compare(key, end) < 0 { // followers reject an empty range
			b.Ops = append(b.Ops, replica.Op{Kind: replica.DeleteRange, Key: key, Value: end})
		}
	}
}

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
