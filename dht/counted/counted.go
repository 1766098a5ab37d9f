// Package counted reads messages of strangers: what is in one is counted before any of it is
// unpacked. Unpacking gives memory for each part of a message, and an empty part of two bytes takes
// a hundred; so [Count] walks over the message as it came, gives no memory for any part, and
// refuses it for what would be too much. Like a ring key it is for everybody, as everybody reads
// strangers.
//
// What it promises:
//   - a message takes at most Times its length and the spare of its type (TestFullOfEmptyParts and
//     FuzzCount, in node/rpc);
//   - what honest peers send passes, however full it is (TestFullMessagesPass, in node/rpc);
//   - the count itself gives no memory (TestCountGivesNoMemory).
package counted

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Bounds of every message.
const (
	// Times its length is what a message may take of memory when it is unpacked, beside its spare.
	Times = 4
	// Spare is what it may take beyond that, where its type has no other, see [Table].
	Spare = 64 << 10
	// MaxDepth is how deep messages may lie in each other; ours reach 4. A type with deeper ones is
	// not read at all.
	MaxDepth = 8
	// Fields that are not known here, those of later versions, may take UnknownBytes, and one part
	// in UnknownShare of the message.
	UnknownBytes = 4 << 10
	UnknownShare = 4
)

// ErrTooMuch is in the error of a message that holds, or would take, more than it may.
var ErrTooMuch = errors.New("too much in a message")

var errWire = errors.New("malformed message")

// Counted is a message that was counted, and not unpacked yet.
type Counted struct {
	// Memory is an upper estimate of what it takes unpacked, in bytes.
	Memory int

	raw  []byte
	into proto.Message
	plan *plan
	n    [maxCounted]int // elements of the message's own lists, by the slots of the plan
}

// Unmarshal is proto.Unmarshal for what a stranger sent: it fails before it gives memory. The
// message must be empty.
func Unmarshal(raw []byte, m proto.Message) error {
	c, err := Count(raw, m)
	if err != nil {
		return err
	}
	return c.Unpack()
}

// Count counts what is in a message that is to be read into m, which is empty, and fails if it is
// too much.
func Count(raw []byte, m proto.Message) (Counted, error) {
	p, err := planOf(m)
	if err != nil {
		return Counted{}, err
	}
	w := walk{length: len(raw), most: Times*len(raw) + p.spare}
	if err := w.message(p, raw, true); err != nil {
		return Counted{}, err
	}
	return Counted{Memory: w.memory, raw: raw, into: m, plan: p, n: w.n}, nil
}

// Unpack reads the message. Its own lists are made as long as they were counted: they do not grow.
func (c *Counted) Unpack() error {
	v := reflect.ValueOf(c.into).Elem()
	for i := range c.plan.lists {
		l := &c.plan.lists[i]
		if n := c.n[l.slot]; n > 0 {
			v.Field(l.index).Set(reflect.MakeSlice(l.slice, 0, n))
		}
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(c.raw, c.into)
}

// walk is one count.
type walk struct {
	length, most    int
	memory, unknown int
	n               [maxCounted]int
}

// list is what was seen of a field in one message: how many elements, and for how many Go has made
// room by then.
type list struct{ n, room int }

// message counts one message, itself included; whole says that it is no part of another.
func (w *walk) message(p *plan, b []byte, whole bool) error {
	w.memory += p.size
	var lists [maxCounted]list
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return fmt.Errorf("%w: %s", errWire, p.name)
		}
		var value []byte
		var n int
		if typ == protowire.BytesType {
			value, n = protowire.ConsumeBytes(b[tag:])
		} else {
			n = protowire.ConsumeFieldValue(num, typ, b[tag:])
		}
		if n < 0 {
			return fmt.Errorf("%w: %s", errWire, p.name)
		}
		b = b[tag+n:]
		f := p.field(num)
		if f == nil || !f.takes(typ) {
			if err := w.notKnown(p, tag+n); err != nil {
				return err
			}
			continue
		}
		if f.plain { // a number
			continue
		}
		if err := w.value(f, &lists[f.slot], typ, value, whole); err != nil {
			return err
		}
	}
	if whole {
		return w.ownLists(p, &lists)
	}
	return nil
}

// value counts one value of a field; a packed one holds many elements.
func (w *walk) value(f *field, l *list, typ protowire.Type, value []byte, whole bool) error {
	elements := 1
	if f.packs && typ == protowire.BytesType {
		elements = f.packed(value)
	}
	if f.slot != 0 {
		if l.n += elements; l.n > f.most {
			return fmt.Errorf("%w: %s: %d elements, at most %d", ErrTooMuch, f.name, l.n, f.most)
		}
	}
	switch {
	case f.packs && typ == protowire.BytesType && elements > 0: // each such value is given a new list
		w.memory += class(l.n * f.element)
		l.room = l.n
	case f.packs || f.element > 0 && !whole: // the others of the whole are made at once, see Unpack
		w.memory += l.grow(f.element)
	}
	switch {
	case f.plan != nil:
		w.memory += f.each
		if err := w.message(f.plan, value, false); err != nil {
			return err
		}
	case f.holds:
		w.memory += f.each + class(len(value))
	default:
		w.memory += f.each
	}
	return w.within(f.name, l.n)
}

// ownLists counts the lists that Unpack makes.
func (w *walk) ownLists(p *plan, lists *[maxCounted]list) error {
	for i := range p.lists {
		l := &p.lists[i]
		n := lists[l.slot].n
		if w.n[l.slot] = n; n > 0 {
			w.memory += class(n*l.element) + sliceHeader
		}
		if err := w.within(l.name, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) notKnown(p *plan, size int) error {
	w.unknown += size
	if w.unknown > UnknownBytes+w.length/UnknownShare {
		return fmt.Errorf("%w: %s: %d bytes of fields that are not known here, in %d", ErrTooMuch, p.name, w.unknown, w.length)
	}
	w.memory += regrown*size + smallest // they are appended one by one
	return w.within(p.name, 0)
}

// within holds the memory against its bound.
func (w *walk) within(name string, n int) error {
	if w.memory <= w.most {
		return nil
	}
	return fmt.Errorf("%w: %s: with %d elements of it, %d bytes would take over %d of memory", ErrTooMuch, name, n, w.length, w.most)
}

// grow makes room for the elements as append does, and says what memory that takes; what was there
// before is garbage, and counts.
func (l *list) grow(element int) int {
	if l.n <= l.room {
		return 0
	}
	room := l.room
	switch {
	case l.n > 2*room:
		room = l.n
	case room < doubling:
		room *= 2
	default:
		for room < l.n {
			room += (room + 3*doubling) / 4
		}
	}
	size := class(room * element)
	if l.room = size / element; size > bare && size <= largeSizes {
		l.room = (size - smallStep) / element
	}
	return size
}
