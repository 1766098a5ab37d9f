package node

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestFormat checks that a peer does not start with a data directory of another format, and that
// the error tells what to do.
func TestFormat(t *testing.T) {
	for format, want := range map[string]string{
		"1": "made by a version before 0.1: start with a new --data-dir, or export with that version",
		"3": "made by a newer version: use that version",
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
		if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %s: %v, want %q", format, err, want)
		}
	}
}
