package storagetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// Suite checks the guarantees of a store that need no crash; open returns a new, empty one for each
// part.
func Suite(t *testing.T, open func(t *testing.T) *storage.Store) {
	t.Run("keyspaces are apart", func(t *testing.T) { testApart(t, open(t)) })
	t.Run("scan", func(t *testing.T) { testScan(t, open(t)) })
	t.Run("an empty batch", func(t *testing.T) { testEmpty(t, open(t)) })
	t.Run("changes in their order", func(t *testing.T) { testOrder(t, open(t)) })
	t.Run("read while scanning and updating", func(t *testing.T) { testNested(t, open(t)) })
	t.Run("remove", func(t *testing.T) { testRemove(t, open(t)) })
	t.Run("many writers", func(t *testing.T) { testConcurrent(t, open(t)) })
	t.Run("against a map", func(t *testing.T) { testModel(t, open(t)) })
}

func must(t *testing.T, wait func() error, err error) {
	t.Helper()
	if err == nil {
		err = wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func testApart(t *testing.T, s *storage.Store) {
	c, h := s.Keyspace(storage.KeyspaceContent), s.Keyspace(storage.KeyspaceHosts)
	wait, err := h.Update(func(b kv.Batch) { b.Set([]byte("k"), []byte("v")) })
	must(t, wait, err)
	if ok, err := c.Has([]byte("k")); ok || err != nil {
		t.Errorf("a key of hosts is one of content: %v, %v", ok, err)
	}
	value, ok, err := h.Get([]byte("k"))
	if string(value) != "v" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", value, ok, err)
	}
	wait, err = c.Update(func(b kv.Batch) { b.DeleteRange(nil, nil) })
	must(t, wait, err)
	if ok, err := h.Has([]byte("k")); !ok || err != nil {
		t.Errorf("emptying content emptied hosts: %v, %v", ok, err)
	}
	wait, err = h.Update(func(b kv.Batch) { b.Set(nil, nil) })
	must(t, wait, err)
	if value, ok, err := h.Get(nil); len(value) != 0 || !ok || err != nil {
		t.Errorf("empty key and value: got %q, %v, %v", value, ok, err)
	}
}

func testRemove(t *testing.T, s *storage.Store) {
	h := s.Keyspace(storage.KeyspaceHosts)
	wait, err := h.Update(func(b kv.Batch) {
		for _, key := range []string{"a", "b", "ba", "c"} {
			b.Set([]byte(key), nil)
		}
	})
	must(t, wait, err)
	for _, want := range []int{2, 0} {
		n, wait, err := kv.Remove(h, []byte("b"), []byte("c"))
		must(t, wait, err)
		if left, err := kv.Count(h, nil, nil); n != want || left != 2 || err != nil {
			t.Errorf("removed %d of %d, %d are left, %v", n, want, left, err)
		}
	}
}

func testScan(t *testing.T, s *storage.Store) {
	h := s.Keyspace(storage.KeyspaceHosts)
	wait, err := h.Update(func(b kv.Batch) {
		for _, key := range []string{"a", "b", "ba", "c", "\xff", "\xff\xff"} {
			b.Set([]byte(key), []byte("of "+key))
		}
	})
	must(t, wait, err)
	for prefix, key := range map[byte]string{storage.KeyspaceHosts - 1: "z", storage.KeyspaceHosts + 1: "a"} {
		wait, err := s.Keyspace(prefix).Update(func(b kv.Batch) { b.Set([]byte(key), nil) })
		must(t, wait, err)
	}
	for _, row := range []struct {
		name   string
		lo, hi []byte
		limit  int
		want   []string
	}{
		{"all", nil, nil, 0, []string{"a", "b", "ba", "c", "\xff", "\xff\xff"}},
		{"half open", []byte("b"), []byte("c"), 0, []string{"b", "ba"}},
		{"to the end", []byte("c"), nil, 0, []string{"c", "\xff", "\xff\xff"}},
		{"of a prefix", []byte("b"), kv.PrefixEnd([]byte("b")), 0, []string{"b", "ba"}},
		{"of the last prefix", []byte("\xff"), kv.PrefixEnd([]byte("\xff")), 0, []string{"\xff", "\xff\xff"}},
		{"stopped", nil, nil, 2, []string{"a", "b"}},
		{"empty", []byte("d"), []byte("e"), 0, nil},
	} {
		var got []string
		err := h.Scan(row.lo, row.hi, func(key, value []byte) bool {
			if string(value) != "of "+string(key) {
				t.Errorf("%s: %q has value %q", row.name, key, value)
			}
			got = append(got, string(key))
			return len(got) != row.limit
		})
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, %v, want %q", row.name, got, err, row.want)
		}
	}
}

func testEmpty(t *testing.T, s *storage.Store) {
	wait, err := s.Keyspace(storage.KeyspaceMeta).Update(func(kv.Batch) {})
	must(t, wait, err)
}

// testOrder: the changes of a batch apply in order.
func testOrder(t *testing.T, s *storage.Store) {
	jobs := s.Keyspace(storage.KeyspaceJobs)
	wait, err := jobs.Update(func(b kv.Batch) {
		b.Set([]byte("y"), []byte("2"))
		b.Set([]byte("z"), []byte("3"))
		b.Delete([]byte("z"))
	})
	must(t, wait, err)
	for key, want := range map[string]bool{"y": true, "z": false} {
		if ok, err := jobs.Has([]byte(key)); ok != want || err != nil {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
	}
}

func testNested(t *testing.T, s *storage.Store) {
	meta := s.Keyspace(storage.KeyspaceMeta)
	for _, key := range []string{"a", "b"} {
		if err := meta.UpdateNoSync(func(b kv.Batch) { b.Set([]byte(key), nil) }); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := meta.Scan(nil, nil, func(key, _ []byte) bool {
		n++
		wait, err := meta.Update(func(b kv.Batch) {
			if ok, err := meta.Has(key); !ok || err != nil {
				t.Errorf("%q is not there: %v", key, err)
			}
			b.Set(append([]byte("z"), key...), nil)
		})
		must(t, wait, err)
		return true
	})
	if n != 2 || err != nil {
		t.Errorf("the scan met %d keys, %v; want the 2 from when it began", n, err)
	}
}

func testConcurrent(t *testing.T, s *storage.Store) {
	const writers, each = 20, 25
	hosts := s.Keyspace(storage.KeyspaceHosts)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				wait, err := hosts.Update(func(b kv.Batch) {
					b.Set(fmt.Appendf(nil, "%d/%d", w, i), []byte("v"))
				})
				if err == nil {
					if ok, gerr := hosts.Has(fmt.Appendf(nil, "%d/%d", w, i)); !ok || gerr != nil {
						t.Errorf("writer %d does not see its write: %v", w, gerr)
					}
					err = wait()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	if err := hosts.Scan(nil, nil, func(_, _ []byte) bool { n++; return true }); n != writers*each || err != nil {
		t.Errorf("%d keys, %v; want %d", n, err, writers*each)
	}
}

// testModel applies random changes to a keyspace and a map and compares them at intervals.
func testModel(t *testing.T, s *storage.Store) {
	rnd := rand.New(rand.NewPCG(1, 2))
	hosts, model := s.Keyspace(storage.KeyspaceHosts), map[string][]byte{}
	key := func() []byte { return fmt.Appendf(nil, "%02d", rnd.IntN(60)) }
	for round := range 300 {
		err := hosts.UpdateNoSync(func(b kv.Batch) {
			for range rnd.IntN(4) {
				switch k := key(); rnd.IntN(8) {
				case 0:
					lo, hi := k, key()
					if bytes.Compare(lo, hi) > 0 {
						lo, hi = hi, lo
					}
					b.DeleteRange(lo, hi)
					for m := range model {
						if m >= string(lo) && m < string(hi) {
							delete(model, m)
						}
					}
				case 1, 2:
					b.Delete(k)
					delete(model, string(k))
				default:
					v := fmt.Appendf(nil, "%d", round)
					b.Set(k, v)
					model[string(k)] = v
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := hosts.Scan(nil, nil, func(key, value []byte) bool {
		n++
		if !bytes.Equal(model[string(key)], value) {
			t.Errorf("%q is %q, want %q", key, value, model[string(key)])
		}
		return true
	})
	if n != len(model) || err != nil {
		t.Errorf("%d keys, %v; want %d", n, err, len(model))
	}
}
