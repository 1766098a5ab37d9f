package storage

import (
	"encoding/binary"
	"testing"

	"github.com/apoidea/apoidea/storage/kv"
	"github.com/cockroachdb/pebble/v2"
)

func openDir(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func key(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// TestManyRanges: one batch looks at so many ranges and no more; what lies in the others is gone
// all the same.
func TestManyRanges(t *testing.T) {
	s := openDir(t)
	k := s.Keyspace('x')
	const ranges = fewRanges + 100
	update := func(fn func(b kv.Batch, i int)) (b kv.Batch) {
		t.Helper()
		if _, err := k.Update(func(batch kv.Batch) {
			b = batch
			for i := range ranges {
				fn(batch, i)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return b
	}
	update(func(b kv.Batch, i int) { b.Set(key(2*i), []byte("v")) })
	b := update(func(b kv.Batch, i int) { b.DeleteRange(key(2*i), key(2*i+1)) })
	if few := b.(*batch).few; few != fewRanges {
		t.Errorf("%d ranges were looked at, want %d", few, fewRanges)
	}
	if err := k.Scan(nil, nil, func(key, _ []byte) bool { t.Errorf("%x is still there", key); return false }); err != nil {
		t.Error(err)
	}
}

// TestSmallRanges: a range of few keys is deleted key by key, one into which the batch itself has
// put keys as a range.
func TestSmallRanges(t *testing.T) {
	s := openDir(t)
	k := s.Keyspace('x')
	put := func(batch kv.Batch, from, to int) {
		for i := from; i < to; i++ {
			batch.Set(key(i), []byte("v"))
		}
	}
	const keys = 3 * fewKeys
	wait, err := k.Update(func(b kv.Batch) { put(b, 0, keys) })
	if err != nil || wait() != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name            string
		first, lo, hi   int // the batch deletes from lo to hi; before, unless first is 0, it sets the keys from there to hi
		deletes, ranges int
	}{
		{"none", 0, keys, keys + 9, 0, 0},
		{"one", 0, 5, 6, 1, 0},
		{"few", 0, 0, fewKeys, fewKeys, 0},
		{"many", 0, 0, fewKeys + 1, 0, 1},
		{"some of its own", keys, keys, keys + 1, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			batch, err := k.collect(func(b kv.Batch) {
				if row.first > 0 {
					put(b, row.first, row.hi)
				}
				b.DeleteRange(key(row.lo), key(row.hi))
			})
			if err != nil {
				t.Fatal(err)
			}
			deletes, ranges := 0, 0
			for r := batch.Reader(); ; {
				kind, _, _, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				switch kind {
				case pebble.InternalKeyKindDelete:
					deletes++
				case pebble.InternalKeyKindRangeDelete:
					ranges++
				}
			}
			if deletes != row.deletes || ranges != row.ranges {
				t.Errorf("%d keys and %d ranges deleted, want %d and %d", deletes, ranges, row.deletes, row.ranges)
			}
			if err := batch.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
