package kvtest_test

import (
	"slices"
	"testing"

	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

// TestMap: the map keeps what [kv.Store] promises.
func TestMap(t *testing.T) {
	m := make(kvtest.Map)
	keys := func(lo, hi []byte) (found []string) {
		if err := m.Scan(lo, hi, func(key, value []byte) bool {
			if string(value) != "of "+string(key) {
				t.Errorf("%s has value %q", key, value)
			}
			found = append(found, string(key))
			return len(found) < 3
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	wait, err := m.Update(func(b kv.Batch) {
		for _, key := range []string{"d", "b", "a", "c", "ba"} {
			b.Set([]byte(key), []byte("of "+key))
		}
		b.Delete([]byte("d"))
		b.Delete([]byte("d"))
	})
	if err != nil || wait() != nil {
		t.Fatal(err)
	}
	if got := keys([]byte("b"), kv.PrefixEnd([]byte("b"))); !slices.Equal(got, []string{"b", "ba"}) {
		t.Errorf("with b: %q", got)
	}
	if got := keys(nil, nil); !slices.Equal(got, []string{"a", "b", "ba"}) {
		t.Errorf("the first three: %q", got)
	}
	if _, ok, err := m.Get([]byte("d")); ok || err != nil {
		t.Errorf("a key that was deleted: %v, %v", ok, err)
	}
	if value, ok, err := m.Get([]byte("c")); string(value) != "of c" || !ok || err != nil {
		t.Errorf("c: %q, %v, %v", value, ok, err)
	}
	m.DeleteRange([]byte("b"), []byte("c"))
	if got := keys(nil, nil); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("without b: %q", got)
	}
	if m.DeleteRange([]byte("b"), nil); len(m) != 1 {
		t.Errorf("behind b: %q", m)
	}
}
