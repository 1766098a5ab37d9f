package dedup

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// disk is the exact sets, as the owner of hosts keeps them.
type disk struct {
	sets  map[int]map[uint64]bool
	reads int
	fails error
}

func newDisk() *disk { return &disk{sets: map[int]map[uint64]bool{}} }

func (d *disk) add(id int, hash uint64) {
	if d.sets[id] == nil {
		d.sets[id] = map[uint64]bool{}
	}
	d.sets[id][hash] = true
}

func (d *disk) hashes(id int, yield func(uint64) bool) error {
	d.reads++
	for hash := range d.sets[id] {
		if !yield(hash) {
			break
		}
	}
	return d.fails
}

func TestExactUntilTheBoundThenFilters(t *testing.T) {
	d := newDisk()
	s := NewSets(Exact, d.hashes, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := range exactMax + 200 {
		hash := rnd.Uint64()
		if n == 17 {
			hash = 0 // no hash is special
		}
		if a, err := s.Test(1, hash); a || err != nil {
			t.Fatalf("hash %d before it is added: %v, %v", n, a, err)
		}
		d.add(1, hash)
		if err := s.Add(1, hash); err != nil {
			t.Fatal(err)
		}
		if a, err := s.Test(1, hash); !a || err != nil {
			t.Fatalf("hash %d after it is added: %v, %v", n, a, err)
		}
		if a, err := s.Test(2, hash); a || err != nil {
			t.Fatalf("hash %d in another set: %v, %v", n, a, err)
		}
	}
}

// TestSetsHaveNoFalseNegatives puts many sets through far too little memory.
func TestSetsHaveNoFalseNegatives(t *testing.T) {
	unraced(t)
	for _, row := range []struct {
		name string
		kind Kind
	}{{"exact", Exact}, {"paper", Paper}} {
		t.Run(row.name, func(t *testing.T) {
			d := newDisk()
			const bound = 100_000
			s := NewSets(row.kind, d.hashes, bound)
			rnd := rand.New(rand.NewPCG(2, 2))
			for range 30_000 {
				set, hash := rnd.IntN(50), uint64(rnd.IntN(3000))
				if rnd.IntN(3) == 0 {
					set = 0 // one of them grows large
				}
				hash = mix(hash)
				answer, err := s.Test(set, hash)
				if err != nil {
					t.Fatal(err)
				}
				there := d.sets[set][hash]
				if there && !answer {
					t.Fatal("an added hash is not found")
				}
				d.add(set, hash)
				if err := s.Add(set, hash); err != nil {
					t.Fatal(err)
				}
				if stats := s.Stats(); stats.Bytes > bound {
					t.Fatalf("%d bytes, bound %d", stats.Bytes, bound)
				}
			}
			if d.reads <= 50 {
				t.Errorf("%d reads: no set was evicted", d.reads)
			}
		})
	}
}

func TestBytesAreCountedRight(t *testing.T) {
	s := NewSets(Exact, newDisk().hashes, 1<<30)
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 20_000 {
		if err := s.Add(rnd.IntN(10), rnd.Uint64()); err != nil {
			t.Fatal(err)
		}
	}
	want := 0
	for _, of := range s.sets.Values() {
		want += of.seen.bytes() + overhead
	}
	if got := s.Stats(); got.Bytes != want || got.Hashes < 19_990 || got.FalsePositive <= 0 || got.FalsePositive > 0.001 {
		t.Errorf("%+v, want %d bytes and 20000 hashes", got, want)
	}
	for n := range 10 {
		s.Drop(n)
	}
	s.Drop(0)
	if got := s.Stats(); got.Bytes != 0 || got.Sets != 0 {
		t.Errorf("after dropping all: %+v", got)
	}
}

func TestLoaderFails(t *testing.T) {
	d := newDisk()
	d.fails = errors.New("disk broke")
	s := NewSets(Exact, d.hashes, 1<<20)
	if _, err := s.Test(1, 1); !errors.Is(err, d.fails) {
		t.Errorf("Test: %v", err)
	}
	if err := s.Add(1, 1); !errors.Is(err, d.fails) {
		t.Errorf("Add: %v", err)
	}
	if stats := s.Stats(); stats.Sets != 0 {
		t.Errorf("a set that could not be loaded is kept: %+v", stats)
	}
	d.fails = nil
	if a, err := s.Test(1, 1); a || err != nil {
		t.Errorf("after the repair: %v, %v", a, err)
	}
}

func BenchmarkSetsTest(b *testing.B) {
	for _, row := range []struct {
		name string
		kind Kind
		n    int
	}{{"exact 1000", Exact, 1000}, {"layers 100000", Exact, 100_000}, {"paper 4096", Paper, 4096}} {
		b.Run(row.name, func(b *testing.B) {
			s := NewSets(row.kind, newDisk().hashes, 1<<30)
			for i := range uint64(row.n) {
				if err := s.Add(1, mix(i)); err != nil {
					b.Fatal(err)
				}
			}
			x := uint64(1 << 40)
			for b.Loop() {
				x++
				if _, err := s.Test(1, mix(x)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestVerdictsArePrinted(t *testing.T) {
	if got := []string{New.String(), Known.String(), Wait.String()}; !slices.Equal(got, []string{"new", "known", "wait"}) {
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
