package job

// behind is added to the rank of URLs that match no pattern which the job fetches first.
const behind = 1 << 30

// Ordered reports whether URLs have another rank than their depth.
func (s *Spec) Ordered() bool { return len(s.first) > 0 }

// Rank returns the rank of a canonical URL at a depth among the waiting URLs of its host, and of
// its host among others: lower ranks go first, equal ones by arrival. No other order exists in a
// crawl. A crawl is breadth-first: the rank is the depth. URLs that the job fetches first precede
// all others.
func (s *Spec) Rank(url string, depth uint32) uint32 {
	rank := min(depth, behind-1)
	if s.Ordered() && s.first.Match(url) == "" {
		rank += behind
	}
	return rank
}
