package ondisk

import (
	"fmt"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Buffer collects the writes of a step, and serves reads from them. After the first store error it
// reads and writes nothing more. Not safe for concurrent use.
type Buffer struct {
	store  kv.Store
	writes map[string][]byte // nil: deleted
	ranges [][2][]byte       // deleted before all writes
	waits  []func() error
	err    error // first error of the store; nothing is done after it

	// entries lists the URL entries among the writes; sets holds their hashes by URL set, as far as
	// sorted, since most steps read no set.
	entries []written
	sorted  int
	sets    map[SetID][]uint64
}

// written is a URL entry among the writes.
type written struct {
	set  SetID
	hash uint64
}

// keepWrites is the size up to which the map is reused: clearing a larger one is slow for every
// batch.
const keepWrites = 1 << 13

// NewBuffer returns a buffer in front of a store.
func NewBuffer(store kv.Store) *Buffer {
	return &Buffer{store: store, writes: make(map[string][]byte), sets: make(map[SetID][]uint64)}
}

// Set writes a record with the next flush, and takes ownership of value.
func (b *Buffer) Set(key, value []byte) {
	if KindOf(key) == KindEntry {
		hash, ok := HashIn(key[JobPrefixLen:])
		if _, again := b.writes[string(key)]; ok && !again {
			b.entries = append(b.entries, written{SetID{Pos: ring.Pos(key[1:]), Job: JobIn(key)}, hash})
		}
	}
	b.writes[string(key)] = value
}

// Delete deletes a record with the next flush.
func (b *Buffer) Delete(key []byte) { b.writes[string(key)] = nil }

// Get returns a record including unflushed writes; false if there is none, or after an error.
func (b *Buffer) Get(key []byte) (value []byte, ok bool) {
	if value, ok = b.writes[string(key)]; ok {
		return value, value != nil
	}
	if b.err != nil {
		return nil, false
	}
	value, ok, err := b.store.Get(key)
	if err != nil {
		b.Fail(fmt.Errorf("owner: read: %w", err))
	}
	return value, ok && err == nil
}

// Fail records the first error.
func (b *Buffer) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Flush applies the collected writes as one batch. It may only be called between operations, each
// of which must be complete in one batch.
func (b *Buffer) Flush() {
	if len(b.writes)+len(b.ranges) == 0 || b.err != nil {
		return
	}
	wait, err := b.store.Update(func(batch kv.Batch) {
		for _, r := range b.ranges {
			batch.DeleteRange(r[0], r[1])
		}
		for key, value := range b.writes {
			if value == nil {
				batch.Delete([]byte(key))
			} else {
				batch.Set([]byte(key), value)
			}
		}
	})
	if err != nil {
		b.Fail(fmt.Errorf("owner: write: %w", err))
		return
	}
	b.empty()
	b.waits = append(b.waits, wait)
}

// Scan reads the store alone: collected writes must be flushed before.
func (b *Buffer) Scan(lo, hi []byte, fn func(key, value []byte) bool) {
	if b.err != nil {
		return
	}
	if err := b.store.Scan(lo, hi, fn); err != nil {
		b.Fail(fmt.Errorf("owner: scan: %w", err))
	}
}

// empty drops the collected writes once they are in the store.
func (b *Buffer) empty() {
	if len(b.writes) > keepWrites {
		b.writes = make(map[string][]byte)
		b.entries = nil
		b.sets = make(map[SetID][]uint64)
	}
	clear(b.writes)
	clear(b.sets)
	b.entries, b.sorted, b.ranges = b.entries[:0], 0, nil
}

// Hashes calls fn for the hashes of a URL set of size members, from store and buffer, in no order.
// If the buffer has them all, the store is not read.
func (b *Buffer) Hashes(set SetID, size int64, fn func(hash uint64) bool) {
	for _, w := range b.entries[b.sorted:] {
		b.sets[w.set] = append(b.sets[w.set], w.hash)
	}
	b.sorted = len(b.entries)
	n, more := int64(0), true
	for _, hash := range b.sets[set] {
		if more && b.writes[string(EntryKey(set.Pos, set.Job, hash))] != nil {
			n++
			more = fn(hash)
		}
	}
	if !more || n >= size {
		return
	}
	prefix := JobPrefix(set.Pos, KindEntry, set.Job)
	b.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		hash, ok := HashIn(key[JobPrefixLen:])
		if _, changed := b.writes[string(key)]; changed || !ok {
			return true
		}
		n++
		return fn(hash) && n < size
	})
}

// Take returns a wait for everything flushed since the last call. The store keeps the order of
// batches, so the wait of the last one covers all before it.
func (b *Buffer) Take() func() error {
	waits := b.waits
	b.waits = nil
	switch len(waits) {
	case 0:
		return func() error { return nil }
	case 1:
		return waits[0]
	}
	return func() error {
		for _, wait := range waits {
			if err := wait(); err != nil {
				return err
			}
		}
		return nil
	}
}

// DeleteRange deletes the keys in [lo, hi) with the next flush. Collected writes must be flushed
// before.
func (b *Buffer) DeleteRange(lo, hi []byte) { b.ranges = append(b.ranges, [2][]byte{lo, hi}) }

// Err returns the first error of the store or of its contents.
func (b *Buffer) Err() error { return b.err }

// Len returns the number of writes since the last flush.
func (b *Buffer) Len() int { return len(b.writes) }

// Gathered returns the unflushed value of a key; false if there is none, or a deletion.
func (b *Buffer) Gathered(key []byte) (value []byte, ok bool) {
	value = b.writes[string(key)]
	return value, value != nil
}

// Store returns the store, for readers of its flushed contents.
func (b *Buffer) Store() kv.Store { return b.store }
