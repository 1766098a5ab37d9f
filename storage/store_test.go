package storage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/storagetest"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestSuiteInMemory(t *testing.T) {
	storagetest.Suite(t, func(t *testing.T) *storage.Store { return storagetest.New(t) })
}

func TestSuiteOnDisk(t *testing.T) {
	storagetest.Suite(t, func(t *testing.T) *storage.Store {
		s, err := storage.Open(t.TempDir(), storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

func TestOpenAgainFindsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		s, err := storage.Open(dir, storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		meta := s.Keyspace(storage.KeyspaceMeta)
		for j := range i {
			if ok, err := meta.Has([]byte{byte(j)}); !ok || err != nil {
				t.Fatalf("round %d: key %d: %v, %v", i, j, ok, err)
			}
		}
		if err := meta.UpdateNoSync(set(byte(i))); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefusesClearly(t *testing.T) {
	t.Run("directory in use", func(t *testing.T) {
		dir := t.TempDir()
		s, err := storage.Open(dir, storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = storage.Open(dir, storage.Options{})
		if !errors.Is(err, storage.ErrLocked) || !contains(err, dir) {
			t.Errorf("got %v, want ErrLocked that names %s", err, dir)
		}
	})
	t.Run("lock not writable", func(t *testing.T) {
		mem := vfs.NewMem()
		s, err := storage.Open("peer/store", storage.Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		lockless := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpLock {
				return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EIO}
			}
			return nil
		}))
		for _, readOnly := range []bool{false, true} {
			_, err := storage.Open("peer/store", storage.Options{FS: lockless, ReadOnly: readOnly})
			if !errors.Is(err, syscall.EIO) || errors.Is(err, storage.ErrLocked) {
				t.Errorf("read only %v: got %v, want EIO and no other process", readOnly, err)
			}
		}
	})
	t.Run("a file in the way", func(t *testing.T) {
		path := t.TempDir() + "/file"
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := storage.Open(path, storage.Options{}); !contains(err, path) {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	})
	t.Run("not writable", func(t *testing.T) {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate {
				return syscall.EACCES
			}
			return nil
		}))
		_, err := storage.Open("peer/store", storage.Options{FS: fs})
		if !errors.Is(err, syscall.EACCES) || !contains(err, "peer/store") {
			t.Errorf("got %v, want EACCES and the directory", err)
		}
	})
	t.Run("disk full while opening", func(t *testing.T) {
		// Each write of an opening store fails in its turn, until one comes that no opening makes.
		for n := int32(0); ; n++ {
			inject := errorfs.OnIndex(n)
			fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && inject.MaybeError(op) != nil {
					return syscall.ENOSPC
				}
				return nil
			}))
			s, err := storage.Open("store", storage.Options{FS: fs})
			if err == nil {
				if err := s.Close(); err != nil && !errors.Is(err, storage.ErrFailed) {
					t.Errorf("write %d: close: %v", n, err)
				}
				if n > 20 {
					return
				}
				continue
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("write %d: %v, want ENOSPC", n, err)
			}
			if n > 200 {
				t.Fatal("opening never succeeds")
			}
		}
	})
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func set(key byte) func(kv.Batch) {
	return func(b kv.Batch) { b.Set([]byte{key}, []byte("value")) }
}

func TestClosedStoreRefuses(t *testing.T) {
	s := storagetest.New(t)
	k := s.Keyspace(storage.KeyspaceMeta)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, getErr := k.Get([]byte("a"))
	_, updateErr := k.Update(set(1))
	for name, err := range map[string]error{
		"Get":          getErr,
		"Scan":         k.Scan(nil, nil, func(_, _ []byte) bool { return true }),
		"Update":       updateErr,
		"UpdateNoSync": k.UpdateNoSync(set(1)),
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestCrashKeepsWhatWaitAcknowledged cuts the power after each of many writes, some waited for and
// some not.
func TestCrashKeepsWhatWaitAcknowledged(t *testing.T) {
	disk := storagetest.NewDisk()
	hosts := disk.Open(t).Keyspace(storage.KeyspaceHosts)
	acknowledged := 0
	for i := range 40 {
		key := fmt.Appendf(nil, "%04d", i)
		wait, err := hosts.Update(func(b kv.Batch) {
			b.Set(append([]byte("a"), key...), make([]byte, 1000))
			b.Set(append([]byte("b"), key...), []byte("links"))
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			acknowledged = i + 1
		}
		after := disk.Crash().Open(t).Keyspace(storage.KeyspaceHosts)
		var a, b []string
		if err := after.Scan(nil, nil, func(key, _ []byte) bool {
			if key[0] == 'a' {
				a = append(a, string(key[1:]))
			} else {
				b = append(b, string(key[1:]))
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(a) < acknowledged || len(a) > i+1 {
			t.Fatalf("after %d writes, %d acknowledged, %d survived", i+1, acknowledged, len(a))
		}
		if !slices.Equal(a, b) {
			t.Fatalf("a batch survived by half: %v, %v", a, b)
		}
		if len(a) > 0 && a[len(a)-1] != fmt.Sprintf("%04d", len(a)-1) {
			t.Fatalf("what survived is not the beginning of what was written: %v", a)
		}
	}
}

// TestFullDisk fills the disk at different moments, so that the failure meets the log, its
// rotation, a flush or a compaction. The process lives, the writer hears of it, and what it was
// told is safe is safe.
func TestFullDisk(t *testing.T) {
	for name, match := range map[string]func(op errorfs.Op) bool{
		"log write":      func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") },
		"log sync":       func(op errorfs.Op) bool { return isSync(op.Kind) && strings.HasSuffix(op.Path, ".log") },
		"log creation":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".log") },
		"table creation": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") },
		"table write":    func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") },
		"manifest": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST")
		},
		"everything": func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	} {
		for _, after := range []int{0, 1, 7, 60} {
			t.Run(fmt.Sprintf("%s after %d", name, after), func(t *testing.T) { testFullDisk(t, match, after) })
		}
	}
}

// notReused makes a new file where an old one would be written to again: those do not pass by
// errorfs.
type notReused struct{ vfs.FS }

func (fs notReused) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.Remove(oldname); err != nil {
		return nil, err
	}
	return fs.Create(newname, category)
}

func testFullDisk(t *testing.T, match func(errorfs.Op) bool, after int) {
	mem := vfs.NewCrashableMem()
	var full atomic.Bool
	fs := notReused{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && match(op) {
			return syscall.ENOSPC
		}
		return nil
	}))}
	// A tiny memory table brings about every kind of write soon.
	s, err := storage.Open("store", storage.Options{FS: fs, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	hosts := s.Keyspace(storage.KeyspaceHosts)
	value := make([]byte, 4000)
	acknowledged := 0
	for i := 0; err == nil; i++ {
		if i == after {
			full.Store(true)
		}
		if i > 10_000 {
			t.Fatal("the failure never surfaces")
		}
		var wait func() error
		wait, err = hosts.Update(func(b kv.Batch) {
			b.Set(fmt.Appendf(nil, "%06d", i), value)
		})
		if err == nil {
			err = wait()
		}
		if err == nil {
			acknowledged = i + 1
		}
	}
	if !errors.Is(err, storage.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ErrFailed for ENOSPC", err)
	}
	<-s.Failed()
	if _, err := hosts.Update(set(1)); !errors.Is(err, storage.ErrFailed) {
		t.Errorf("the next Update: %v, want ErrFailed", err)
	}
	if _, ok, err := hosts.Get([]byte("000000")); acknowledged > 0 && (!ok || err != nil) {
		t.Errorf("a failed store no longer reads: %v, %v", ok, err)
	}
	if err := s.Close(); !errors.Is(err, storage.ErrFailed) {
		t.Errorf("Close: %v, want ErrFailed", err)
	}
	again, err := storage.Open("store", storage.Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	if err != nil {
		t.Fatalf("open after the failure: %v", err)
	}
	defer again.Close()
	for i := range acknowledged {
		if ok, err := again.Keyspace(storage.KeyspaceHosts).Has(fmt.Appendf(nil, "%06d", i)); !ok || err != nil {
			t.Fatalf("write %d of %d acknowledged is lost (%v)", i, acknowledged, err)
		}
	}
}

func isSync(k errorfs.OpKind) bool {
	return k == errorfs.OpFileSync || k == errorfs.OpFileSyncData || k == errorfs.OpFileSyncTo
}

// TestReadOnly: what is there is read, nothing is changed, and nobody else may write meanwhile.
func TestReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, err := storage.Open(dir, storage.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it was made")
	}
	put := func(s *storage.Store) error {
		wait, err := s.Keyspace('t').Update(func(b kv.Batch) {
			b.Set([]byte("k"), []byte("v"))
		})
		if err == nil {
			err = wait()
		}
		return err
	}
	s, err := storage.Open(dir, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(put(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := storage.Open(dir, storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if v, ok, err := r.Keyspace('t').Get([]byte("k")); err != nil || !ok || string(v) != "v" {
		t.Errorf("read %q, %v, %v", v, ok, err)
	}
	if _, err := storage.Open(dir, storage.Options{}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("another writer: %v", err)
	}
	if put(r) == nil {
		t.Error("it was written to")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenOnReadOnlyMedium checks that a database on a medium that takes no writes can be read, and
// that one which another process has open cannot.
func TestOpenOnReadOnlyMedium(t *testing.T) {
	mem := vfs.NewMem()
	s, err := storage.Open("db", storage.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keyspace(storage.KeyspaceMeta).UpdateNoSync(func(b kv.Batch) { b.Set([]byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open("db", storage.Options{FS: mem, ReadOnly: true}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("opened beside another: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []error{syscall.EROFS, &os.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}} {
		medium := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
				return reason
			}
			return nil
		}))
		if _, err := storage.Open("db", storage.Options{FS: medium}); err == nil || errors.Is(err, storage.ErrLocked) {
			t.Errorf("%v: opened to be written: %v", reason, err)
		}
		s, err = storage.Open("db", storage.Options{FS: medium, ReadOnly: true})
		if err != nil {
			t.Fatalf("%v: %v", reason, err)
		}
		if v, ok, err := s.Keyspace(storage.KeyspaceMeta).Get([]byte("k")); string(v) != "v" || !ok || err != nil {
			t.Errorf("%v: read %q, %v, %v", reason, v, ok, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%v: %v", reason, err)
		}
	}
}
