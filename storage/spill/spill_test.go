package spill

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func open(t *testing.T, c Config) *Dir {
	t.Helper()
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := files(t, c.Path); n != 0 {
			t.Errorf("%d files left behind", n)
		}
	})
	return d
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func create(t *testing.T, d *Dir, p []byte) *File {
	t.Helper()
	f, err := d.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestComesBack: what was written in pieces is read back whole, as often as one likes, and takes no
// room afterwards.
func TestComesBack(t *testing.T) {
	d := open(t, Config{Path: filepath.Join(t.TempDir(), "data", "spill"), MaxBytes: 1 << 20})
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var want []byte
		f := create(t, d, nil)
		for range rnd.IntN(10) {
			piece := make([]byte, rnd.IntN(5000))
			for i := range piece {
				piece[i] = byte(rnd.Uint32())
			}
			if n, err := f.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, piece...)
		}
		for range 2 {
			if got, err := io.ReadAll(f.Reader()); err != nil || !bytes.Equal(got, want) || f.Size() != int64(len(want)) {
				t.Fatalf("%d bytes, size %d, want %d: %v", len(got), f.Size(), len(want), err)
			}
		}
		if s := d.Stats(); s.Files != 1 || s.Bytes != int64(len(want)) {
			t.Errorf("%+v with one file of %d bytes", s, len(want))
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if s := d.Stats(); s != (Stats{}) {
			t.Errorf("%+v with no file", s)
		}
	}
}

// TestBounds: the bound is on all files together, and a write beyond it leaves the file as it was.
func TestBounds(t *testing.T) {
	d := open(t, Config{Path: t.TempDir(), MaxBytes: 100})
	a, b := create(t, d, make([]byte, 60)), create(t, d, make([]byte, 40))
	if _, err := b.Write([]byte("x")); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if got, err := io.ReadAll(b.Reader()); err != nil || len(got) != 40 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte("x")); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestRoomIsAsked before a file is made and while it grows.
func TestRoomIsAsked(t *testing.T) {
	short, full := errors.New("disk is short"), false
	d := open(t, Config{Path: t.TempDir(), MaxBytes: 1 << 30, Room: func() error {
		if full {
			return short
		}
		return nil
	}})
	f := create(t, d, make([]byte, askEvery-1))
	full = true
	if _, err := d.Create(); !errors.Is(err, short) {
		t.Errorf("a new file: %v", err)
	}
	if _, err := f.Write([]byte("xy")); !errors.Is(err, short) || f.Size() != askEvery-1 {
		t.Errorf("a file that grows: %v, %d bytes", err, f.Size())
	}
}

// TestLeftBehind: what a killed process left goes at the next start, and nothing else does.
func TestLeftBehind(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"spill-123", "spill-456", "notes"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(Config{Path: path, MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "notes")); err != nil || files(t, path) != 1 {
		t.Errorf("%d files left, %v", files(t, path), err)
	}
}

// TestUnwritable: a directory that cannot be made is told, and tried again when it is needed.
func TestUnwritable(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(inTheWay, "spill")
	d, err := Open(Config{Path: path, MaxBytes: 100})
	if err == nil {
		t.Error("made in place of a file")
	}
	if _, err := d.Create(); err == nil {
		t.Error("a file where there is no directory")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	f := create(t, d, []byte("x"))
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), create(t, d, []byte("x")).Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestDamage: bytes that are not those written, or fewer, are never taken for them.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"overwritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("!"), 7)
			return errors.Join(err, f.Close())
		},
		"cut": func(path string) error { return os.Truncate(path, 50) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Config{Path: t.TempDir(), MaxBytes: 100})
			f := create(t, d, bytes.Repeat([]byte("x"), 100))
			if err := damage(f.file.Name()); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(f.Reader()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestClose removes the files of those who are not done, who get errors from then on.
func TestClose(t *testing.T) {
	path := t.TempDir()
	d := open(t, Config{Path: path, MaxBytes: 1 << 20})
	f := create(t, d, []byte("x"))
	if err := d.Close(); err != nil || files(t, path) != 0 {
		t.Fatalf("%v, %d files", err, files(t, path))
	}
	if _, err := d.Create(); !errors.Is(err, ErrClosed) {
		t.Errorf("a new file: %v", err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("a write: %v", err)
	}
	if _, err := io.ReadAll(f.Reader()); err == nil {
		t.Error("a read of what is gone")
	}
}

func TestManyGoroutines(t *testing.T) {
	d := open(t, Config{Path: t.TempDir(), MaxBytes: 1 << 20})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 50 {
				f := create(t, d, bytes.Repeat([]byte{byte(g)}, 1000))
				got, err := io.ReadAll(f.Reader())
				if err = errors.Join(err, f.Close()); err != nil || len(got) != 1000 || got[999] != byte(g) {
					t.Error(len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if s := d.Stats(); s != (Stats{}) {
		t.Errorf("%+v at the end", s)
	}
}

func BenchmarkThroughDisk(b *testing.B) {
	d, err := Open(Config{Path: b.TempDir(), MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	item := make([]byte, 1<<20)
	b.SetBytes(int64(len(item)))
	for b.Loop() {
		f, err := d.Create()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Write(item); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(f.Reader(), item); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}
