package storage_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

func openDisk(b *testing.B) *storage.Store {
	b.Helper()
	s, err := storage.Open(b.TempDir(), storage.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkGroupCommit has many goroutines wait for their own batch each: with group commit, the
// time of one falls as their number grows, since they share the fsyncs of the log.
func BenchmarkGroupCommit(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			hosts := openDisk(b).Keyspace(storage.KeyspaceHosts)
			var n atomic.Uint64
			value := make([]byte, 200)
			b.SetParallelism(goroutines)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					wait, err := hosts.Update(func(batch kv.Batch) {
						batch.Set(binary.BigEndian.AppendUint64(nil, n.Add(1)), value)
					})
					if err == nil {
						err = wait()
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkUpdateNoSync is the cost of a batch of 150 links that nobody waits for.
func BenchmarkUpdateNoSync(b *testing.B) {
	hosts := openDisk(b).Keyspace(storage.KeyspaceHosts)
	var n uint64
	key, value := make([]byte, 24), make([]byte, 60)
	b.ReportAllocs()
	for b.Loop() {
		err := hosts.UpdateNoSync(func(batch kv.Batch) {
			for range 150 {
				n++
				binary.BigEndian.PutUint64(key[16:], n*0x9e3779b97f4a7c15)
				batch.Set(key, value)
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	hosts := openDisk(b).Keyspace(storage.KeyspaceHosts)
	const keys = 200_000
	key := make([]byte, 24)
	for i := 0; i < keys; i += 1000 {
		err := hosts.UpdateNoSync(func(batch kv.Batch) {
			for j := range 1000 {
				binary.BigEndian.PutUint64(key[16:], uint64(i+j)*0x9e3779b97f4a7c15)
				batch.Set(key, make([]byte, 60))
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, row := range []struct {
		name string
		from uint64
		want bool
	}{{"present", 0, true}, {"absent", keys, false}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i = (i + 7919) % keys {
				binary.BigEndian.PutUint64(key[16:], (row.from+i)*0x9e3779b97f4a7c15)
				if _, ok, err := hosts.Get(key); ok != row.want || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkDeleteSmallRanges removes ranges of one key, one after another, and reads behind each,
// as handoff does with records that another peer has taken.
func BenchmarkDeleteSmallRanges(b *testing.B) {
	k := openDisk(b).Keyspace(storage.KeyspaceContent)
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	value := make([]byte, 100)
	update := func(fn func(batch kv.Batch)) {
		if err := k.UpdateNoSync(fn); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		update(func(batch kv.Batch) { batch.Set(key(i), value) })
		update(func(batch kv.Batch) { batch.DeleteRange(key(i), key(i+1)) })
		if err := k.Scan(key(i), key(i+2), func(_, _ []byte) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}
