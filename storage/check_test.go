package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/storage/kv"
)

// filled makes a database with n keys of several versions, some deleted, in tables and in a log,
// and returns what it holds.
func filled(t *testing.T, dir string, n int) map[string]string {
	t.Helper()
	want := make(map[string]string)
	for round := range 3 {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, uint64(round)))
		for range n / 50 {
			wait, err := s.Keyspace('k').Update(func(b kv.Batch) {
				for range 50 {
					key := fmt.Sprintf("key\x00%05d", random.IntN(n))
					if random.IntN(10) == 0 {
						b.Delete([]byte(key))
						delete(want, "k"+key)
						continue
					}
					value := fmt.Sprintf("%d %s", round, strings.Repeat(key, random.IntN(20)))
					b.Set([]byte(key), []byte(value))
					want["k"+key] = value
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
		if round == 1 {
			wait, err := s.Keyspace('k').Update(func(b kv.Batch) {
				b.DeleteRange([]byte("key\x0000100"), []byte("key\x0000200"))
			})
			if err != nil || wait() != nil {
				t.Fatal(err)
			}
			for i := 100; i < 200; i++ {
				delete(want, fmt.Sprintf("kkey\x00%05d", i))
			}
		}
		if round < 2 { // the last one stays in its log
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// copied copies a database.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return names
}

// TestCheck: a sound database passes, and whatever file is corrupt or missing is an ErrDamaged, of
// opening or of Check, in plain words.
func TestCheck(t *testing.T) {
	base := filepath.Join(t.TempDir(), "db")
	filled(t, base, 4000)
	if err := opened(t, base); err != nil {
		t.Fatalf("sound: %v", err)
	}
	overwrite := func(pattern string, at func(size int) int, n int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range files(t, dir, pattern) {
				raw, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				from := at(len(raw))
				copy(raw[from:], bytes.Repeat([]byte{0x5a}, min(n, len(raw)-from)))
				if err := os.WriteFile(name, raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	middle := func(size int) int { return size / 2 }
	remove := func(pattern string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range files(t, dir, pattern) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for share := 1; share < 18; share++ { // behind it lies the filter, which no read of the last level uses
		dir := copied(t, base)
		overwrite("*.sst", func(size int) int { return size * share / 20 }, 8)(t, dir)
		if err := opened(t, dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("tables overwritten at %d/20: %v", share, err)
		}
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a block of a table":   overwrite("*.sst", middle, 50),
		"a bit of a table":     overwrite("*.sst", middle, 1),
		"the index of a table": overwrite("*.sst", func(size int) int { return size - 300 }, 250),
		"the foot of a table":  overwrite("*.sst", func(size int) int { return size - 40 }, 40),
		"the tables":           remove("*.sst"),
		"the middle of a log":  overwrite("*.log", middle, 40),
		"the manifest":         overwrite("MANIFEST-*", func(int) int { return 0 }, 4000),
		"no manifest":          remove("MANIFEST-*"),
		"no markers":           remove("marker.*"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, base)
			harm(t, dir)
			if err := opened(t, dir); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "carrier") || strings.Contains(err.Error(), "‹") {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// opened opens a database to read and checks it.
func opened(t *testing.T, dir string) error {
	t.Helper()
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // of a corrupt one it fails
	return s.Check(t.Context())
}

// TestCheckEndsWithItsContext.
func TestCheckEndsWithItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	filled(t, dir, 500)
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("check: %v", err)
	}
}

// TestOrphans: records of which nothing names the MANIFEST are not taken for a new database, which
// would remove them.
func TestOrphans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	filled(t, dir, 500)
	for _, name := range files(t, dir, "marker.manifest.*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	files(t, dir, "*.sst")
}

// TestDamageWhileReading: who meets damage hears that it is damage, in plain words, and the store
// ends.
func TestDamageWhileReading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	filled(t, dir, 4000)
	for _, name := range files(t, dir, "*.sst") {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		copy(raw[len(raw)/3:], bytes.Repeat([]byte{0x5a}, 200))
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir, Options{})
	if err == nil {
		err = s.Keyspace('k').Scan(nil, nil, func(_, _ []byte) bool { return true })
		if err != nil {
			<-s.Failed()
			if !errors.Is(s.Err(), ErrDamaged) || strings.Contains(s.Err().Error(), "carrier") {
				t.Errorf("the store says %v", s.Err())
			}
		}
	}
	if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "carrier") {
		t.Errorf("reading: %v", err)
	}
}
