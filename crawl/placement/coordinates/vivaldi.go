package coordinates

import (
	"math"
	"math/rand/v2"
	"time"
)

// The constants of Vivaldi (3.1).
const (
	forceGain = 0.25 // c_c: share of a difference by which one update moves a coordinate
	errorGain = 0.25 // c_e: weight of one update in the error estimate
)

const (
	// firstHeight is the initial height, in ms. A height grows and shrinks in proportion to itself, so
	// one that begins near zero would stay there for long.
	firstHeight = 10
	// minSample and maxSample bound samples in ms: below is the resolution of clocks, above are
	// timeouts. Those beyond are clamped.
	minSample = 0.05
	maxSample = 60_000
	// coincide is the distance in ms below which a direction is undefined, so a random one is used.
	coincide = 1e-6
)

// Vivaldi maintains one coordinate (3.1): each sample moves it along the line to the other side,
// farther if that side is more certain. Subtracting vectors adds heights, so a force is divided
// between vector and height in proportion to their parts of the distance.
type Vivaldi struct {
	at      Coordinate
	rnd     *rand.Rand
	updates int
}

// NewVivaldi returns a coordinate at the origin with the maximum error. The random source separates
// coordinates that coincide.
func NewVivaldi(rnd *rand.Rand) *Vivaldi {
	return &Vivaldi{at: fresh(), rnd: rnd}
}

func fresh() Coordinate { return Coordinate{Height: firstHeight, Error: 1} }

// At returns the coordinate.
func (v *Vivaldi) At() Coordinate { return v.at }

// clamp limits a sample to the bounds and returns it in ms.
func clamp(took time.Duration) float64 { return min(max(millis(took), minSample), maxSample) }

// Update moves it by a filtered sample, in ms, to a remote coordinate.
func (v *Vivaldi) Update(remote *Coordinate, ms float64) {
	ms = min(max(ms, minSample), maxSample)
	distance := v.at.Distance(remote)
	weight := 1.0
	if total := v.at.Error + remote.Error; total > 0 {
		weight = v.at.Error / total
	}
	off := math.Abs(distance-ms) / ms
	v.at.Error = min(off*errorGain*weight+v.at.Error*(1-errorGain*weight), maxError)
	v.push(remote, forceGain*weight*(ms-distance), distance)
	v.updates++
	if !v.sane() {
		v.at = fresh()
	}
}

// push moves it by so many ms away from remote (towards it if negative).
func (v *Vivaldi) push(remote *Coordinate, by, distance float64) {
	flat := v.at.flat(remote)
	if flat < coincide { // the whole distance in a random direction
		unit := v.direction()
		for i := range v.at.Vec {
			v.at.Vec[i] += by * unit[i]
		}
		return
	}
	for i := range v.at.Vec {
		v.at.Vec[i] += by * (v.at.Vec[i] - remote.Vec[i]) / distance
	}
	v.at.Height = max(v.at.Height+by*(v.at.Height+remote.Height)/distance, minHeight)
}

// direction returns a random unit vector.
func (v *Vivaldi) direction() [Dimensions]float64 {
	var unit [Dimensions]float64
	sum := 0.0
	for i := range unit {
		unit[i] = v.rnd.NormFloat64()
		sum += unit[i] * unit[i]
	}
	if sum == 0 {
		unit[0], sum = 1, 1
	}
	for i := range unit {
		unit[i] /= math.Sqrt(sum)
	}
	return unit
}

// sane reports whether it is within bounds; false for NaN.
func (v *Vivaldi) sane() bool {
	for _, x := range v.at.Vec {
		if !(math.Abs(x) <= MaxMillis) {
			return false
		}
	}
	return v.at.Height <= MaxMillis && v.at.Error <= maxError
}
