package ondisk

import (
	"encoding/binary"
	"errors"

	"github.com/apoidea/apoidea/storage/kv"
)

// Format is the first byte of every value. Values of another format are rejected; the format of the
// data directory determines whether such values may exist, see package storage.
const Format = 2

// MaxTime bounds times in values: Unix milliseconds of the year 5138, so that sums with durations
// cannot overflow.
const MaxTime = 100_000_000_000_000

// ErrFormat is returned for a malformed value.
var ErrFormat = errors.New("record: malformed or unknown format")

// dec reads a value.
type dec struct{ kv.Fields }

// newDec checks the format byte.
func newDec(b []byte) *dec {
	d := &dec{kv.Fields{Rest: b}}
	if d.Byte() != Format {
		d.Fail()
	}
	return d
}

func (d *dec) u32() uint32        { return uint32(d.Uint(1<<32 - 1)) }
func (d *dec) u64() uint64        { return d.Uint(1<<64 - 1) }
func (d *dec) time() int64        { return int64(d.Uint(MaxTime)) }
func (d *dec) bool() bool         { return d.Uint(1) == 1 }
func (d *dec) str(m int) string   { return string(d.Bytes(m)) }
func (d *dec) bytes(m int) []byte { return append([]byte(nil), d.Bytes(m)...) } // a copy

func (d *dec) hash() uint64 {
	b := d.Take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// end returns ErrFormat unless the value was valid and read to its end.
func (d *dec) end() error {
	if !d.Whole() {
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
