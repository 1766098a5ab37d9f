package coordinates

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Dimensions of the space beside the height. Three to five yield 5 to 10 % median error on
// wide-area paths (3.1).
const Dimensions = 4

const (
	// MaxMillis bounds every component of a coordinate: no distance exceeds minutes.
	MaxMillis = 600_000
	// maxError bounds the error estimate: beyond it the position is unknown.
	maxError = 1.5
	// minHeight keeps heights above zero, in milliseconds (3.1: h > 0).
	minHeight = 0.01
)

// Coordinate is a position in the space; the zero value is the origin, with an error of zero, so
// new ones come from [Vivaldi.At].
type Coordinate struct {
	Vec    [Dimensions]float64 // ms
	Height float64             // ms, > 0: access link and processing time of the server or peer
	Error  float64             // relative error of distances from here, 0 to 1.5
	// Queue is the addition of a peer's backlog to its height, in ms (3.8 b). It counts when work is
	// assigned, not when coordinates are estimated: a download does not become slower because others
	// wait behind it.
	Queue float64
}

// Distance returns the expected time between two positions in ms, without their queues: of a gossip
// round trip between peers, of a download between peer and server.
func (c *Coordinate) Distance(to *Coordinate) float64 {
	return c.flat(to) + c.Height + to.Height
}

// Cost returns the distance with both queues, used when work is assigned.
func (c *Coordinate) Cost(to *Coordinate) float64 { return c.Distance(to) + c.Queue + to.Queue }

// flat returns the distance without heights.
func (c *Coordinate) flat(to *Coordinate) float64 {
	sum := 0.0
	for i := range c.Vec {
		d := c.Vec[i] - to.Vec[i]
		sum += d * d
	}
	return math.Sqrt(sum)
}

// The encoding: a version, the number of dimensions, then vector, height, error and queue as
// float32, big endian.
const (
	codecVersion = 1
	// EncodedSize is that of a coordinate in bytes.
	EncodedSize = 2 + 4*(Dimensions+3)
)

// ErrCoordinate is wrapped by the errors of Decode.
var ErrCoordinate = errors.New("coordinate")

// Append appends the encoding of c to b.
func (c *Coordinate) Append(b []byte) []byte {
	b = append(b, codecVersion, Dimensions)
	put := func(v float64) { b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(v))) }
	for _, v := range c.Vec {
		put(v)
	}
	put(c.Height)
	put(c.Error)
	put(c.Queue)
	return b
}

// Decode reads what Append wrote. It rejects other lengths, NaN, and components out of bounds.
func Decode(b []byte) (Coordinate, error) {
	var c Coordinate
	switch {
	case len(b) != EncodedSize:
		return c, fmt.Errorf("%w: %d bytes, want %d", ErrCoordinate, len(b), EncodedSize)
	case b[0] != codecVersion:
		return c, fmt.Errorf("%w: version %d, want %d", ErrCoordinate, b[0], codecVersion)
	case b[1] != Dimensions:
		return c, fmt.Errorf("%w: %d dimensions, want %d", ErrCoordinate, b[1], Dimensions)
	}
	b = b[2:]
	var err error
	get := func(name string, least, most float64) float64 {
		v := float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if !(v >= least && v <= most) && err == nil { // true for NaN as well
			err = fmt.Errorf("%w: %s %v, want %v to %v", ErrCoordinate, name, v, least, most)
		}
		return v
	}
	for i := range c.Vec {
		c.Vec[i] = get("vector", -MaxMillis, MaxMillis)
	}
	c.Height = get("height", 0, MaxMillis)
	c.Error = get("error", 0, maxError)
	c.Queue = get("queue", 0, MaxMillis)
	if err != nil {
		return Coordinate{}, err
	}
	return c, nil
}

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
func clamp(took time.Duration) float64 {
	return min(max(float64(took)/float64(time.Millisecond), minSample), maxSample)
}

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
	return !slices.ContainsFunc(v.at.Vec[:], func(x float64) bool { return !(math.Abs(x) <= MaxMillis) }) && v.at.Height <= MaxMillis && v.at.Error <= maxError
}

// FilterConfig is a moving percentile filter: of the last samples between two parties the one at a
// percentile counts, so that one slow sample does not move a coordinate (3.1). Low percentiles
// tolerate noise, large windows are steadier and slower.
type FilterConfig struct {
	// Max samples are stored, and none is used before there are Min.
	Max, Min int
	// Percentile of the window, 0 to 1, is the value.
	Percentile float64
}

// The settings of the paper's experiments with load and with a slow server. They have no window
// minimum; a quarter of the window was chosen, with which estimation takes about as many updates as
// the thesis measured.
var (
	LoadFilter     = FilterConfig{Max: 20, Min: 5, Percentile: 0.2}
	SlowdownFilter = FilterConfig{Max: 16, Min: 4, Percentile: 0.5}
)

// filter is the window of one pair. The zero value is empty.
type filter struct {
	ordered []float32 // the samples, sorted
	arrived []float32 // the same as a ring, the oldest at next once it is full
	next    int
}

// add adds a sample and returns the value of the window, false while it has too few samples.
func (f *filter) add(cfg *FilterConfig, ms float64) (float64, bool) {
	sample := float32(ms)
	if len(f.arrived) < cfg.Max {
		f.arrived = append(f.arrived, sample)
	} else {
		at, _ := slices.BinarySearch(f.ordered, f.arrived[f.next])
		f.ordered = slices.Delete(f.ordered, at, at+1)
		f.arrived[f.next] = sample
		f.next = (f.next + 1) % cfg.Max
	}
	at, _ := slices.BinarySearch(f.ordered, sample)
	f.ordered = slices.Insert(f.ordered, at, sample)
	return f.value(cfg)
}

// value returns the sample at the percentile.
func (f *filter) value(cfg *FilterConfig) (float64, bool) {
	n := len(f.ordered)
	if n < cfg.Min || n == 0 {
		return 0, false
	}
	return float64(f.ordered[min(int(cfg.Percentile*float64(n)), n-1)]), true
}
