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

// Import merges values of other peers, or of copies, into this one's, as one batch; wait is never
// nil. A value that is malformed, not what its key says, or ahead of its time is refused with an
// error that names it, and nothing is taken. No bound on the number of records holds here: what
// moves was let in once, and has nowhere else to go.
func (s *Store) Import(now time.Time, kvs []kv.Record) (wait func() error, err error) {
	var all ipmicra.Changes
	for _, rec := range kvs {
		k, c, err := Parse(rec.Value)
		if err != nil {
			return kv.OnDisk, fmt.Errorf("import of placement record %.60x: %w", rec.Key, err)
		}
		if !bytes.Equal(rec.Key, keyOf(k, c)) {
			return kv.OnDisk, fmt.Errorf("import of placement record %.60x: %w: of another key", rec.Key, ipmicra.ErrRecord)
		}
		all.Subnets, all.Indexes = append(all.Subnets, c.Subnets...), append(all.Indexes, c.Indexes...)
	}
	return s.merge(now, all, math.MaxInt)
}

// keyOf is the key of a value, nil if it is that of no key.
func keyOf(k ipmicra.Key, c ipmicra.Changes) []byte {
	if k.Kind == ipmicra.KindSubnet {
		return headOf(k)
	}
	if entries := c.Indexes[0].Entries; len(entries) == 1 {
		return entryKey(headOf(k), entries[0].Prefix)
	}
	return nil
}

// Remove forgets the records at positions in [lo, hi) once another peer has them on disk; a zero hi
// is the end of the circle.
func (s *Store) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	from, to := ring.Bounds(lo, hi)
	n, wait, err := kv.Remove(s.records, from, to)
	if err != nil {
		return wait, fmt.Errorf("remove placement records: %w", err)
	}
	s.count -= n
	return wait, nil
}
