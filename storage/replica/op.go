package replica

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/apoidea/apoidea/storage/kv"
)

// Kind is the kind of an Op.
type Kind byte

// The kinds of changes.
const (
	// Set gives Key the value Value.
	Set Kind = iota + 1
	// Delete removes Key.
	Delete
	// DeleteRange removes the keys from Key up to, excluding, Value.
	DeleteRange

	kindEnd
)

// Op is one change to the records of a source. Keys begin with the byte of their keyspace.
type Op struct {
	Kind       Kind   // what is done to Key
	Key, Value []byte // Value is the new value, or the end of a range; see the kinds
}

// size is the approximate size of an op on the wire and in memory.
func (op *Op) size() int { return len(op.Key) + len(op.Value) + 8 }

// opBytes is the memory of an op besides its key and value.
const opBytes = 56

// before restricts an op to keys before end; false if nothing is left.
func (op Op) before(end []byte) (Op, bool) {
	if string(op.Key) >= string(end) {
		return Op{}, false
	}
	if op.Kind == DeleteRange && string(op.Value) > string(end) {
		op.Value = end
	}
	return op, true
}

// Limits of messages.
const (
	// MaxMessage is the maximum decoded size of a message, in bytes, with whole keys. One key with its
	// value must fit.
	MaxMessage = 64 << 20
	// MaxOps is the maximum number of changes in a message. A full message of a mebibyte has a tenth
	// of it: a change of three bytes takes fifty in memory.
	MaxOps = 1 << 20
	// MaxKey and MaxRanges limit a key in bytes, and the ranges of one comparison.
	MaxKey    = 4096
	MaxRanges = 256
)

var errFormat = errors.New("replica: malformed message")

// enc appends fields; dec reads them.
type enc []byte

func (e *enc) uint(n uint64)  { *e = binary.AppendUvarint(*e, n) }
func (e *enc) bytes(b []byte) { e.uint(uint64(len(b))); *e = append(*e, b...) }

// op appends a change; keys are encoded as the difference to the previous one.
func (e *enc) op(op *Op, last []byte) {
	*e = append(*e, byte(op.Kind))
	shared := 0
	for shared < min(len(last), len(op.Key)) && last[shared] == op.Key[shared] {
		shared++
	}
	e.uint(uint64(shared)) //nolint:gosec // a length
	e.bytes(op.Key[shared:])
	if op.Kind != Delete {
		e.bytes(op.Value)
	}
}

type dec struct {
	kv.Fields
	room []byte // buffer for keys
}

// roomSize is the number of bytes allocated for keys at a time.
const roomSize = 4096

func (d *dec) uint() uint64 { return d.Uint(math.MaxUint64) }

// key reads a key that shares a prefix with the last one.
func (d *dec) key(last []byte) []byte {
	shared := d.uint()
	if d.Bad || shared > uint64(len(last)) {
		d.Fail()
		return nil
	}
	tail := d.Bytes(MaxKey)
	size := int(shared) + len(tail) //nolint:gosec // not above the last key
	if size == 0 || size > MaxKey {
		d.Fail()
		return nil
	}
	if cap(d.room)-len(d.room) < size {
		d.room = make([]byte, 0, roomSize)
	}
	at := len(d.room)
	d.room = append(append(d.room, last[:shared]...), tail...)
	return d.room[at : at+size : at+size]
}

func (d *dec) op(last []byte) (op Op) {
	op.Kind = Kind(d.Byte())
	if op.Kind == 0 || op.Kind >= kindEnd {
		d.Fail()
		return op
	}
	op.Key = d.key(last)
	switch op.Kind {
	case Set:
		op.Value = d.Bytes(MaxMessage)
	case DeleteRange:
		if op.Value = d.Bytes(MaxKey); string(op.Value) <= string(op.Key) {
			d.Fail()
		}
	}
	return op
}
