package ondisk

import (
	"encoding/binary"
	"errors"
)

// Format is the first byte of a value that is not a message; formatMessage of one that is. Another
// one is refused.
const Format = 1

// MaxTime bounds times in values: Unix milliseconds of the year 5138, so that sums with durations
// cannot wrap.
const MaxTime = 100_000_000_000_000

// ErrFormat says that a value is none that this version or an earlier one writes.
var ErrFormat = errors.New("record: malformed or of another format")

// dec reads a value. After the first thing that does not fit, bad stays true and everything reads
// as zero.
type dec struct {
	b      []byte
	bad    bool
	newer  byte // the format, where it is that of a later version
	fields bool // a message stands behind the values
}

// newDec checks the format byte.
func newDec(b []byte) *dec {
	switch {
	case len(b) > 0 && b[0] > formatFields:
		return &dec{bad: true, newer: b[0]}
	case len(b) == 0 || b[0] == formatMessage || b[0] == 0:
		return &dec{bad: true}
	}
	return &dec{b: b[1:], fields: b[0] == formatFields}
}

func (d *dec) fail() {
	d.b, d.bad = nil, true
}

func (d *dec) uint(limit uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > limit {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *dec) u32() uint32      { return uint32(d.uint(1<<32 - 1)) }
func (d *dec) u64() uint64      { return d.uint(1<<64 - 1) }
func (d *dec) time() int64      { return int64(d.uint(MaxTime)) }
func (d *dec) count() int64     { return int64(d.uint(1 << 62)) }
func (d *dec) size(m int) int   { return int(d.uint(uint64(m))) }
func (d *dec) bool() bool       { return d.uint(1) == 1 }
func (d *dec) str(m int) string { return string(d.lent(m)) }

func (d *dec) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// lent returns a part of the value with its length in front, at most m bytes; nil if empty.
func (d *dec) lent(m int) []byte {
	n := d.size(m)
	if n > len(d.b) {
		d.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// bytes is lent as a copy.
func (d *dec) bytes(m int) []byte { return append([]byte(nil), d.lent(m)...) }

func (d *dec) hash() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	h := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return h
}

// end says whether the value was read to its end and fitted.
func (d *dec) end() error {
	if d.newer > 0 {
		return newer(d.newer)
	}
	if d.bad || d.fields || len(d.b) > 0 {
		return ErrFormat
	}
	return nil
}

// enc appends a value.
type enc []byte

func newEnc(room int) enc { return append(make(enc, 0, room), Format) }

func (e *enc) u64(n uint64)   { *e = binary.AppendUvarint(*e, n) }
func (e *enc) int(n int64)    { *e = binary.AppendUvarint(*e, uint64(max(n, 0))) }
func (e *enc) byte(c byte)    { *e = append(*e, c) }
func (e *enc) hash(h uint64)  { *e = binary.BigEndian.AppendUint64(*e, h) }
func (e *enc) bytes(b []byte) { *e = append(binary.AppendUvarint(*e, uint64(len(b))), b...) }
func (e *enc) str(s string)   { *e = append(binary.AppendUvarint(*e, uint64(len(s))), s...) }
func (e *enc) bool(b bool) {
	if b {
		*e = append(*e, 1)
	} else {
		*e = append(*e, 0)
	}
}
