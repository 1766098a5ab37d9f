package node

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestFormat checks that a peer does not start with a data directory of another format, and that
// the error tells what to do.
func TestFormat(t *testing.T) {
	for format, want := range map[string]error{
		"1": storage.ErrOlder,
		"3": storage.ErrNewer,
	} {
		dir := t.TempDir()
		s, err := storage.Open(filepath.Join(dir, "db"), storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Keyspace(storage.KeyspaceFormat).UpdateNoSync(func(b kv.Batch) { b.Set([]byte("format"), []byte(format)) })
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig(dir, ProfileLab)
		cfg.AllowPrivate = true
		if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, want) {
			t.Errorf("format %s: %v, want %v", format, err, want)
		}
	}
}
