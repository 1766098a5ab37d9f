package placement

import "hash/fnv"

// Random assigns each host to a candidate by rendezvous hashing, so that all peers choose the same:
// the baseline that ignores distance. The highest weight wins, so a candidate that joins or leaves
// moves only its own hosts.
type Random struct{}

// Next implements Strategy.
func (Random) Next(v *View) Choice {
	return Choice{Worker: drawn(v.Host, v.Able()), Why: "drawn by hash among the candidates"}
}

// drawn returns the candidate of the highest weight for a host, "" if there is none.
func drawn(host string, among []Candidate) string {
	best, weight := "", uint64(0)
	for _, c := range among {
		if w := Weight(host, c.Peer); best == "" || w >= weight {
			best, weight = c.Peer, w
		}
	}
	return best
}

// Weight returns the weight of a host and a peer, the same at all peers.
func Weight(host, peer string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host))
	h.Write([]byte{0})
	h.Write([]byte(peer))
	return mix(h.Sum64())
}

// mix distributes differences in the last bytes over the whole word, which FNV alone does poorly.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
