package crawltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/storage/kv"
)

// TestStoreAgainstMap compares the store with a plain map over random changes and crashes.
func TestStoreAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	store, model, synced := NewStore(), map[string]string{}, map[string]string{}
	for range 3000 {
		key, value := fmt.Sprintf("%03d", rng.IntN(300)), fmt.Sprint(rng.Uint64())
		wait, err := store.Update(func(b kv.Batch) {
			switch rng.IntN(5) {
			case 0:
				b.Delete([]byte(key))
				delete(model, key)
			case 1:
				hi := key[:2] + "9"
				b.DeleteRange([]byte(key), []byte(hi))
				for k := range model {
					if k >= key && k < hi {
						delete(model, k)
					}
				}
			default:
				b.Set([]byte(key), []byte(value))
				model[key] = value
			}
		})
		if err != nil || wait() != nil {
			t.Fatal(err)
		}
		synced = model
		if rng.IntN(50) == 0 {
			store = store.Crash(rng)
		}
	}
	var got, want []string
	_ = store.Scan(nil, nil, func(k, v []byte) bool {
		got = append(got, string(k)+"="+string(v))
		return true
	})
	for k, v := range synced {
		want = append(want, k+"="+v)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("store holds %d keys, model %d", len(got), len(want))
	}
	if store.Len() != len(want) {
		t.Errorf("Len = %d, want %d", store.Len(), len(want))
	}
}

// TestStoreCrashKeepsWhatWasWaitedFor loses some suffix of what was not.
func TestStoreCrashKeepsWhatWasWaitedFor(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		store := NewStore()
		for i := range 10 {
			wait, err := store.Update(func(b kv.Batch) { b.Set([]byte{byte(i)}, nil) })
			if err != nil {
				t.Fatal(err)
			}
			if i == 4 && wait() != nil {
				t.Fatal("wait failed")
			}
		}
		if n := store.Crash(rng).Len(); n < 5 || n > 10 {
			t.Fatalf("%d updates survived, want 5 to 10", n)
		}
	}
}
