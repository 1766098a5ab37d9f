package job

// behind is the rank of URLs that have none of those before them which the job names first.
const behind = 1 << 30

// Ordered reports whether URLs have another rank than their depth.
func (s *Spec) Ordered() bool { return len(s.first) > 0 }

// Rank is where a URL in canonical form, so many links from a seed, stands among those of its host
// that wait, and its host among others: the lower goes first, and of those that are alike the one
// that came first. It is the one place that orders a crawl.
//
// A crawl is breadth-first: the rank is the depth. What the job names first goes before all else.
func (s *Spec) Rank(url string, depth uint32) uint32 {
	rank := min(depth, behind-1)
	if s.Ordered() && s.first.Match(url) == "" {
		rank += behind
	}
	return rank
}
