package dedup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Import merges records of other owners, or of replicas: of two records of a body the smaller wins,
// so the result does not depend on order or repetition. The error names a malformed record; those
// before it are imported. The import is one batch; wait is never nil.
func (c *Content) Import(kvs []kv.Record) (wait func() error, err error) {
	m := merge{content: c, news: make(map[Key]news)}
	for _, rec := range kvs {
		if err = m.takeRaw(rec); err != nil {
			err = fmt.Errorf("import of content record %.100x: %w", rec.Key, err)
			break
		}
	}
	wait, failed := m.write()
	return wait, errors.Join(err, failed)
}

// Remove deletes the records at positions in [lo, hi) after another owner has them on disk; a zero
// hi is the end of the circle.
func (c *Content) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	from, to := ring.Bounds(lo, hi)
	n, wait, err := kv.Remove(c.records, from, to)
	if err != nil {
		return wait, fmt.Errorf("remove content records: %w", err)
	}
	c.gone += n
	return wait, c.thin()
}

// thin rebuilds the filter when half of its keys are removed. Until then a removed key costs a read
// per lookup.
func (c *Content) thin() error {
	if c.gone < PaperURLs || 2*c.gone < c.known.len() {
		return nil
	}
	return c.fill()
}

// merge collects the records that a batch changes.
type merge struct {
	content *Content
	news    map[Key]news
}

type news struct {
	Record
	fresh bool // there was none
}

func (m *merge) takeRaw(rec kv.Record) error {
	if len(rec.Key) != len(Key{}) {
		return fmt.Errorf("%w: a key of %d bytes", ErrRecord, len(rec.Key))
	}
	r, err := ParseRecord(rec.Value)
	if err != nil {
		return err
	}
	return m.take(Key(rec.Key), r)
}

// take adds a record if it is smaller than the current one of the key.
func (m *merge) take(key Key, r Record) error {
	if err := r.check(); err != nil {
		return err
	}
	held, ok := m.news[key]
	if !ok {
		old, found, err := m.content.Lookup(key)
		if err != nil {
			return err
		}
		held, ok = news{old, !found}, found
	}
	if !ok || r.compare(held.Record) < 0 {
		m.news[key] = news{r, held.fresh}
	} else if _, changed := m.news[key]; !changed {
		m.content.unclaim(key)
	}
	return nil
}

// write applies the changes; they are durable once wait has returned.
func (m *merge) write() (wait func() error, err error) {
	if len(m.news) == 0 {
		return kv.OnDisk, nil
	}
	c := m.content
	wait, err = c.records.Update(func(b kv.Batch) {
		var value []byte
		for _, key := range slices.SortedFunc(maps.Keys(m.news), func(a, b Key) int { return bytes.Compare(a[:], b[:]) }) {
			value = m.news[key].append(value[:0])
			b.Set(key[:], value)
		}
	})
	if err != nil {
		return kv.OnDisk, fmt.Errorf("write content records: %w", err)
	}
	for key, n := range m.news {
		if n.fresh && c.known.test(key.hash()) {
			c.gone = max(0, c.gone-1) // it was here before
		}
		c.known.add(key.hash())
		c.unclaim(key)
	}
	return wait, nil
}
