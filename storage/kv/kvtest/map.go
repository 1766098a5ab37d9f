// Package kvtest implements a kv.Store in memory for tests.
package kvtest

import (
	"bytes"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/storage/kv"
)

// Map is a [kv.Store], and the batch of its updates. Writes are visible at once. It is not safe for
// concurrent use.
type Map map[string][]byte

var (
	_ kv.Store = Map(nil)
	_ kv.Batch = Map(nil)
)

// Get implements kv.Store.
func (m Map) Get(key []byte) (value []byte, ok bool, err error) {
	value, ok = m[string(key)]
	return bytes.Clone(value), ok, nil
}

// Scan implements kv.Store.
func (m Map) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if within(key, lo, hi) && !fn([]byte(key), m[key]) {
			break
		}
	}
	return nil
}

// Update implements kv.Store.
func (m Map) Update(fn func(kv.Batch)) (wait func() error, err error) {
	fn(m)
	return kv.OnDisk, nil
}

// Set implements kv.Batch.
func (m Map) Set(key, value []byte) { m[string(key)] = append([]byte{}, value...) }

// Delete implements kv.Batch.
func (m Map) Delete(key []byte) { delete(m, string(key)) }

// DeleteRange implements kv.Batch.
func (m Map) DeleteRange(lo, hi []byte) {
	maps.DeleteFunc(m, func(key string, _ []byte) bool { return within(key, lo, hi) })
}

func within(key string, lo, hi []byte) bool {
	return key >= string(lo) && (hi == nil || key < string(hi))
}
