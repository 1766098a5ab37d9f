package dedup

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// disk is the exact sets, as the owner of hosts keeps them.
type disk struct {
	mu    sync.Mutex
	sets  map[SetID]map[uint64]bool
	fails error
}

func newDisk() *disk { return &disk{sets: map[SetID]map[uint64]bool{}} }

func (d *disk) add(id SetID, hash uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sets[id] == nil {
		d.sets[id] = map[uint64]bool{}
	}
	d.sets[id][hash] = true
}

func (d *disk) Hashes(id SetID, yield func(uint64) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for hash := range d.sets[id] {
		if !yield(hash) {
			break
		}
	}
	return d.fails
}

func id(n int) SetID { return SetID{31: byte(n), 30: byte(n >> 8)} }

func TestExactUntilTheBoundThenFilters(t *testing.T) {
	d := newDisk()
	s := NewSets(Exact, d, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := range exactMax + 200 {
		hash := rnd.Uint64()
		if n == 17 {
			hash = 0 // no hash is special
		}
		if a, err := s.Test(id(1), hash); a != No || err != nil {
			t.Fatalf("hash %d before it is added: %v, %v", n, a, err)
		}
		d.add(id(1), hash)
		if err := s.Add(id(1), hash); err != nil {
			t.Fatal(err)
		}
		want := Yes
		if n >= exactMax {
			want = Maybe
		}
		if a, err := s.Test(id(1), hash); a != want || err != nil {
			t.Fatalf("hash %d after it is added: %v, %v, want %v", n, a, err, want)
		}
		if a, err := s.Test(id(2), hash); a != No || err != nil {
			t.Fatalf("hash %d in another set: %v, %v", n, a, err)
		}
	}
}

// TestNeverForgets puts many sets through far too little memory: an answer No must always be right.
func TestNeverForgets(t *testing.T) {
	unraced(t)
	for _, row := range []struct {
		name string
		kind Kind
		wait Answer
	}{{"exact", Exact, Maybe}, {"paper", Paper, Yes}} {
		t.Run(row.name, func(t *testing.T) {
			d := newDisk()
			const bound = 100_000
			s := NewSets(row.kind, d, bound)
			rnd := rand.New(rand.NewPCG(2, 2))
			for range 30_000 {
				set, hash := id(rnd.IntN(50)), uint64(rnd.IntN(3000))
				if rnd.IntN(3) == 0 {
					set = id(0) // one of them grows large
				}
				hash = mix(hash)
				answer, err := s.Test(set, hash)
				if err != nil {
					t.Fatal(err)
				}
				there := d.sets[set][hash]
				if there && answer == No || !there && answer == Yes && row.kind == Exact {
					t.Fatalf("answer %v, but the exact set says %v", answer, there)
				}
				if row.kind == Paper && answer == Maybe {
					t.Fatal("a paper set does not know maybe")
				}
				d.add(set, hash)
				if err := s.Add(set, hash); err != nil {
					t.Fatal(err)
				}
				if stats := s.Stats(); stats.Bytes > bound {
					t.Fatalf("%d bytes, bound %d", stats.Bytes, bound)
				}
			}
			stats := s.Stats()
			if stats.Evictions == 0 || stats.Loads <= 50 {
				t.Errorf("nothing was ever forgotten: %+v", stats)
			}
		})
	}
}

func TestBytesAreCountedRight(t *testing.T) {
	s := NewSets(Exact, newDisk(), 1<<30)
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 20_000 {
		if err := s.Add(id(rnd.IntN(10)), rnd.Uint64()); err != nil {
			t.Fatal(err)
		}
	}
	want := 0
	for e := range maps.Values(s.sets) {
		want += e.Value.(*set).seen.bytes() + overhead
	}
	if got := s.Stats(); got.Bytes != want || got.Hashes < 19_990 || got.FalsePositive <= 0 || got.FalsePositive > 0.001 {
		t.Errorf("%+v, want %d bytes and 20000 hashes", got, want)
	}
	for n := range 10 {
		s.Drop(id(n))
	}
	s.Drop(id(0))
	if got := s.Stats(); got.Bytes != 0 || got.Sets != 0 {
		t.Errorf("after dropping all: %+v", got)
	}
}

func TestLoaderFails(t *testing.T) {
	d := newDisk()
	d.fails = errors.New("disk broke")
	s := NewSets(Exact, d, 1<<20)
	if _, err := s.Test(id(1), 1); !errors.Is(err, d.fails) {
		t.Errorf("Test: %v", err)
	}
	if err := s.Add(id(1), 1); !errors.Is(err, d.fails) {
		t.Errorf("Add: %v", err)
	}
	if stats := s.Stats(); stats.Sets != 0 {
		t.Errorf("a set that could not be loaded is kept: %+v", stats)
	}
	d.fails = nil
	if a, err := s.Test(id(1), 1); a != No || err != nil {
		t.Errorf("after the repair: %v, %v", a, err)
	}
}

// slowDisk reads a set for a second, as it was when that began.
type slowDisk struct {
	*disk
	reads int
}

func (d *slowDisk) Hashes(id SetID, yield func(uint64) bool) error {
	d.mu.Lock()
	d.reads++
	was := maps.Clone(d.sets[id])
	d.mu.Unlock()
	time.Sleep(time.Second)
	for hash := range was {
		if !yield(hash) {
			break
		}
	}
	return d.fails
}

// TestSetsAreReadWithoutTheMutex: other sets and the sums are there while one set is read, a hash
// that is added meanwhile is not lost, and a set that is forgotten meanwhile is read again.
func TestSetsAreReadWithoutTheMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{disk: newDisk()}
		s := NewSets(Exact, d, 1<<20)
		d.add(id(1), 11)
		begun := time.Now()
		want := func(what string, hash uint64, want Answer, after time.Duration) {
			if a, err := s.Test(id(1), hash); a != want || err != nil || time.Since(begun) != after {
				t.Errorf("%s: %v, %v after %v, want %v after %v", what, a, err, time.Since(begun), want, after)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { want("the first to ask", 11, Yes, time.Second) })
		synctest.Wait()
		if !s.mu.TryLock() {
			t.Fatal("the mutex is held over a read")
		}
		s.mu.Unlock()
		d.add(id(1), 12)
		all.Go(func() {
			if err := s.Add(id(1), 12); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if s.Stats(); time.Since(begun) != 0 {
			t.Errorf("the sums took %v", time.Since(begun))
		}
		all.Wait()
		want("what was added while the set was read", 12, Yes, time.Second)
		if d.reads != 1 {
			t.Errorf("the set was read %d times", d.reads)
		}
		s.Drop(id(1))
		begun = time.Now()
		all.Go(func() { want("forgotten while it is read", 11, No, 2*time.Second) })
		synctest.Wait()
		delete(d.sets, id(1))
		s.Drop(id(1))
		all.Wait()
	})
}

func TestPaperFilterOfASetIsACopy(t *testing.T) {
	s := NewSets(Paper, newDisk(), 1<<20)
	for i := range uint64(100) {
		if err := s.Add(id(1), mix(i)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Filter(id(1))
	if err != nil || f.Len() != 100 || !f.Test(mix(5)) {
		t.Fatalf("filter %v, %v", f, err)
	}
	f.Add(mix(1000))
	if a, err := s.Test(id(1), mix(1000)); a != No || err != nil {
		t.Errorf("the copy shares its bits: %v, %v", a, err)
	}
	exact := NewSets(Exact, newDisk(), 1<<20)
	if f, err := exact.Filter(id(1)); f != nil || err != nil {
		t.Errorf("an exact set has a paper filter: %v, %v", f, err)
	}
}

func TestSetsFromManyGoroutines(t *testing.T) {
	d := newDisk()
	s := NewSets(Exact, d, 40_000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range uint64(1000) {
				set, hash := id(int(i%7)), mix(i<<8|uint64(g))
				d.add(set, hash)
				if err := s.Add(set, hash); err != nil {
					t.Error(err)
				}
				if a, err := s.Test(set, hash); a == No || err != nil {
					t.Errorf("added and not seen: %v, %v", a, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSetsTest(b *testing.B) {
	for _, row := range []struct {
		name string
		kind Kind
		n    int
	}{{"exact 1000", Exact, 1000}, {"layers 100000", Exact, 100_000}, {"paper 4096", Paper, 4096}} {
		b.Run(row.name, func(b *testing.B) {
			s := NewSets(row.kind, newDisk(), 1<<30)
			for i := range uint64(row.n) {
				if err := s.Add(id(1), mix(i)); err != nil {
					b.Fatal(err)
				}
			}
			x := uint64(1 << 40)
			for b.Loop() {
				x++
				if _, err := s.Test(id(1), mix(x)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnswersArePrinted(t *testing.T) {
	if got := []string{No.String(), Yes.String(), Maybe.String(), New.String(), Known.String(), Wait.String()}; !slices.Equal(got, []string{"no", "yes", "maybe", "new", "known", "wait"}) {
		t.Error(got)
	}
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
