package extract

import "math/bits"

// SimHash sums hashes of features, such as words, to a digest that differs in few bits between sets
// with most features in common (Charikar 2002). The zero value is the empty set.
type SimHash struct {
	ones [64]int32
	n    int32
}

// Add adds a feature by its hash.
func (s *SimHash) Add(hash uint64) {
	s.n++
	for ; hash != 0; hash &= hash - 1 {
		s.ones[bits.TrailingZeros64(hash)]++
	}
}

// Sum returns the digest; 0 for the empty set.
func (s *SimHash) Sum() (sum uint64) {
	for i, ones := range s.ones {
		if 2*ones > s.n {
			sum |= 1 << i
		}
	}
	return sum
}
