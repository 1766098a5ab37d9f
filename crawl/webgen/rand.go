package webgen

// Salts separate the draws for different properties of the same page.
const (
	saltKind uint64 = iota + 1
	saltFault
	saltDuplicate
	saltRedirect
	saltLinks
	saltText
	saltMarks
	saltRobots
	saltSitemap
	saltWords
	saltPages
)

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on
// every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns the number of (seed, host, page) for the property salt.
func (w *Web) draw(salt uint64, host, page int) uint64 {
	const golden = 0x9e3779b97f4a7c15
	x := mix(w.cfg.Seed + salt*golden)
	x = mix(x ^ uint64(host)*golden)
	return mix(x + uint64(page)*golden)
}

// rng is SplitMix64: a sequence of draws that costs a few instructions each.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number in [0, n); n must be positive. The bias of the multiplication is below
// n/2^32.
func (r *rng) below(n int) int { return scale(r.next(), n) }

func scale(x uint64, n int) int { return int((x >> 32) * uint64(n) >> 32) }

// unit maps a draw to [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
