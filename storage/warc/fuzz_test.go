package warc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzParseIndex: what can be read of an index is where records may lie, none over another, and the
// lines that were read are read again.
func FuzzParseIndex(f *testing.F) {
	archive := archiveOf(f, Gzip, page(1, 500), page(2, 0))
	index, err := Index(bytes.NewReader(archive), "a.warc.gz", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(index)
	f.Add(index[:len(index)-20])
	f.Add(indexOf(f, 6))
	f.Add([]byte(`example,a)/ 20260301123045 {"url":"http://a.example/","length":"9223372036854775807","offset":"1"}` + "\n"))
	f.Add([]byte(`example,a)/ 20260301123045 {"url":"http://a.example/","length":"7","offset":"9223372036854775807"}` + "\n"))
	f.Add([]byte(`example,a)/ 20260301123045 {"url":"http://a.example/","mime":"warc/revisit","digest":"-","length":"7","offset":"9","visit":"1","change":"not-modified","before":"sha256:00"}` + "\n"))
	f.Add([]byte("\n{}\n  {\n20260229000000\n20240229235959\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		lines, err := ParseIndex(bytes.NewReader(raw))
		if err != nil && !errors.Is(err, ErrFormat) {
			return // a line of mebibytes
		}
		if n := bytes.Count(raw, []byte("\n")) + 1; len(lines) > n {
			t.Errorf("%d lines of %d", len(lines), n)
		}
		for line := range strings.Lines(string(raw)) {
			var fast, slow lineObject
			if fast.scan(line) && (slow.unmarshal(line) != nil || fast != slow) {
				t.Fatalf("%q is %+v, by encoding/json %+v", line, fast, slow)
			}
		}
		end := int64(0)
		for _, e := range Extents(lines) {
			if e.Offset < end || e.Length <= 0 || e.Offset+e.Length < e.Offset {
				t.Fatalf("%d bytes at %d, behind a record that ends at %d", e.Length, e.Offset, end)
			}
			end = e.Offset + e.Length
		}
	})
}

// FuzzSift: of a file that is damaged in any way, records and losses come in the order in which
// they lie, and reading it ends.
func FuzzSift(f *testing.F) {
	for _, c := range []Compression{Gzip, Zstd} {
		archive := archiveOf(f, c, page(1, 500), page(2, 90))
		f.Add(archive, 0, []byte("x"))
		f.Add(archive, len(archive)/2, []byte(c.form().magic))
		f.Add(archive, len(archive)-5, []byte("WARC/1.1\r\n"))
	}
	f.Add([]byte("WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n"), 20, []byte{})
	f.Fuzz(func(t *testing.T, raw []byte, at int, damage []byte) {
		if at < 0 || at > len(raw) {
			return
		}
		raw = bytes.Clone(raw)
		copy(raw[at:], damage)
		open := func(offset int64) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(raw[min(offset, int64(len(raw))):])), nil
		}
		for _, c := range []Compression{Gzip, Zstd} { // the file may be called either
			last := int64(-1)
			inOrder := func(offset int64) {
				if offset < last || offset > int64(len(raw)) {
					t.Fatalf("at %d of %d, behind %d", offset, len(raw), last)
				}
				last = offset
			}
			err := Sift(open, "a"+c.Suffix(), nil, func(r *Record) error {
				inOrder(r.Offset)
				return r.Skip()
			}, func(l Loss) error {
				inOrder(l.Offset)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// archiveOf returns exchanges as they lie in a file.
func archiveOf(f *testing.F, c Compression, list ...*Exchange) []byte {
	f.Helper()
	var all []byte
	e := NewEncoder(c)
	for _, x := range list {
		m, err := e.Exchange(x)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, m.data...)
	}
	return all
}
