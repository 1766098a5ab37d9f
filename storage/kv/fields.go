package kv

import "encoding/binary"

// Fields reads a value that was written field by field. From the first that is none of the kind
// asked for on it is Bad, and every field reads as zero.
type Fields struct {
	Rest []byte // what is still to be read
	Bad  bool   // a field was none
}

// Fail makes the value a bad one, as by a field that makes no sense.
func (f *Fields) Fail() { f.Rest, f.Bad = nil, true }

// Whole says whether the value was good and has been read to its end.
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

// Uint reads a number up to most, of as many bytes as it needs; see [binary.Uvarint].
func (f *Fields) Uint(most uint64) uint64 {
	n, size := binary.Uvarint(f.Rest)
	if size <= 0 || n > most {
		f.Fail()
		return 0
	}
	f.Rest = f.Rest[size:]
	return n
}

// Take lends the next n bytes, nil if there are fewer.
func (f *Fields) Take(n int) []byte {
	if n > len(f.Rest) {
		f.Fail()
		return nil
	}
	b := f.Rest[:n:n]
	f.Rest = f.Rest[n:]
	return b
}

// Bytes lends a field with its length before it, of at most this many bytes.
func (f *Fields) Bytes(most int) []byte { return f.Take(int(f.Uint(uint64(most)))) } //nolint:gosec // bounded
