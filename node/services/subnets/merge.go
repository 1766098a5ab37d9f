package subnets

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/storage/kv"
)

// merge collects the changes of a batch.
type merge struct {
	store   *Store
	subnets map[ipmicra.Key]*merging[ipmicra.Subnet]
	indexes map[ipmicra.Key]*merging[ipmicra.Index]
	sets    map[string][]byte // values by key; nil: to be deleted
	added   int               // new keys, less those to be deleted
}

// merging is a record before the merge, nil if there was none, and after it.
type merging[T any] struct{ old, now *T }

func (m *merge) subnet(record *ipmicra.Subnet) error {
	k := record.Key()
	at := m.subnets[k]
	if at == nil {
		old, err := m.store.subnet(k)
		if err != nil {
			return err
		}
		at = &merging[ipmicra.Subnet]{old: old, now: &ipmicra.Subnet{Prefix: k.Prefix}}
		if old != nil {
			if old.Prefix != k.Prefix {
				return fmt.Errorf("%w: %v is stored under the key of %v", ipmicra.ErrRecord, old.Prefix, k.Prefix)
			}
			at.now.Merge(old)
		}
		m.subnets[k] = at
	}
	at.now.Merge(record)
	return nil
}

func (m *merge) index(x *ipmicra.Index) error {
	at := m.indexes[x.Key]
	if at == nil {
		old, err := m.store.index(x.Key)
		if err != nil {
			return err
		}
		at = &merging[ipmicra.Index]{old: old, now: &ipmicra.Index{Key: x.Key, Entries: slices.Clone(old.Entries)}}
		m.indexes[x.Key] = at
	}
	at.now.Merge(x)
	return nil
}

// diff collects the changed values.
func (m *merge) diff() error {
	for k, at := range m.subnets {
		now, err := at.now.AppendBinary(nil)
		if err != nil {
			return err
		}
		if at.old == nil {
			m.added++
		} else if was, err := at.old.AppendBinary(nil); err != nil || bytes.Equal(was, now) {
			continue
		}
		m.sets[string(headOf(k))] = now
	}
	for k, at := range m.indexes {
		if err := m.diffIndex(headOf(k), at.old, at.now); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) diffIndex(head []byte, old, now *ipmicra.Index) error {
	for _, e := range now.Entries {
		was, ok := old.Find(e.Prefix)
		if ok && was == e {
			continue
		}
		value, err := (&ipmicra.Index{Key: now.Key, Entries: []ipmicra.Entry{e}}).AppendBinary(nil)
		if err != nil {
			return err
		}
		m.sets[string(entryKey(head, e.Prefix))] = value
		if !ok {
			m.added++
		}
	}
	for _, e := range old.Entries {
		if _, ok := now.Find(e.Prefix); !ok {
			m.sets[string(entryKey(head, e.Prefix))] = nil
			m.added--
		}
	}
	return nil
}

// write writes the changes; wait returns when they are durable.
func (m *merge) write() (wait func() error, err error) {
	if len(m.sets) == 0 {
		return kv.OnDisk, nil
	}
	wait, err = m.store.records.Update(func(b kv.Batch) {
		for _, key := range slices.Sorted(maps.Keys(m.sets)) {
			if value := m.sets[key]; value != nil {
				b.Set([]byte(key), value)
			} else {
				b.Delete([]byte(key))
			}
		}
	})
	if err != nil {
		return kv.OnDisk, fmt.Errorf("writing placement records: %w", err)
	}
	m.store.count += m.added
	return wait, nil
}
