package sim

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// store is an ordered store in memory. It is lost with its peer.
type store struct{ tree btree.Map[string, []byte] }

// Get returns a copy of a value.
func (s *store) Get(key []byte) (value []byte, ok bool, err error) {
	value, ok = s.tree.Get(string(key))
	return bytes.Clone(value), ok, nil
}

// Scan calls fn in key order for the keys in [lo, hi) until it returns false; key and value are
// valid during the call.
func (s *store) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := string(hi)
	s.tree.Ascend(string(lo), func(key string, value []byte) bool {
		return (hi == nil || key < end) && fn([]byte(key), value)
	})
	return nil
}

// batch applies its changes at once: a simulated process is never killed during one.
type batch struct{ store *store }

// Set implements kv.Batch.
func (b batch) Set(key, value []byte) {
	b.store.tree.Set(string(key), append([]byte{}, value...))
}

// Delete implements kv.Batch.
func (b batch) Delete(key []byte) {
	b.store.tree.Delete(string(key))
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
}

// The spaces of a peer.
var (
	bodySpace = records.ReplicatedOf(storage.KeyspaceContent)
	hostSpace = records.ReplicatedOf(storage.KeyspaceHosts)
)

func onDisk() error { return nil }

// shipped stores the records of a space; append gets the changes for the replicas, batch by batch.
type shipped struct {
	*store
	space  *records.Replicated
	append func(ops []replica.Op)
}

var _ kv.Store = shipped{}

// Update implements kv.Store.
func (s shipped) Update(fn func(kv.Batch)) (wait func() error, err error) {
	b := records.Noting{Batch: batch{s.store}, Space: s.space}
	fn(&b)
	inOrder(b.Ops)
	if len(b.Ops) > 0 {
		s.append(b.Ops)
	}
	return onDisk, nil
}

// inOrder sorts changes by key where their order does not matter: an owner writes each key once
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

// copyStore stores the replicas of other peers' records.
type copyStore struct{ *store }

var _ kv.Store = copyStore{}

// Update implements kv.Store.
func (s copyStore) Update(fn func(kv.Batch)) (wait func() error, err error) {
	fn(batch{s.store})
	return onDisk, nil
}
