package placement

import "hash/fnv"

// Random gives each host to a candidate drawn by a hash of host and peer, so that all peers draw the same: the baseline that knows nothing of distance.
// It is the highest of the weights, so a candidate that comes or goes moves only the hosts it takes or leaves.
type Random struct{}

// Next implements Strategy.
func (Random) Next(v *View) Choice {
	best, weight := v.self(), uint64(0)
	for _, c := range v.Candidates {
		h := fnv.New64a()
		h.Write([]byte(v.Host))
		h.Write([]byte{0})
		h.Write([]byte(c.Peer))
		if w := mix(h.Sum64()); w >= weight {
			best, weight = c.Peer, w
		}
	}
	return Choice{Worker: best, Why: "drawn by hash among the candidates"}
}

// mix spreads the last bytes' differences over the whole word, which FNV alone does badly.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
