package spill

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestOrderIsKeptAcrossTheFile(t *testing.T) {
	dir := t.TempDir()
	q := New(dir, 1000, 1<<20)
	rnd := rand.New(rand.NewPCG(3, 4))
	pushed, popped, spilled := uint32(0), uint32(0), false
	for range 5000 {
		// Runs of pushes and of pops, so that the queue goes through all of empty, in memory, and on disk.
		for range rnd.IntN(20) {
			item := append(binary.BigEndian.AppendUint32(nil, pushed), make([]byte, rnd.IntN(200))...)
			if err := q.Push(item); err != nil {
				t.Fatal(err)
			}
			pushed++
		}
		s := q.Stats()
		if s.Items != int(pushed-popped) || s.MemoryBytes > 1000 {
			t.Fatalf("%+v with %d pushed and %d popped", s, pushed, popped)
		}
		spilled = spilled || s.DiskBytes > 0
		for range min(rnd.IntN(22), int(pushed-popped)) {
			item, err := q.Pop(t.Context())
			if err != nil || binary.BigEndian.Uint32(item) != popped {
				t.Fatalf("popped %x, %v; want item %d", item[:4], err, popped)
			}
			popped++
		}
		if popped == pushed && files(t, dir) != 0 {
			t.Fatal("the file stays when the queue is empty")
		}
	}
	if !spilled || popped == 0 {
		t.Fatal("the test never reached the disk")
	}
	if err := q.Close(); err != nil || files(t, dir) != 0 {
		t.Errorf("close: %v, %d files left", err, files(t, dir))
	}
}

func TestBounds(t *testing.T) {
	for _, row := range []struct {
		name      string
		mem, disk int64
		sizes     []int
		want      []error
	}{
		{"memory only", 10, 0, []int{6, 4, 1}, []error{nil, nil, ErrFull}},
		{"disk too", 10, 20, []int{10, 6, 6, 6}, []error{nil, nil, nil, ErrFull}},
		{"too large for memory", 10, 30, []int{11, 1}, []error{nil, nil}},
		{"too large for all", 10, 30, []int{40}, []error{ErrFull}},
		{"empty items", 0, 0, []int{0}, []error{nil}},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := New(t.TempDir(), row.mem, row.disk)
			defer q.Close()
			for i, size := range row.sizes {
				if err := q.Push(bytes.Repeat([]byte{byte(i)}, size)); !errors.Is(err, row.want[i]) {
					t.Errorf("item %d of %d bytes: got %v, want %v", i, size, err, row.want[i])
				}
			}
		})
	}
}

// TestFileIsReused keeps a queue from running empty for long enough to go around its file many times.
func TestFileIsReused(t *testing.T) {
	dir := t.TempDir()
	q := New(dir, 0, 1000)
	defer q.Close()
	item := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%04d", i), 1+i%40) }
	for i := range 2000 {
		if err := q.Push(item(i)); err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
		if i < 3 {
			continue
		}
		if got, err := q.Pop(t.Context()); err != nil || !bytes.Equal(got, item(i-3)) {
			t.Fatalf("pop %d: %.20q, %v", i-3, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Size() > 1000 {
		t.Errorf("a file of %d bytes, %v; bound is 1000", info.Size(), err)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	q := New(t.TempDir()+"/missing", 0, 100)
	defer q.Close()
	if err := q.Push([]byte("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the error of the disk", err)
	}
	if s := q.Stats(); s.Items != 0 {
		t.Errorf("a refused item counts: %+v", s)
	}
}

func TestPopWaits(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		q := New(dir, 10, 0)
		go func() {
			time.Sleep(time.Minute)
			if err := q.Push([]byte("late")); err != nil {
				t.Error(err)
			}
		}()
		begin := time.Now()
		if item, err := q.Pop(t.Context()); string(item) != "late" || err != nil || time.Since(begin) != time.Minute {
			t.Errorf("got %q, %v after %v", item, err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Pop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := q.Pop(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := q.Push(nil); !errors.Is(err, ErrClosed) {
			t.Errorf("push after close: %v", err)
		}
	})
}

func TestManyGoroutines(t *testing.T) {
	const pushers, poppers, each = 4, 3, 500
	q := New(t.TempDir(), 2000, 1<<20)
	defer q.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var seen sync.Map
	var left atomic.Int64
	left.Store(pushers * each)
	var wg sync.WaitGroup
	for p := range pushers {
		wg.Go(func() {
			for i := range each {
				for q.Push(fmt.Appendf(nil, "%d/%d", p, i)) != nil {
					t.Error("push refused")
				}
			}
		})
	}
	for range poppers {
		wg.Go(func() {
			for {
				item, err := q.Pop(ctx)
				if err != nil {
					return
				}
				if _, twice := seen.LoadOrStore(string(item), true); twice {
					t.Errorf("%s popped twice", item)
				}
				if left.Add(-1) == 0 {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if n := left.Load(); n != 0 {
		t.Errorf("%d items never came out", n)
	}
}

func BenchmarkThroughDisk(b *testing.B) {
	q := New(b.TempDir(), 0, 1<<30)
	defer q.Close()
	item := make([]byte, 38_000)
	b.SetBytes(int64(len(item)))
	for b.Loop() {
		if err := q.Push(item); err != nil {
			b.Fatal(err)
		}
		if _, err := q.Pop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
