package dedup

import (
	"math"

	"github.com/bits-and-blooms/bloom/v3"
)

// The paper's filter (Apoidea 2.3): 8 KB per host for 4,096 URLs, with the optimal number of hash
// functions for 16 bits per URL, ln 2 * 16 = 11. When full its false-positive rate is 0.00046.
const (
	PaperBits   = 65_536
	PaperHashes = 11
	PaperURLs   = 4096
)

// bits is a Bloom filter of hashes that are already uniform: a location is arithmetic on the hash.
// Hashing again, as the library does with murmur, would double the time of an Add.
type bits struct {
	filter *bloom.BloomFilter
	count  int // keys added
	ones   int // bits set
}

func newBits(m, l uint) bits { return bits{filter: bloom.New(m, l)} }

// walk enumerates the locations of a hash by enhanced double hashing: the growing step separates
// two hashes whose sequences meet. Most absent keys end at the second location, so none is computed
// ahead.
type walk struct{ at, step uint64 }

func (w *walk) next(i uint) {
	w.at += w.step
	w.step += uint64(i)
}

// mix derives a second, independent hash (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (b *bits) test(hash uint64) bool {
	set, m, l := b.filter.BitSet(), uint64(b.filter.Cap()), b.filter.K()
	w := walk{hash, mix(hash) | 1}
	for i := range l {
		if !set.Test(uint(w.at % m)) {
			return false
		}
		w.next(i)
	}
	return true
}

// add sets the bits of hash and reports whether one of them was unset.
func (b *bits) add(hash uint64) (fresh bool) {
	set, m, l := b.filter.BitSet(), uint64(b.filter.Cap()), b.filter.K()
	w := walk{hash, mix(hash) | 1}
	for i := range l {
		if at := uint(w.at % m); !set.Test(at) {
			set.Set(at)
			b.ones++
			fresh = true
		}
		w.next(i)
	}
	if fresh {
		b.count++
	}
	return fresh
}

func (b *bits) bytes() int { return int(b.filter.Cap()+7) / 8 }

// falsePositive uses the number of set bits. The paper's formula estimates it from the number of
// keys, which is too low beyond the design size: keys that are not refused set more bits.
func (b *bits) falsePositive() float64 {
	return math.Pow(float64(b.ones)/float64(b.filter.Cap()), float64(b.filter.K()))
}

// Filter is the paper's filter alone: a false positive is never crawled. It is sent with its host
// as bytes.
type Filter struct {
	bits bits
	lost float64 // expected number of false positives so far
}

// NewFilter returns an empty filter of PaperBits and PaperHashes.
func NewFilter() *Filter { return &Filter{bits: newBits(PaperBits, PaperHashes)} }

// Test reports whether hash was added. True may be wrong, false is exact.
func (f *Filter) Test(hash uint64) bool { return f.bits.test(hash) }

// Add adds hash. A hash that Test reports as present changes nothing.
func (f *Filter) Add(hash uint64) {
	// Before a key comes that is not refused, p/(1-p) of them were, on average.
	p := f.bits.falsePositive()
	if f.bits.add(hash) && p < 1 {
		f.lost += p / (1 - p)
	}
}

// Len returns the number of keys added, without false positives.
func (f *Filter) Len() int { return f.bits.count }

// FalsePositive returns the current false-positive rate.
func (f *Filter) FalsePositive() float64 { return f.bits.falsePositive() }

// ExpectedLoss returns the expected fraction of all keys offered that were false positives: the
// host's URLs that are never crawled.
func (f *Filter) ExpectedLoss() float64 {
	if f.lost == 0 {
		return 0
	}
	return f.lost / (f.lost + float64(f.bits.count))
}
