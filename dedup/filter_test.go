package dedup

import (
	"math"
	"math/rand/v2"
	"testing"
)

// expected is the share of absent keys that a filter of m bits and l hash functions with n keys
// takes for present: (1 - e^(-l n/m))^l (Apoidea 2.3).
func expected(m, n, l float64) float64 { return math.Pow(1-math.Exp(-l*n/m), l) }

// TestPaperFigures holds the formula of Apoidea 2.3 to the values it gives, and names its slip.
func TestPaperFigures(t *testing.T) {
	for _, row := range []struct {
		name          string
		bitsPerKey, l float64
		want          float64
	}{
		{"16 bits, 5 functions", 16, 5, 0.00139},
		{"16 bits, 6 functions", 16, 6, 0.00094},
		{"16 bits, the best: 11 functions", 16, 11, 0.00046},
		// The paper prints 0.001 here.
		{"10 bits, 5 functions", 10, 5, 0.0094},
	} {
		if got := expected(row.bitsPerKey, 1, row.l); math.Abs(got-row.want) > 0.005*row.want+5e-6 {
			t.Errorf("%s: %.6f, want %.6f", row.name, got, row.want)
		}
	}
	if best := math.Ln2 * PaperBits / PaperURLs; math.Round(best) != PaperHashes {
		t.Errorf("best number of functions is %.2f, not %d", best, PaperHashes)
	}
	if p, short := expected(PaperBits, PaperURLs, PaperHashes), math.Pow(0.6185, 16); math.Abs(p-short) > 1e-5 {
		t.Errorf("p is %.6f, by the paper's short form %.6f", p, short)
	}
	f := NewFilter()
	if f.bits.bytes() != 8<<10 {
		t.Errorf("the filter takes %d bytes, want 8 KB", f.bits.bytes())
	}
}

// measure returns the share of fresh hashes that a test takes for present.
func measure(rnd *rand.Rand, n int, test func(uint64) bool) float64 {
	wrong := 0
	for range n {
		if test(rnd.Uint64()) {
			wrong++
		}
	}
	return float64(wrong) / float64(n)
}

func TestFilterIsAsWrongAsThePaperSays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	f := NewFilter()
	for _, row := range []struct {
		name string
		keys int
	}{{"half full", PaperURLs / 2}, {"full", PaperURLs}, {"twice over", 2 * PaperURLs}} {
		for f.Len() < row.keys {
			f.Add(rnd.Uint64())
		}
		const tries = 400_000
		want := expected(PaperBits, float64(row.keys), PaperHashes)
		got := measure(rnd, tries, f.Test)
		// Four standard deviations of the measurement, and 5 % for the filter's own chance.
		if slack := 4*math.Sqrt(want/tries) + 0.05*want + 1e-5; math.Abs(got-want) > slack {
			t.Errorf("%s: %.6f measured, %.6f by the formula", row.name, got, want)
		}
	}
}

func TestExpectedLossIsTheLoss(t *testing.T) {
	for _, urls := range []int{1000, 4096, 10_000, 20_000, 60_000} {
		rnd := rand.New(rand.NewPCG(7, uint64(urls)))
		lost := 0
		f := NewFilter()
		for range urls {
			hash := rnd.Uint64()
			if f.Test(hash) {
				lost++
				continue
			}
			f.Add(hash)
		}
		want := float64(lost) / float64(urls)
		if got := f.ExpectedLoss(); math.Abs(got-want) > 0.05*want+0.0008 {
			t.Errorf("%d URLs: expected loss %.5f, lost %.5f", urls, got, want)
		}
	}
	if loss := NewFilter().ExpectedLoss(); loss != 0 {
		t.Errorf("an empty filter loses %g", loss)
	}
}

func TestFilterHasNoFalseNegatives(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	f := NewFilter()
	added := make([]uint64, 6000)
	for i := range added {
		added[i] = rnd.Uint64()
		f.Add(added[i])
	}
	for _, hash := range added {
		if !f.Test(hash) {
			t.Fatal("an added hash is not found")
		}
	}
}

func TestLayersStayUnderTheirBound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 11))
	l := newLayers()
	added := make([]uint64, 0, 300_000)
	for _, n := range []int{1000, 4096, 10_000, 100_000, 300_000} {
		for len(added) < n {
			hash := rnd.Uint64()
			l.add(hash)
			added = append(added, hash)
		}
		for _, hash := range added {
			if !l.test(hash) {
				t.Fatalf("a false negative among %d", n)
			}
		}
		const tries = 300_000
		expected, got := l.falsePositive(), measure(rnd, tries, l.test)
		if expected > 0.001 || math.Abs(got-expected) > 4*math.Sqrt(expected/tries)+0.1*expected+1e-5 {
			t.Errorf("%d keys: %.6f expected, %.6f measured, bound 0.001", n, expected, got)
		}
		if perKey := float64(l.bytes()) / float64(n); n >= 10_000 && perKey > 6 {
			t.Errorf("%d keys take %.1f bytes each", n, perKey)
		}
	}
}

func BenchmarkLayersNegative(b *testing.B) {
	l := newLayers()
	for i := range uint64(1_000_000) {
		l.add(mix(i))
	}
	b.ReportMetric(float64(l.bytes()), "filter-bytes")
	x := uint64(1 << 40)
	for b.Loop() {
		x++
		l.test(mix(x))
	}
}

func BenchmarkLayersAdd(b *testing.B) {
	l, x := newLayers(), uint64(0)
	for b.Loop() {
		x++
		l.add(mix(x))
	}
}
