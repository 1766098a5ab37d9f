// Package sizelimit limits the memory that decoding untrusted Protocol Buffers messages takes. An
// empty submessage of two bytes takes a hundred decoded; so [Count] scans the encoded message
// without allocating, estimates its decoded size, and rejects it above the limit.
//
// Guarantees:
//   - a decoded message takes at most Times its length plus the spare of its type
//     (TestFullOfEmptyParts and FuzzCount, in node/services/rpc);
//   - every valid message of our peers passes (TestFullMessagesPass, in node/services/rpc);
//   - counting does not allocate (TestCountGivesNoMemory).
package sizelimit

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Limits of every message.
const (
	// Times is the allowed ratio of decoded memory to encoded length, beyond the spare.
	Times = 4
	// Spare is the default allowance beyond that, see [Table].
	Spare = 64 << 10
	// MaxDepth is the maximum nesting of messages; ours reach 4. Types that nest deeper are rejected.
	MaxDepth = 8
	// Unknown fields (of later versions) may take UnknownBytes plus one part in UnknownShare of the
	// message.
	UnknownBytes = 4 << 10
	UnknownShare = 4
)

// ErrTooMuch reports a message that exceeds a limit of elements or memory.
var ErrTooMuch = errors.New("message exceeds a limit")

var errWire = errors.New("malformed message")

// Counted is a message that was counted but not decoded yet.
type Counted struct {
	// Memory is an upper estimate of the decoded size in bytes.
	Memory int

	raw  []byte
	into proto.Message
	plan *plan
	n    [maxCounted]int // elements of the top-level lists, by slot of the plan
}

// Unmarshal is proto.Unmarshal for untrusted input: it checks the limits before it allocates. The
// message must be empty.
func Unmarshal(raw []byte, m proto.Message) error {
	c, err := Count(raw, m)
	if err != nil {
		return err
	}
	return c.Unpack()
}

// Count counts the elements of an encoded message of m's type, and fails if a limit is exceeded. m
// must be empty.
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

// Unpack decodes the message. Its top-level lists are allocated at their final length.
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

// walk is the state of one count.
type walk struct {
	length, most    int
	memory, unknown int
	n               [maxCounted]int
}

// list is the state of a field in one message: elements seen, and capacity allocated for them.
type list struct{ n, room int }

// message counts one message, including itself; whole is true for the top level.
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
		if f.plain { // a scalar
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
			return fmt.Errorf("%w: %s: %d elements exceed %d", ErrTooMuch, f.name, l.n, f.most)
		}
	}
	switch {
	case f.packs && typ == protowire.BytesType && elements > 0: // each such value allocates a new list
		w.memory += class(l.n * f.element)
		l.room = l.n
	case f.packs || f.element > 0 && !whole: // top-level lists are allocated once, see Unpack
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

// ownLists counts the lists that Unpack allocates.
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
		return fmt.Errorf("%w: %s: %d bytes of unknown fields in a message of %d", ErrTooMuch, p.name, w.unknown, w.length)
	}
	w.memory += regrown*size + smallest // they are appended one by one
	return w.within(p.name, 0)
}

// within checks the memory against its limit.
func (w *walk) within(name string, n int) error {
	if w.memory <= w.most {
		return nil
	}
	return fmt.Errorf("%w: %s: with %d elements, %d bytes would decode to over %d", ErrTooMuch, name, n, w.length, w.most)
}

// grow adds the memory of growing a list as append does; the discarded array counts too.
func (l *list) grow(element int) int {
	if l.n <= l.room {
		return 0
	}
	if l.room < doubling {
		l.room *= 2
	} else {
		l.room += (l.room + 3*doubling) / 4
	}
	l.room = max(l.room, l.n)
	return class(l.room * element)
}
