// Package kv defines the interface to a store of records: ordered keys and atomic batches. A
// keyspace of storage implements it, as do in-memory stores of tests and simulations. It imports
// only the standard library, so that every package may use it.
package kv

import (
	"bytes"
	"slices"
)

// Record is one record of a store, such as one sent between peers.
type Record struct {
	// Key is the key in the keyspace, without the keyspace's byte.
	Key []byte
	// Value is the value.
	Value []byte
}

// Store is an ordered key-value store, such as a keyspace.
type Store interface {
	// Get returns a copy of a value, and whether there is one.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls fn in key order for the keys in [lo, hi) until it returns false; key and value are
	// valid during the call. A nil lo is the first key, a nil hi the end.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	// Update applies the batch that fn fills, atomically, before it returns; wait returns when it is
	// on disk, together with all earlier updates. Unless there is an error, wait is not nil.
	Update(fn func(Batch)) (wait func() error, err error)
}

// Batch collects changes, which apply in order. Keys and values are copied.
type Batch interface {
	// Set sets the value of a key.
	Set(key, value []byte)
	// Delete removes a key; a missing key is no error.
	Delete(key []byte)
	// DeleteRange removes the keys in [lo, hi).
	DeleteRange(lo, hi []byte)
}

// OnDisk is a wait function that returns at once.
func OnDisk() error { return nil }

// Count returns the number of records with keys in [lo, hi). It reads them all.
func Count(s Store, lo, hi []byte) (n int, err error) {
	err = s.Scan(lo, hi, func(_, _ []byte) bool {
		n++
		return true
	})
	return n, err
}

// Remove deletes the records with keys in [lo, hi), and returns their number; if there are none
// nothing is written. wait is never nil.
func Remove(s Store, lo, hi []byte) (n int, wait func() error, err error) {
	if n, err = Count(s, lo, hi); err != nil || n == 0 {
		return 0, OnDisk, err
	}
	if wait, err = s.Update(func(b Batch) { b.DeleteRange(lo, hi) }); err != nil {
		return 0, OnDisk, err
	}
	return n, wait, nil
}

// PrefixEnd returns the first key after all keys that begin with prefix, as the hi of a Scan. It is
// nil if there is none, as for a prefix of only 0xff.
func PrefixEnd(prefix []byte) []byte {
	i := len(prefix) - 1
	for i >= 0 && prefix[i] == 0xff {
		i--
	}
	if i < 0 {
		return nil
	}
	end := bytes.Clone(prefix[:i+1])
	end[i]++
	return slices.Clip(end)
}
