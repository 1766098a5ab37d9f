package model

import (
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// disk is an ordered store. What is written is on it at once: that an answer leaves before its
// batch is safe is for the tests of the stores and of the owner's loop to rule out, so a crash in
// between is the same as one before.
type disk struct{ records []record }

type record struct{ key, value string }

func (d *disk) at(key string) (int, bool) {
	return slices.BinarySearchFunc(d.records, key, func(r record, key string) int { return strings.Compare(r.key, key) })
}

func (d *disk) set(key, value string) {
	i, ok := d.at(key)
	if ok {
		d.records[i].value = value
	} else {
		d.records = slices.Insert(d.records, i, record{key, value})
	}
}

func (d *disk) deleteRange(lo, hi string) {
	i, _ := d.at(lo)
	j, _ := d.at(hi)
	if i < j {
		d.records = slices.Delete(d.records, i, j)
	}
}

func (d *disk) scan(lo, hi string, fn func(key, value []byte) bool) {
	i, _ := d.at(lo)
	for _, r := range slices.Clone(d.records[i:]) {
		if r.key >= hi || !fn([]byte(r.key), []byte(r.value)) {
			return
		}
	}
}

// space is one keyspace of a disk. Without ship its batches are the peer's own affair.
type space struct {
	disk   *disk
	prefix byte
	ship   *[][]replica.Op // the batches applied since it was emptied
}

func (s *space) key(key []byte) string { return string(s.prefix) + string(key) }

// Get implements kv.Store.
func (s *space) Get(key []byte) ([]byte, bool, error) {
	i, ok := s.disk.at(s.key(key))
	if !ok {
		return nil, false, nil
	}
	return []byte(s.disk.records[i].value), true, nil
}

// Scan implements kv.Store.
func (s *space) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := string(s.prefix + 1)
	if hi != nil {
		end = s.key(hi)
	}
	s.disk.scan(s.key(lo), end, func(key, value []byte) bool { return fn(key[1:], value) })
	return nil
}

func onDisk() error { return nil }

// batch writes through.
type batch struct {
	s   *space
	ops []replica.Op
}

// Set implements kv.Batch.
func (b *batch) Set(key, value []byte) {
	b.s.disk.set(b.s.key(key), string(value))
	b.note(replica.Op{Kind: replica.Set, Key: key, Value: append([]byte{}, value...)})
}

// Delete implements kv.Batch.
func (b *batch) Delete(key []byte) {
	b.s.disk.deleteRange(b.s.key(key), b.s.key(key)+"\x00")
	b.note(replica.Op{Kind: replica.Delete, Key: key})
}

// DeleteRange implements kv.Batch.
func (b *batch) DeleteRange(lo, hi []byte) {
	b.s.disk.deleteRange(b.s.key(lo), b.s.key(hi))
	b.note(replica.Op{Kind: replica.DeleteRange, Key: lo, Value: []byte(b.s.key(hi))})
}

// note keeps what replicas keep: the hosts' records.
func (b *batch) note(op replica.Op) {
	if b.s.ship == nil || op.Key[0] != 'h' {
		return
	}
	ok := true
	if op.Kind != replica.DeleteRange {
		op.Key, op.Value, ok = ondisk.Copied(op.Key, op.Value)
	}
	if op.Key = []byte(b.s.key(op.Key)); ok {
		b.ops = append(b.ops, op)
	}
}

// ownSpace is the store of an owner, whose batches are shipped.
type ownSpace struct{ *space }

// Update implements kv.Store.
func (s ownSpace) Update(fn func(kv.Batch)) (func() error, error) {
	b := &batch{s: s.space}
	fn(b)
	if len(b.ops) > 0 {
		*s.ship = append(*s.ship, b.ops)
	}
	return onDisk, nil
}

// copySpace is where copies lie.
type copySpace struct{ *space }

// Update implements kv.Store.
func (s copySpace) Update(fn func(kv.Batch)) (func() error, error) {
	fn(&batch{s: s.space})
	return onDisk, nil
}

const (
	hosts  = storage.KeyspaceHosts
	copied = storage.KeyspaceCopies
)
