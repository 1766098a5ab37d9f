package subnets

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
)

// KV is one value on its way between peers, or from a copy: a key and a value as Records has them.
type KV struct{ Key, Value []byte }

// Import merges values of other peers, or of copies, into this one's, as one batch; wait is never nil. A value that is malformed, or is not what its key
// says, or is ahead of its time, is refused with an error that names it, and nothing is taken. What moves is taken whatever there is: it was let in once, and has
// nowhere else to go.
func (s *Store) Import(now time.Time, kvs []KV) (wait func() error, err error) {
	var all ipmicra.Changes
	for _, kv := range kvs {
		k, c, err := Parse(kv.Value)
		if err != nil {
			return onDisk, fmt.Errorf("import of placement record %.60x: %w", kv.Key, err)
		}
		if !bytes.Equal(kv.Key, keyOf(k, c)) {
			return onDisk, fmt.Errorf("import of placement record %.60x: %w: of another key", kv.Key, ipmicra.ErrRecord)
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

// Remove forgets the records at positions in [lo, hi) once another peer has them on disk; a zero hi is the end of the circle.
func (s *Store) Remove(lo, hi Pos) (wait func() error, err error) {
	from, to := lo[:], hi[:]
	if hi == (Pos{}) {
		to = bytes.Repeat([]byte{math.MaxUint8}, len(Pos{})+1)
	}
	n, err := s.number(from, to)
	if err != nil || n == 0 {
		return onDisk, err
	}
	if wait, err = s.records.Update(func(b Batch) { b.DeleteRange(from, to) }); err != nil {
		return onDisk, fmt.Errorf("remove placement records: %w", err)
	}
	s.count -= n
	return wait, nil
}
