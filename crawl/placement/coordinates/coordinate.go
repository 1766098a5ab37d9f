package coordinates

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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

// millis returns a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
