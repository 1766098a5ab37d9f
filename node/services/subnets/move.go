package subnets

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Import merges values of other peers or of replicas as one batch; wait is never nil. A value that
// is malformed, does not match its key, or has a time too far in the future, is rejected with an
// error that names it, and nothing is merged. The record limit does not apply: the records were
// admitted before, and must be stored.
func (s *Store) Import(now time.Time, kvs []kv.Record) (wait func() error, err error) {
	var all ipmicra.Changes
	for _, rec := range kvs {
		k, c, err := Parse(rec.Value)
		if err != nil {
			return kv.OnDisk, fmt.Errorf("importing placement record %.60x: %w", rec.Key, err)
		}
		if !bytes.Equal(rec.Key, keyOf(k, c)) {
			return kv.OnDisk, fmt.Errorf("importing placement record %.60x: %w: does not match its key", rec.Key, ipmicra.ErrRecord)
		}
		all.Subnets, all.Indexes = append(all.Subnets, c.Subnets...), append(all.Indexes, c.Indexes...)
	}
	return s.merge(now, all, math.MaxInt)
}

// keyOf returns the key of a value, nil for an invalid one.
func keyOf(k ipmicra.Key, c ipmicra.Changes) []byte {
	if k.Kind == ipmicra.KindSubnet {
		return headOf(k)
	}
	if entries := c.Indexes[0].Entries; len(entries) == 1 {
		return entryKey(headOf(k), entries[0].Prefix)
	}
	return nil
}

// Remove deletes the records at positions in [lo, hi) once another peer has them on disk; a zero hi
// is the end of the ring.
func (s *Store) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	from, to := ring.Bounds(lo, hi)
	n, wait, err := kv.Remove(s.records, from, to)
	if err != nil {
		return wait, fmt.Errorf("removing placement records: %w", err)
	}
	s.count -= n
	return wait, nil
}
