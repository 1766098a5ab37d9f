package novelty

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/frame"
)

// sample is a state after n pages.
func sample(n int) *State {
	s := new(State)
	for i := range n {
		s.Observe(Page{URL: fmt.Sprintf("http://a.example/d%d/%c", i%300, 'a'+i%26), Own: frame.Own{Words: uint64(i%900 + 1), All: uint64(i%1500 + 1), Count: i % 20}, Links: 5, New: i % 3}, DefaultPages)
	}
	return s
}

func TestStateComesBack(t *testing.T) {
	for _, n := range []int{0, 1, 100, 5000} {
		want := sample(n).Append(nil)
		s, err := Decode(want)
		if err != nil || len(want) > MaxBytes {
			t.Fatalf("%d pages: %d bytes, %v", n, len(want), err)
		}
		if got := s.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%d pages: comes back otherwise", n)
		}
		for cut := range want {
			if _, err := Decode(want[:cut]); err == nil {
				t.Fatalf("%d pages: cut at %d is taken", n, cut)
			}
		}
		if _, err := Decode(append(bytes.Clone(want), 0)); err == nil {
			t.Error("a byte too many is taken")
		}
	}
}

// TestLaterIsAnOrder: of two states one is later, whichever comes first, and none is later than
// itself.
func TestLaterIsAnOrder(t *testing.T) {
	list := [][]byte{sample(0).Append(nil), sample(10).Append(nil), sample(500).Append(nil), nil, []byte("damaged")}
	for i, a := range list {
		for k, b := range list {
			switch later, earlier := Later(a, b), Later(b, a); {
			case i == k && later, later && earlier:
				t.Errorf("%d and %d: later %v, earlier %v", i, k, later, earlier)
			case i != k && max(i, k) < 3 && later == earlier:
				t.Errorf("%d and %d have no order", i, k)
			}
		}
	}
}

// FuzzDecode: whatever a stranger sends is refused or bounded, and says the same when it is written
// again.
func FuzzDecode(f *testing.F) {
	f.Add(sample(200).Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Decode(raw)
		if err != nil {
			return
		}
		s.Observe(Page{URL: "http://a.example/x?y=1", Own: frame.Own{Words: 2, All: 2}, Links: 3, New: 1}, DefaultPages)
		s.Verdict("http://a.example/x?y=1", DefaultPages)
		if b := s.Append(nil); len(b) > MaxBytes {
			t.Errorf("%d bytes, at most %d", len(b), MaxBytes)
		} else if _, err := Decode(b); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	s, i := sample(5000), 0
	for b.Loop() {
		s.Observe(Page{URL: "http://a.example/library/module/page.html", Own: frame.Own{Words: uint64(i), All: uint64(i), Count: 100}, Links: 40, New: 1}, DefaultPages)
		i++
	}
}
