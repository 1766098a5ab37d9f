package owner

import (
	"fmt"
	"strings"
)

// buffer gathers the writes of a step, and answers reads from them.
type buffer struct {
	store  Store
	writes map[string][]byte // nil: deleted
	ranges [][2][]byte       // deleted before all writes
	waits  []func() error
	err    error // the first of the store; nothing is done after it
}

func newBuffer(store Store) *buffer { return &buffer{store: store, writes: make(map[string][]byte)} }

func (b *buffer) set(key, value []byte) { b.writes[string(key)] = value }
func (b *buffer) delete(key []byte)     { b.writes[string(key)] = nil }

func (b *buffer) get(key []byte) (value []byte, ok bool) {
	if value, ok = b.writes[string(key)]; ok {
		return value, value != nil
	}
	if b.err != nil {
		return nil, false
	}
	value, ok, err := b.store.Get(key)
	if err != nil {
		b.fail(fmt.Errorf("owner: read: %w", err))
	}
	return value, ok && err == nil
}

func (b *buffer) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// flush applies what was gathered as one batch. It may only be called between operations, each of which is whole in one batch.
func (b *buffer) flush() {
	if len(b.writes)+len(b.ranges) == 0 || b.err != nil {
		return
	}
	wait, err := b.store.Update(func(batch Batch) {
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
		b.fail(fmt.Errorf("owner: write: %w", err))
		return
	}
	clear(b.writes)
	b.ranges = nil
	b.waits = append(b.waits, wait)
}

// scan reads the store alone: what was gathered must have been flushed.
func (b *buffer) scan(lo, hi []byte, fn func(key, value []byte) bool) {
	if b.err != nil {
		return
	}
	if err := b.store.Scan(lo, hi, fn); err != nil {
		b.fail(fmt.Errorf("owner: scan: %w", err))
	}
}

// keys calls fn for the keys with a prefix that store and buffer hold together, in no order.
func (b *buffer) keys(prefix []byte, fn func(key []byte) bool) {
	more := true
	b.scan(prefix, prefixEnd(prefix), func(key, _ []byte) bool {
		if _, changed := b.writes[string(key)]; !changed {
			more = fn(key)
		}
		return more
	})
	for key, value := range b.writes {
		if more && value != nil && strings.HasPrefix(key, string(prefix)) {
			more = fn([]byte(key))
		}
	}
}

// take returns a wait for everything flushed since the last call. The store keeps the order, so the last one stands for all before it.
func (b *buffer) take() func() error {
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

// deleteRange deletes the keys in [lo, hi) with the next flush. What was gathered must have been flushed.
func (b *buffer) deleteRange(lo, hi []byte) { b.ranges = append(b.ranges, [2][]byte{lo, hi}) }
