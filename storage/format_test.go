package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/apoidea/apoidea/storage/kv"
)

// TestFormat checks that a database of another format is rejected and left as it is.
func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name, format string
		want         error
		text         string
	}{
		{"before formats", "", ErrOlder, "format 0"},
		{"earlier", "1", ErrOlder, "format 1"},
		{"this", "2", nil, ""},
		{"later", "3", ErrNewer, "format 3"},
		{"malformed", "two", ErrDamaged, "two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s, err := Open("db", Options{FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Keyspace(KeyspaceMeta).UpdateNoSync(func(b kv.Batch) { b.Set([]byte("identity"), []byte("x")) })
			wait, uerr := s.Keyspace(KeyspaceFormat).Update(func(b kv.Batch) {
				if b.Delete(formatKey); c.format != "" {
					b.Set(formatKey, []byte(c.format))
				}
			})
			if uerr == nil {
				uerr = wait()
			}
			if err := errors.Join(err, uerr, s.Close()); err != nil {
				t.Fatal(err)
			}
			for _, readOnly := range []bool{false, true, false} {
				s, err := Open("db", Options{FS: fs, ReadOnly: readOnly})
				if err == nil {
					err = s.Close()
				}
				if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("read-only %v: %v, want %v %q", readOnly, err, c.want, c.text)
				}
			}
		})
	}
}
