package sim

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// store is an ordered store in memory. It dies with its peer.
type store struct{ tree btree.Map[string, []byte] }

// Get returns a copy of a value.
func (s *store) Get(key []byte) (value []byte, ok bool, err error) {
	value, ok = s.tree.Get(string(key))
	return bytes.Clone(value), ok, nil
}

// Scan calls fn in key order for the keys in [lo, hi) until it returns false; key and value are
// lent.
func (s *store) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := string(hi)
	s.tree.Ascend(string(lo), func(key string, value []byte) bool {
		return (hi == nil || key < end) && fn([]byte(key), value)
	})
	return nil
}

// batch applies its changes as they come: a simulated process is not killed in the middle of one.
type batch struct {
	store *store
	// note, when set, sees the changes that the replicas are to have as well, as ondisk.Copied says
	// for hosts: those of which the keys begin with the head of the space.
	note  func(op replica.Op)
	space *space
}

// Set implements kv.Batch.
func (b batch) Set(key, value []byte) {
	kept := append([]byte{}, value...)
	b.store.tree.Set(string(key), kept)
	b.ship(replica.Op{Kind: replica.Set, Key: key, Value: kept})
}

// Delete implements kv.Batch.
func (b batch) Delete(key []byte) {
	b.store.tree.Delete(string(key))
	b.ship(replica.Op{Kind: replica.Delete, Key: key})
}

// DeleteRange implements kv.Batch.
func (b batch) DeleteRange(lo, hi []byte) {
	var gone []string
	end := string(hi)
	b.store.tree.Ascend(string(lo), func(key string, _ []byte) bool {
		if hi != nil && key >= end {
			return false
		}
		gone = append(gone, key)
		return true
	})
	for _, key := range gone {
		b.store.tree.Delete(key)
	}
	b.ship(replica.Op{Kind: replica.DeleteRange, Key: lo, Value: hi})
}

// ship notes a change under the byte of its keyspace.
func (b batch) ship(op replica.Op) {
	if b.note == nil || !bytes.HasPrefix(op.Key, b.space.head) {
		return
	}
	if op.Kind != replica.DeleteRange && b.space == hostSpace {
		var ok bool
		if op.Key, op.Value, ok = ondisk.Copied(op.Key, op.Value); !ok {
			return
		}
	}
	op.Key = b.space.under(op.Key)
	if op.Kind == replica.DeleteRange {
		if op.Value == nil {
			op.Value = []byte{b.space.prefix + 1}
		} else {
			op.Value = b.space.under(op.Value)
		}
	}
	b.note(op)
}

// space is a keyspace with replicas: its byte, and what begins the keys of those records that have
// replicas and move.
type space struct {
	prefix byte
	head   []byte
}

// The spaces in the order of their bytes.
var (
	bodySpace = &space{prefix: storage.KeyspaceContent}
	hostSpace = &space{prefix: storage.KeyspaceHosts, head: []byte{'h'}}
)

// under is a key with the byte of its keyspace before it.
func (s *space) under(key []byte) []byte { return append([]byte{s.prefix}, key...) }

func onDisk() error { return nil }

// shipped is where records of a space lie; what the replicas are to have as well goes to append,
// batch by batch.
type shipped struct {
	*store
	space  *space
	append func(ops []replica.Op)
}

var _ kv.Store = shipped{}

// Update implements kv.Store.
func (s shipped) Update(fn func(kv.Batch)) (wait func() error, err error) {
	var ops []replica.Op
	fn(batch{store: s.store, space: s.space, note: func(op replica.Op) { ops = append(ops, op) }})
	inOrder(ops)
	if len(ops) > 0 {
		s.append(ops)
	}
	return onDisk, nil
}

// inOrder sorts changes by key where their order means nothing: an owner names each key once
// between two ranges, in no order.
func inOrder(ops []replica.Op) {
	for len(ops) > 0 {
		n := 0
		for n < len(ops) && ops[n].Kind != replica.DeleteRange {
			n++
		}
		slices.SortFunc(ops[:n], func(a, b replica.Op) int { return bytes.Compare(a.Key, b.Key) })
		ops = ops[min(n+1, len(ops)):]
	}
}

// copyStore is where the copies of other peers' records lie.
type copyStore struct{ *store }

var _ kv.Store = copyStore{}

// Update implements kv.Store.
func (s copyStore) Update(fn func(kv.Batch)) (wait func() error, err error) {
	fn(batch{store: s.store})
	return onDisk, nil
}
