package warc

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// pages makes the bytes of a file with n pages; the body of each is its number and what extra says.
func pages(t *testing.T, c Compression, n int, extra func(i int) []byte) (name string, raw []byte) {
	t.Helper()
	dir := t.TempDir()
	w, err := Open(dir, Config{Compression: c})
	if err != nil {
		t.Fatal(err)
	}
	enc := NewEncoder(c)
	for i := range n {
		body := append(bytes.Repeat(fmt.Appendf(nil, "page %d ", i), 200), extra(i)...)
		m, err := enc.Exchange(&Exchange{
			URL: fmt.Sprintf("http://a.example/%d", i), Date: time.UnixMilli(1_700_000_000_000), Request: []byte("GET / HTTP/1.1\r\n\r\n"),
			ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: body, PayloadDigest: sha256.Sum256(body), Outlinks: []string{"http://b.example/"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	paths, err := Files(dir, false)
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if raw, err = os.ReadFile(paths[0]); err != nil {
		t.Fatal(err)
	}
	return paths[0], raw
}

func source(raw []byte) Source {
	return func(offset int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw[min(offset, int64(len(raw))):])), nil
	}
}

type place struct{ at, length int64 }

// sifted returns where the readable records lie, and what is lost.
func sifted(t *testing.T, name string, raw []byte, known []Extent) (whole []place, lost []Loss) {
	t.Helper()
	err := Sift(source(raw), name, known, func(rec *Record) error {
		if err := rec.Skip(); err != nil {
			return err
		}
		whole = append(whole, place{rec.Offset, rec.Length})
		return nil
	}, func(l Loss) error {
		lost = append(lost, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole, lost
}

func nothing(int) []byte { return nil }

// TestSift: wherever a file is overwritten or cut, every record that no byte of was touched is
// read, and what is not read is told of.
func TestSift(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		name, raw := pages(t, c, 12, nothing)
		all, lost := sifted(t, name, raw, nil)
		if len(all) != 1+3*12 || len(lost) > 0 {
			t.Fatalf("%s: %d records, lost %v", c, len(all), lost)
		}
		var known []Extent
		for i := 1; i < len(all); i += 3 {
			known = append(known, Extent{all[i].at, all[i].length})
		}
		for step := range 60 {
			from := len(raw) * step / 60
			for _, length := range []int{1, 40, 2000} {
				to := min(from+length, len(raw))
				bad := bytes.Clone(raw)
				for i := from; i < to; i++ {
					bad[i] ^= 0x55
				}
				for _, hints := range [][]Extent{nil, known} {
					got, lost := sifted(t, name, bad, hints)
					checkSifted(t, fmt.Sprintf("%s, bytes %d to %d of %d", c, from, to, len(raw)), all, got, lost, int64(from), int64(to))
				}
			}
			got, lost := sifted(t, name, raw[:from], nil)
			checkSifted(t, fmt.Sprintf("%s cut at %d", c, from), all, got, lost, int64(from), int64(len(raw)))
		}
	}
}

func checkSifted(t *testing.T, what string, all, got []place, lost []Loss, from, to int64) {
	t.Helper()
	for _, p := range all {
		touched := p.at < to && from < p.at+p.length
		if !touched && !slices.Contains(got, p) {
			t.Errorf("%s: the record at %d was not touched and is not read", what, p.at)
		}
	}
	for _, p := range got {
		if !slices.Contains(all, p) {
			t.Errorf("%s: a record at %d that was never written", what, p.at)
		}
	}
	if len(got) < len(all) && len(lost) == 0 && !slices.ContainsFunc(all, func(p place) bool { return p.at == from }) {
		t.Errorf("%s: %d of %d records and no loss", what, len(got), len(all))
	}
}

// TestSiftNested: an archive that was archived as a page is not taken for records of this file
// where the index tells them apart.
func TestSiftNested(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		_, inner := pages(t, c, 2, nothing)
		name, raw := pages(t, c, 5, func(i int) []byte {
			if i == 2 {
				return inner
			}
			return nil
		})
		all, _ := sifted(t, name, raw, nil)
		var known []Extent
		for i := 1; i < len(all); i += 3 {
			known = append(known, Extent{all[i].at, all[i].length})
		}
		raw[known[2].Offset+3] ^= 0xff // the head of the page that holds an archive
		raw[known[2].Offset+20] ^= 0xff
		got, lost := sifted(t, name, raw, known)
		if len(got) != len(all)-1 || len(lost) != 1 {
			t.Errorf("%s: %d of %d records, lost %v", c, len(got), len(all), lost)
		}
	}
}
