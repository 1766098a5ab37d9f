package storage

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/apoidea/apoidea/storage/kv"
)

// TestFormat: a database of before formats, and one of an earlier format, are brought to this one,
// step by step and each step once; one of a later format is not opened, and stays as it is.
func TestFormat(t *testing.T) {
	fs := vfs.NewMem()
	write := func(format uint64) {
		s, err := Open("db", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		wait, err := s.Keyspace(KeyspaceFormat).Update(func(b kv.Batch) {
			if b.Delete(formatKey); format > 0 {
				b.Set(formatKey, strconv.AppendUint(nil, format, 10))
			}
		})
		if err == nil {
			err = wait()
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	steps := upgrades
	t.Cleanup(func() { upgrades = steps })
	var made []int
	for _, c := range []struct{ from, made int }{{0, 3}, {1, 2}, {3, 0}} {
		upgrades = steps[:1] // what write opens with
		write(min(uint64(c.from), 1))
		upgrades, made = nil, nil
		for i := range 3 {
			upgrades = append(upgrades, func(*Store) error { made = append(made, i); return nil })
		}
		if c.from == 3 {
			write(3)
			made = nil
		}
		if s, err := Open("db", Options{FS: fs, ReadOnly: true}); err != nil || len(made) > 0 || s.Close() != nil {
			t.Fatalf("format %d to be read: %v, steps %v", c.from, err, made)
		}
		s, err := Open("db", Options{FS: fs})
		if err != nil || s.Close() != nil || len(made) != c.made || c.made > 0 && made[0] != c.from {
			t.Fatalf("format %d: %v, steps %v", c.from, err, made)
		}
		made = nil
		if s, err := Open("db", Options{FS: fs}); err != nil || s.Close() != nil || len(made) > 0 {
			t.Fatalf("format %d, once more: %v, steps %v", c.from, err, made)
		}
		upgrades = steps
		for _, readOnly := range []bool{false, true} {
			if _, err := Open("db", Options{FS: fs, ReadOnly: readOnly}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "it has format 3, and this version reads up to 1") {
				t.Fatalf("format 3, opened by version 1: %v", err)
			}
		}
		fs = vfs.NewMem()
	}
}
