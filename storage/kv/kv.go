// Package kv is what whoever keeps records asks of a disk: ordered keys, whole batches. A keyspace
// of storage is such a store; so are the stores in memory of tests and of the laboratory. It rests
// on the standard library alone, so that every room may use it.
package kv

import (
	"bytes"
	"slices"
)

// Record is one record as a store has it, such as one on its way between peers.
type Record struct {
	// Key is that of the keyspace, without the byte of the keyspace itself.
	Key []byte
	// Value is what lies there.
	Value []byte
}

// Store is a keyspace.
type Store interface {
	// Get returns a copy of a value, and whether there is one.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls fn in key order for the keys in [lo, hi) until it returns false; key and value are
	// lent for the call. A nil lo is the first key, a nil hi the end.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	// Update applies what fn puts into the batch, all or nothing, before it returns; wait returns
	// when it is on disk. What an earlier Update wrote is on disk no later. Unless there is an
	// error, wait is not nil.
	Update(fn func(Batch)) (wait func() error, err error)
}

// Batch gathers changes, which apply in their order. Keys and values are copied.
type Batch interface {
	// Set gives a key a value.
	Set(key, value []byte)
	// Delete removes a key; that it is not there is no error.
	Delete(key []byte)
	// DeleteRange removes the keys in [lo, hi).
	DeleteRange(lo, hi []byte)
}

// OnDisk is the wait for nothing.
func OnDisk() error { return nil }

// Count returns how many records a store has with keys in [lo, hi). It reads them all.
func Count(s Store, lo, hi []byte) (n int, err error) {
	err = s.Scan(lo, hi, func(_, _ []byte) bool {
		n++
		return true
	})
	return n, err
}

// Remove removes the records with keys in [lo, hi), and returns how many there were; where there
// are none nothing is written. Wait is never nil.
func Remove(s Store, lo, hi []byte) (n int, wait func() error, err error) {
	if n, err = Count(s, lo, hi); err != nil || n == 0 {
		return 0, OnDisk, err
	}
	if wait, err = s.Update(func(b Batch) { b.DeleteRange(lo, hi) }); err != nil {
		return 0, OnDisk, err
	}
	return n, wait, nil
}

// PrefixEnd returns the first key after all keys that begin with prefix: the hi of a Scan over
// them. It is nil when there is none, as of a prefix of only 0xff.
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
