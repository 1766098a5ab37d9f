package kv

import "encoding/binary"

// Fields decodes a value field by field. From the first malformed field on it is Bad, and every
// field reads as zero.
type Fields struct {
	Rest []byte // the unread rest
	Bad  bool   // a field was malformed
}

// Fail marks the value as bad, as after an invalid field.
func (f *Fields) Fail() { f.Rest, f.Bad = nil, true }

// Whole reports whether the value was good and has been read to its end.
func (f *Fields) Whole() bool { return !f.Bad && len(f.Rest) == 0 }

// Byte reads one byte.
func (f *Fields) Byte() byte {
	if len(f.Rest) == 0 {
		f.Fail()
		return 0
	}
	c := f.Rest[0]
	f.Rest = f.Rest[1:]
	return c
}

// Uint reads a varint of at most most; see [binary.Uvarint].
func (f *Fields) Uint(most uint64) uint64 {
	n, size := binary.Uvarint(f.Rest)
	if size <= 0 || n > most {
		f.Fail()
		return 0
	}
	f.Rest = f.Rest[size:]
	return n
}

// Take returns the next n bytes without copying, nil if there are fewer.
func (f *Fields) Take(n int) []byte {
	if n > len(f.Rest) {
		f.Fail()
		return nil
	}
	b := f.Rest[:n:n]
	f.Rest = f.Rest[n:]
	return b
}

// Bytes returns a length-prefixed field of at most most bytes, without copying.
func (f *Fields) Bytes(most int) []byte { return f.Take(int(f.Uint(uint64(most)))) } //nolint:gosec // bounded

// Flag returns 1 for true, to encode.
func Flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
