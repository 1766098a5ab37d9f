package placement

import "hash/fnv"

// Random gives each host to a candidate drawn by a hash of host and peer, so that all peers draw
// the same: the baseline that knows nothing of distance. It is the highest of the weights, so a
// candidate that comes or goes moves only the hosts it takes or leaves.
type Random struct{}

// Next implements Strategy.
func (Random) Next(v *View) Choice {
	return Choice{Worker: drawn(v.Host, v.Able()), Why: "drawn by hash among the candidates"}
}

// drawn is the candidate of the highest weight for a host, empty if there is none.
func drawn(host string, among []Candidate) string {
	best, weight := "", uint64(0)
	for _, c := range among {
		if w := Weight(host, c.Peer); best == "" || w >= weight {
			best, weight = c.Peer, w
		}
	}
	return best
}

// Weight is what is drawn for a host and a peer, the same at all peers.
func Weight(host, peer string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host))
	h.Write([]byte{0})
	h.Write([]byte(peer))
	return mix(h.Sum64())
}

// mix spreads the last bytes' differences over the whole word, which FNV alone does badly.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
