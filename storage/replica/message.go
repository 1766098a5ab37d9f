package replica

import (
	"fmt"

	"github.com/apoidea/apoidea/storage/kv"
	"github.com/klauspost/compress/s2"
)

// digestSize is the length of the truncated SHA-256 of a range, in bytes.
const digestSize = 16

type digest [digestSize]byte

// span is a range of keys from the end of the previous one up to, excluding, hi, with the digest of
// its records; the very last has no hi and reaches to the end.
type span struct {
	hi  []byte
	sum digest
}

// message is sent from a source to a follower.
type message struct {
	stream uint64 // later streams have higher numbers
	n      uint64 // of the message in its stream, from 1
	forget bool   // the copy is no longer needed
	part   bool   // the entry continues in the next message
	ops    []Op
	packed []byte // encoded ops, if already known
	lo     []byte // start of the first span
	spans  []span
}

const (
	formatVersion = 3

	flagForget  = 1
	flagPart    = 2
	flagCompare = 4
	flagsEnd    = 8
)

// encode writes the follower's own fields first, then the packed changes, which are the same for
// all followers.
func (m *message) encode() []byte {
	if m.packed == nil {
		m.packed = pack(m.ops)
	}
	flags := byte(0)
	if m.forget {
		flags |= flagForget
	}
	if m.part {
		flags |= flagPart
	}
	if len(m.spans) > 0 {
		flags |= flagCompare
	}
	e := make(enc, 0, 32+len(m.spans)*64+len(m.packed))
	e = append(e, formatVersion, flags)
	e.uint(m.stream)
	e.uint(m.n)
	if len(m.spans) > 0 {
		e.bytes(m.lo)
		e.uint(uint64(len(m.spans)))
		for i := range m.spans {
			e.bytes(m.spans[i].hi)
			e = append(e, m.spans[i].sum[:]...)
		}
	}
	return append(e, m.packed...)
}

// pack encodes and compresses changes.
func pack(ops []Op) []byte {
	size := 16
	for i := range ops {
		size += ops[i].size()
	}
	e := make(enc, 0, size)
	e.uint(uint64(len(ops)))
	var last []byte
	for i := range ops {
		e.op(&ops[i], last)
		last = ops[i].Key
	}
	return s2.Encode(nil, e)
}

// decodeMessage decodes an untrusted message: it allocates at most MaxMessage, and checks keys,
// counts and order.
func decodeMessage(raw []byte) (*message, error) {
	if len(raw) == 0 || raw[0] != formatVersion {
		return nil, fmt.Errorf("%w: unsupported version", errFormat)
	}
	d := &dec{Fields: kv.Fields{Rest: raw[1:]}}
	m := new(message)
	flags := d.Byte()
	m.forget, m.part = flags&flagForget != 0, flags&flagPart != 0
	m.stream, m.n = d.uint(), d.uint()
	if flags&flagCompare != 0 {
		d.spans(m)
	}
	if d.Bad || flags >= flagsEnd || m.n == 0 {
		return nil, errFormat
	}
	var err error
	m.ops, err = unpack(d.Rest)
	return m, err
}

// unpack reverses pack.
func unpack(packed []byte) (ops []Op, err error) {
	if n, err := s2.DecodedLen(packed); err != nil || n > MaxMessage {
		return nil, fmt.Errorf("%w: length of %d", errFormat, n)
	}
	plain, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	d := &dec{Fields: kv.Fields{Rest: plain}}
	var last []byte
	n := d.uint()
	if n > MaxOps {
		return nil, fmt.Errorf("%w: %d changes", errFormat, n)
	}
	ops = make([]Op, 0, min(n, uint64(len(plain))))
	size := 0
	for ; n > 0 && !d.Bad; n-- {
		op := d.op(last)
		if size += op.size(); size > MaxMessage { // keys grow by their shared prefix
			return nil, fmt.Errorf("%w: changes exceed %d bytes", errFormat, MaxMessage)
		}
		ops = append(ops, op)
		last = op.Key
	}
	if !d.Whole() {
		return nil, errFormat
	}
	return ops, nil
}

// spans reads a comparison: bounds ascend, only the last span may be open.
func (d *dec) spans(m *message) {
	m.lo = d.Bytes(MaxKey)
	n := d.uint()
	if n == 0 || n > MaxRanges {
		d.Fail()
		return
	}
	from := m.lo
	for i := range n {
		s := span{hi: d.Bytes(MaxKey)}
		if len(d.Rest) < digestSize || len(s.hi) == 0 && i < n-1 || len(s.hi) > 0 && string(s.hi) <= string(from) {
			d.Fail()
			return
		}
		s.sum, d.Rest = digest(d.Rest[:digestSize]), d.Rest[digestSize:]
		m.spans = append(m.spans, s)
		from = s.hi
	}
}

// answer is the answer of a follower.
type answer struct {
	// lost: the stream is unknown, the source must begin another one.
	lost bool
	// differ has the indexes of the spans in which the copy differs.
	differ []int
}

func (a *answer) encode() []byte {
	var e enc
	if a.lost {
		e = append(e, 1)
	} else {
		e = append(e, 0)
	}
	e.uint(uint64(len(a.differ)))
	for _, i := range a.differ {
		e.uint(uint64(i)) //nolint:gosec // an index
	}
	return e
}

// decodeAnswer decodes the answer to a comparison of that many spans.
func decodeAnswer(raw []byte, spans int) (a answer, err error) {
	d := &dec{Fields: kv.Fields{Rest: raw}}
	status := d.Byte()
	a.lost = status == 1
	n := d.uint()
	if status > 1 || n > uint64(spans) { //nolint:gosec // not negative
		return a, errFormat
	}
	for range n {
		i := d.uint()
		if d.Bad || i >= uint64(spans) || len(a.differ) > 0 && int(i) <= a.differ[len(a.differ)-1] { //nolint:gosec // bounded
			return a, errFormat
		}
		a.differ = append(a.differ, int(i)) //nolint:gosec // bounded
	}
	if !d.Whole() {
		return a, errFormat
	}
	return a, nil
}
