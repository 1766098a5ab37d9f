package replica

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/storage/kv"
)

// prefixSize is how much of the SHA-256 of a source's name begins the keys of its copy. Under the
// prefix alone lies the name.
const prefixSize = 16

func prefixOf(source string) []byte {
	h := sha256.Sum256([]byte(source))
	return h[:prefixSize:prefixSize]
}

// maxParts bounds what is held of entries of which not all has come, of all sources together, in
// bytes. Beyond it the one of which nothing has come for longest is given up: its source, if there
// still is one, makes the copy level anew.
const maxParts = 2 * MaxMessage

// Copies is the receiving side: it keeps a copy of each source that sends one. Not safe for
// concurrent use, but for Sources and Scan.
type Copies struct {
	store    kv.Store
	streams  map[string]*stream
	maxParts int
	parts    int    // held, in bytes
	messages uint64 // that brought parts
}

// stream is where the messages of a source stand. It ends with the process: the source then begins
// another one.
type stream struct {
	number uint64
	n      uint64
	parts  []Op // of an entry of which not all has come
	size   int
	last   uint64       // of Copies.messages that brought some
	wait   func() error // of the last message
}

// NewCopies returns the copies that lie in a store.
func NewCopies(store kv.Store) *Copies {
	return &Copies{store: store, streams: make(map[string]*stream), maxParts: maxParts}
}

// Handle takes a message of a source. The reply may leave when wait has returned nil. An error
// refuses a message that makes no sense.
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
	if m.n == st.n+1 { // else it came before, and the answer went lost
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

// Holds says whether there is a copy of a source; of one that cannot be read there is none.
func (c *Copies) Holds(source string) bool {
	_, ok, err := c.store.Get(prefixOf(source))
	return ok && err == nil
}

// open begins a stream; the source's name is kept with its copy.
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

// Keep adds records to a copy of this peer's own making; no source may have its name.
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

// Forget removes a copy of this peer's own making.
func (c *Copies) Forget(name string) error {
	_, err := c.forget(name)
	return err
}

// end forgets where a source's stream stands, with what has come of an entry.
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

// relieve gives up entries of which not all has come until they are within bounds again.
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
			return // what is held is of the last one, and bounded by itself
		}
		c.end(idle)
	}
}

// apply writes the changes of a message as one batch, or keeps them until the rest of the entry has
// come.
func (c *Copies) apply(source string, st *stream, m *message) (err error) {
	for i := range m.ops {
		c.hold(st, m.ops[i].size()+opBytes)
	}
	if st.size > MaxMessage {
		return fmt.Errorf("%w: an entry of more than %d bytes", errFormat, MaxMessage)
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

// compare names the spans of which this copy is another.
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

// Sources names the sources of which there are copies.
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

// Scan calls fn for the records of a source's copy with keys in [lo, hi), in their order and
// without the copy's prefix, until it returns false; key and value are lent. A nil lo is the first,
// a nil hi the end.
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

// Drop removes the records in [lo, hi) from a source's copy, because another peer has them in its
// own by now. Should the source still be at work, its stream breaks, and it makes the copy whole
// again.
func (c *Copies) Drop(source string, lo, hi []byte) (wait func() error, err error) {
	c.end(source)
	prefix := prefixOf(source)
	wait, err = c.store.Update(func(b kv.Batch) { b.DeleteRange(append(prefix, lower(lo)...), append(prefix, upper(hi)...)) })
	if err != nil {
		return nil, fmt.Errorf("copy of %x: %w", source, err)
	}
	return wait, nil
}
