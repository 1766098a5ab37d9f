package internet

import "math"

// draws is a random generator seeded by a name: equal names give equal numbers, independent of
// other draws. It needs no memory and no constructor.
type draws uint64

// named returns the generator of a name of a few integers.
func named(seed uint64, name ...uint64) draws {
	h := mix(seed)
	for _, n := range name {
		h = mix(h ^ n)
	}
	return draws(h)
}

// next returns 64 random bits.
func (d *draws) next() uint64 {
	*d++
	return mix(uint64(*d))
}

// below returns a random number of [0, n).
func (d *draws) below(n int) int { return int(d.next() >> 1 % uint64(n)) } // n is positive and small

// share returns a random number of [0, 1).
func (d *draws) share() float64 { return float64(d.next()>>11) / (1 << 53) }

// chance returns true with probability p.
func (d *draws) chance(p float64) bool { return d.share() < p }

// normal returns a number of the standard normal distribution (Box-Muller).
func (d *draws) normal() float64 {
	u := 1 - d.share()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*d.share())
}

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
