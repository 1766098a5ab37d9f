package ondisk

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Cursor is a position in the iteration over all URLs; nil before the first.
type Cursor []byte

// Scanner is the part of a Store that a listing needs.
type Scanner interface {
	// Scan calls fn for the keys in [lo, hi) in order, until it returns false.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	// Get returns a value; it may be called within Scan.
	Get(key []byte) (value []byte, ok bool, err error)
}

const (
	// passedAtOnce bounds the records that one call of URLsIn skips, where a search for the next one
	// counts as searchPasses: most URLs may not be done.
	passedAtOnce = 1 << 14
	searchPasses = 16
)

// entriesBehind returns the position of the next entries behind a record of another kind: behind
// the host's other records, or those of the next host.
func entriesBehind(key []byte) []byte {
	if key[1+ring.PosSize] > KindEntry {
		return kv.PrefixEnd(key[:1+ring.PosSize])
	}
	return append(append([]byte(nil), key[:1+ring.PosSize]...), KindEntry)
}

// URLsIn lists URLs of a store that is read concurrently with its owner, or of a stopped peer.
func URLsIn(store Scanner, after Cursor, limit int, fn func(id job.ID, f *Final)) (Cursor, error) {
	next := []byte{SpaceHost}
	if after != nil {
		next = append(slices.Clone(after), 0)
	}
	last := slices.Clone(after)
	for n, passed := 0, 0; n < limit && next != nil; {
		var jump []byte
		end := true
		if passed += searchPasses; passed > passedAtOnce {
			return last, nil
		}
		if err := store.Scan(slices.Clone(next), []byte{SpaceHost + 1}, func(key, value []byte) bool {
			end = false
			last = append(last[:0], key...)
			passed++
			if key[1+ring.PosSize] != KindEntry {
				jump = entriesBehind(key)
				return false
			}
			next = append(append(next[:0], key...), 0)
			if e, err := DecodeEntry(value); err == nil && e.Done && len(key) >= JobPrefixLen {
				fn(JobIn(key), &e.Final)
				n++
			}
			return n < limit && passed < passedAtOnce
		}); err != nil {
			return nil, fmt.Errorf("listing URLs: %w", err)
		}
		switch {
		case jump != nil:
			next = jump
		case passed >= passedAtOnce:
			return last, nil
		case end || n < limit:
			return nil, nil
		}
	}
	if next == nil {
		return nil, nil
	}
	return next[:len(next)-1], nil
}
