package replica

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/storage/kv"
)

// prefixSize is the number of bytes of the SHA-256 of a source's name in the keys of its copy. The
// prefix alone is the key of the name.
const prefixSize = 16

func prefixOf(source string) []byte {
	h := sha256.Sum256([]byte(source))
	return h[:prefixSize:prefixSize]
}

// maxParts limits the memory of partly received entries of all sources, in bytes. Beyond it the one
// idle for longest is dropped: its source, if still alive, syncs the copy again.
const maxParts = 2 * MaxMessage

// Copies is the receiving side: it keeps a copy of each source that sends one. Only Sources and
// Scan are safe for concurrent use.
type Copies struct {
	store    kv.Store
	streams  map[string]*stream
	maxParts int
	parts    int    // size of parts, in bytes
	messages uint64 // number of messages with parts
}

// stream is the state of a source's messages. It is not stored: after a restart the source begins
// another one.
type stream struct {
	number uint64
	n      uint64
	parts  []Op // of an incomplete entry
	size   int
	last   uint64       // value of Copies.messages at its latest part
	wait   func() error // of the last message
}

// NewCopies returns the copies in a store.
func NewCopies(store kv.Store) *Copies {
	return &Copies{store: store, streams: make(map[string]*stream), maxParts: maxParts}
}

// Handle processes a message of a source. Send the reply after wait has returned nil. An error
// rejects a malformed message.
func (c *Copies) Handle(source string, raw []byte) (reply []byte, wait func() error, err error) {
	m, err := decodeMessage(raw)
	if err != nil {
		return nil, nil, err
	}
	st := c.streams[source]
	switch {
	case m.forget && (st == nil || m.stream > st.number):
		wait, err = c.forget(source)
		return (&answer{}).encode(), wait, err
	case m.n == 1 && (st == nil || m.stream > st.number):
		if st, err = c.open(source, m.stream); err != nil {
			return nil, nil, err
		}
	case st == nil || m.stream != st.number || m.n != st.n && m.n != st.n+1:
		return (&answer{lost: true}).encode(), kv.OnDisk, nil
	}
	if m.n == st.n+1 { // else it is a duplicate whose answer was lost
		st.n = m.n
		if err := c.apply(source, st, m); err != nil {
			c.end(source)
			return nil, nil, err
		}
	}
	differ, err := c.compare(source, m)
	if err != nil {
		return nil, nil, err
	}
	return (&answer{differ: differ}).encode(), st.wait, nil
}

// Holds reports whether there is a readable copy of a source.
func (c *Copies) Holds(source string) bool {
	_, ok, err := c.store.Get(prefixOf(source))
	return ok && err == nil
}

// open begins a stream; the source's name is stored with its copy.
func (c *Copies) open(source string, number uint64) (*stream, error) {
	if _, ok, err := c.store.Get(prefixOf(source)); err != nil {
		return nil, fmt.Errorf("copy of %x: %w", source, err)
	} else if !ok {
		if _, err := c.store.Update(func(b kv.Batch) { b.Set(prefixOf(source), []byte(source)) }); err != nil {
			return nil, fmt.Errorf("copy of %x: %w", source, err)
		}
	}
	c.end(source)
	st := &stream{number: number, wait: kv.OnDisk}
	c.streams[source] = st
	return st, nil
}

// Keep adds records to a local copy that this peer makes itself; no source may have its name.
func (c *Copies) Keep(name string, each func(set func(key, value []byte))) error {
	prefix := prefixOf(name)
	_, err := c.store.Update(func(b kv.Batch) {
		b.Set(prefix, []byte(name))
		each(func(key, value []byte) { b.Set(append(prefix, key...), value) })
	})
	if err != nil {
		return fmt.Errorf("copy of %x: %w", name, err)
	}
	return nil
}

// Forget removes a local copy.
func (c *Copies) Forget(name string) error {
	_, err := c.forget(name)
	return err
}

// end drops the state of a source's stream, including a partial entry.
func (c *Copies) end(source string) {
	if st := c.streams[source]; st != nil {
		c.hold(st, -st.size)
		delete(c.streams, source)
	}
}

func (c *Copies) hold(st *stream, more int) {
	st.size += more
	c.parts += more
}

// relieve drops incomplete entries until the limit holds.
func (c *Copies) relieve() {
	for c.parts > c.maxParts {
		var idle string
		least := c.messages // of the stream that was just written to
		for source, st := range c.streams {
			if st.size > 0 && st.last < least {
				idle, least = source, st.last
			}
		}
		if idle == "" {
			return // only the last one is left, which has its own limit
		}
		c.end(idle)
	}
}

// apply writes the changes of a message as one batch, or keeps them until the entry is complete.
func (c *Copies) apply(source string, st *stream, m *message) (err error) {
	for i := range m.ops {
		c.hold(st, m.ops[i].size()+opBytes)
	}
	if st.size > MaxMessage {
		return fmt.Errorf("%w: entry exceeds %d bytes", errFormat, MaxMessage)
	}
	st.parts = append(st.parts, m.ops...)
	if m.part {
		st.wait = kv.OnDisk
		c.messages++
		st.last = c.messages
		c.relieve()
		return nil
	}
	ops := st.parts
	st.parts = nil
	c.hold(st, -st.size)
	if len(ops) == 0 {
		st.wait = kv.OnDisk
		return nil
	}
	prefix := prefixOf(source)
	var room, end []byte
	under := func(room *[]byte, key []byte) []byte { // keys are copied into the batch
		*room = append(append((*room)[:0], prefix...), key...)
		return *room
	}
	st.wait, err = c.store.Update(func(b kv.Batch) {
		for i := range ops {
			switch op := &ops[i]; op.Kind {
			case Set:
				b.Set(under(&room, op.Key), op.Value)
			case Delete:
				b.Delete(under(&room, op.Key))
			case DeleteRange:
				b.DeleteRange(under(&room, op.Key), under(&end, op.Value))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("copy of %x: %w", source, err)
	}
	return nil
}

// compare returns the spans in which this copy differs.
func (c *Copies) compare(source string, m *message) (differ []int, err error) {
	lo := lower(m.lo)
	for i := range m.spans {
		hi := upper(m.spans[i].hi)
		var failed error
		got := sum(func(fn func(key, value []byte)) {
			failed = c.Scan(source, lo, hi, func(key, value []byte) bool {
				fn(key, value)
				return true
			})
		})
		if failed != nil {
			return nil, failed
		}
		if got != m.spans[i].sum {
			differ = append(differ, i)
		}
		lo = hi
	}
	return differ, nil
}

func (c *Copies) forget(source string) (wait func() error, err error) {
	c.end(source)
	prefix := prefixOf(source)
	return c.store.Update(func(b kv.Batch) { b.DeleteRange(prefix, append(prefix, 0xff)) })
}

// Sources returns the names of the sources with copies.
func (c *Copies) Sources() (names []string, err error) {
	var lo []byte
	for {
		name := ""
		var prefix []byte
		err := c.store.Scan(lo, nil, func(key, value []byte) bool {
			if len(key) == prefixSize {
				prefix, name = slices.Clone(key), string(value)
			} else if len(key) > prefixSize {
				prefix = slices.Clone(key[:prefixSize])
			}
			return false
		})
		if err != nil {
			return nil, fmt.Errorf("copies: %w", err)
		}
		if prefix == nil {
			return names, nil
		}
		if name != "" {
			names = append(names, name)
		}
		lo = append(prefix, 0xff)
	}
}

// Scan calls fn for the records of a source's copy with keys in [lo, hi), in order and without the
// copy's prefix, until it returns false; key and value are valid during the call. A nil lo is the
// first, a nil hi the end.
func (c *Copies) Scan(source string, lo, hi []byte, fn func(key, value []byte) bool) error {
	prefix := prefixOf(source)
	err := c.store.Scan(append(prefix, lower(lo)...), append(prefix, upper(hi)...), func(key, value []byte) bool {
		return fn(key[prefixSize:], value)
	})
	if err != nil {
		return fmt.Errorf("copy of %x: %w", source, err)
	}
	return nil
}

// Drop removes the records in [lo, hi) from a source's copy, after another peer has imported them.
// If the source is still active, its stream breaks, and it syncs the copy again.
func (c *Copies) Drop(source string, lo, hi []byte) (wait func() error, err error) {
	c.end(source)
	prefix := prefixOf(source)
	wait, err = c.store.Update(func(b kv.Batch) { b.DeleteRange(append(prefix, lower(lo)...), append(prefix, upper(hi)...)) })
	if err != nil {
		return nil, fmt.Errorf("copy of %x: %w", source, err)
	}
	return wait, nil
}
