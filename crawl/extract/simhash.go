package extract

// SimHash sums hashes of features, such as words, to a digest that differs in few bits between sets
// with most features in common (Charikar 2002). The zero value is the empty set.
type SimHash struct {
	planes [32]uint64 // the counts of ones of the 64 bits: bit i of plane k is bit k of the i-th count
	n      uint64
}

// Add adds a feature by its hash.
func (s *SimHash) Add(hash uint64) {
	s.n++
	for k := 0; hash != 0 && k < len(s.planes); k++ {
		s.planes[k], hash = s.planes[k]^hash, s.planes[k]&hash
	}
}

// Sum returns the digest; 0 for the empty set.
func (s *SimHash) Sum() (sum uint64) {
	for i := range 64 {
		ones := uint64(0)
		for k, plane := range s.planes {
			ones |= plane >> i & 1 << k
		}
		if 2*ones > s.n {
			sum |= 1 << i
		}
	}
	return sum
}
