package kv

import (
	"encoding/binary"
	"testing"
)

func TestFields(t *testing.T) {
	value := append([]byte{7}, binary.AppendUvarint(nil, 300)...)
	value = append(value, "\x03abcde"...)
	f := Fields{Rest: value}
	if b, n, name, rest := f.Byte(), f.Uint(300), string(f.Bytes(3)), string(f.Take(2)); b != 7 || n != 300 || name != "abc" || rest != "de" || !f.Whole() {
		t.Errorf("%d, %d, %q, %q, whole %v", b, n, name, rest, f.Whole())
	}
	if f = (Fields{Rest: []byte{0}}); len(f.Bytes(3)) != 0 || !f.Whole() {
		t.Error("a field of nothing is none")
	}
	for name, read := range map[string]func(f *Fields) bool{
		"a larger number":       func(f *Fields) bool { return f.Uint(299) == 0 },
		"a longer field":        func(f *Fields) bool { return len(f.Bytes(299)) == 0 },
		"a field cut short":     func(f *Fields) bool { return len(f.Bytes(300)) == 0 },
		"more than there is":    func(f *Fields) bool { return f.Take(3) == nil },
		"a number without end":  func(f *Fields) bool { f.Rest = []byte{0x80}; return f.Uint(1) == 0 },
		"a byte behind the end": func(f *Fields) bool { f.Take(2); return f.Byte() == 0 },
		"as the reader says":    func(f *Fields) bool { f.Fail(); return true },
	} {
		f := Fields{Rest: binary.AppendUvarint(nil, 300)}
		if !read(&f) || !f.Bad || f.Whole() || f.Byte() != 0 || f.Uint(9) != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
