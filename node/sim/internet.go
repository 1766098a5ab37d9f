package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Internet says how long a message and its answer take between two hosts, numbered from 0 without an end.
type Internet interface {
	RTT(i, j int) time.Duration
}

// cities are where the hosts of a synthetic internet stand, with how many of them: degrees north and east, and a weight.
var cities = []struct{ north, east, weight float64 }{
	{40.7, -74.0, 8},
	{42.4, -71.1, 4},
	{38.9, -77.0, 5},
	{33.7, -84.4, 3},
	{41.9, -87.6, 4},
	{32.8, -96.8, 3},
	{39.7, -105.0, 2},
	{37.8, -122.4, 7},
	{34.1, -118.2, 5},
	{47.6, -122.3, 3},
	{43.7, -79.4, 3},
	{19.4, -99.1, 2},
	{-23.6, -46.6, 3},
	{-34.6, -58.4, 1},
	{51.5, -0.1, 6},
	{48.9, 2.4, 5},
	{52.5, 13.4, 4},
	{50.1, 8.7, 5},
	{52.4, 4.9, 4},
	{59.3, 18.1, 2},
	{41.4, 2.2, 2},
	{45.5, 9.2, 3},
	{52.2, 21.0, 2},
	{55.8, 37.6, 2},
	{41.0, 29.0, 1},
	{32.1, 34.8, 1},
	{30.0, 31.2, 1},
	{-26.2, 28.0, 1},
	{25.2, 55.3, 1},
	{19.1, 72.9, 2},
	{12.9, 77.6, 2},
	{1.4, 103.8, 3},
	{22.3, 114.2, 3},
	{31.2, 121.5, 3},
	{39.9, 116.4, 3},
	{37.6, 127.0, 3},
	{35.7, 139.7, 5},
	{25.0, 121.5, 2},
	{-33.9, 151.2, 2},
	{-37.8, 145.0, 1},
}

// synthetic is an internet made from a seed. It remembers what it has drawn.
type synthetic struct {
	seed  uint64
	paths [][]float64 // ms between cities
	hosts []place
}

// place is where a host stands, and the milliseconds of its last mile.
type place struct {
	city     int
	lastMile float64
}

// NewSynthetic returns an internet from a seed: hosts in cities of the world, light in fibre over the great circle (1 ms a round trip for 100 km), a
// detour for each pair of cities, and a last mile for each host. Its round trips have about the median and spread of measured ones. Not safe for
// concurrent use.
func NewSynthetic(seed uint64) Internet {
	s := &synthetic{seed: seed, paths: make([][]float64, len(cities))}
	rnd := rand.New(rand.NewPCG(seed, 0x706174))
	for a := range cities {
		s.paths[a] = make([]float64, len(cities))
		s.paths[a][a] = 0.5
		for b := range a {
			ms := greatCircle(a, b) / 100 * min(1.35+0.35*rnd.ExpFloat64(), 4)
			s.paths[a][b], s.paths[b][a] = ms, ms
		}
	}
	return s
}

// host draws where a host stands.
func (s *synthetic) host(i int) *place {
	for len(s.hosts) <= i {
		r := rand.New(rand.NewPCG(s.seed, uint64(len(s.hosts))+0x686f7374)) //nolint:gosec // not negative
		total := 0.0
		for _, c := range cities {
			total += c.weight
		}
		p := place{lastMile: min(math.Exp(0.9+0.9*r.NormFloat64()), 60)}
		for left := r.Float64() * total; p.city < len(cities)-1 && left >= cities[p.city].weight; p.city++ {
			left -= cities[p.city].weight
		}
		s.hosts = append(s.hosts, p)
	}
	return &s.hosts[i]
}

// RTT implements Internet.
func (s *synthetic) RTT(i, j int) time.Duration {
	if i == j {
		return 50 * time.Microsecond
	}
	i, j = min(i, j), max(i, j)
	b, a := s.host(j), s.host(i)
	// The providers of this pair may take a detour of their own: 1 to 1.5 times, most often little.
	u := float64(mix(s.seed^uint64(i)<<32^uint64(j))>>11) / (1 << 53) //nolint:gosec // not negative
	ms := a.lastMile + b.lastMile + s.paths[a.city][b.city]*(1+0.5*u*u*u)
	return time.Duration(ms * float64(time.Millisecond))
}

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// greatCircle is the distance of two cities in km.
func greatCircle(a, b int) float64 {
	const earth, degree = 6371, math.Pi / 180
	p, q := cities[a], cities[b]
	north := math.Pow(math.Sin((p.north-q.north)*degree/2), 2)
	east := math.Pow(math.Sin((p.east-q.east)*degree/2), 2)
	return 2 * earth * math.Asin(math.Sqrt(north+math.Cos(p.north*degree)*math.Cos(q.north*degree)*east))
}

// Matrix is an internet of measured round trips. Hosts beyond its size stand beside those of the same row.
type Matrix struct {
	n    int
	data []time.Duration
}

const (
	// maxMatrix bounds the rows of a matrix: 4096 take 128 MB.
	maxMatrix = 4096
	// besides is the round trip of hosts at the same row of a matrix: the median distance to the nearest host in the PlanetLab measurements.
	besides = 200 * time.Microsecond
)

// Size is the number of rows.
func (m *Matrix) Size() int { return m.n }

// RTT implements Internet.
func (m *Matrix) RTT(i, j int) time.Duration {
	if i%m.n == j%m.n {
		return besides
	}
	return m.data[i%m.n*m.n+j%m.n]
}

// LoadMatrix reads a square matrix of round trips in milliseconds: CSV without header or labels, plain or gzip, NaN where nothing was measured. A hole takes
// the value of the other direction, else the median.
func LoadMatrix(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("rtt matrix: %w", err)
	}
	defer f.Close()
	m, err := readMatrix(f)
	if err != nil {
		return nil, fmt.Errorf("rtt matrix %s: %w", path, err)
	}
	return m, nil
}

func readMatrix(file io.Reader) (*Matrix, error) {
	in := bufio.NewReader(file)
	plain := io.Reader(in)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		defer func() { _ = z.Close() }() // it was only read from
		plain = z
	}
	rows := csv.NewReader(plain)
	var ms [][]float64
	for {
		fields, err := rows.Read() // refuses rows of another length than the first
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(fields) > maxMatrix || len(ms) == len(fields) {
			return nil, fmt.Errorf("not a square of at most %d rows", maxMatrix)
		}
		row := make([]float64, len(fields))
		for j, field := range fields {
			if row[j], err = strconv.ParseFloat(strings.TrimSpace(field), 64); err != nil {
				return nil, fmt.Errorf("row %d: %w", len(ms)+1, err)
			}
		}
		ms = append(ms, row)
	}
	if len(ms) == 0 || len(ms) != len(ms[0]) {
		return nil, errors.New("not a square")
	}
	return newMatrix(ms)
}

func newMatrix(ms [][]float64) (*Matrix, error) {
	var known []float64
	good := func(v float64) bool { return v >= 0 && v < 1e6 }
	for i, row := range ms {
		for j, v := range row {
			if i != j && good(v) {
				known = append(known, v)
			}
		}
	}
	if len(known) == 0 && len(ms) > 1 {
		return nil, errors.New("no round trip is known")
	}
	slices.Sort(known)
	m := &Matrix{n: len(ms), data: make([]time.Duration, len(ms)*len(ms))}
	for i, row := range ms {
		for j, v := range row {
			switch {
			case i == j:
				continue
			case good(v):
			case good(ms[j][i]):
				v = ms[j][i]
			default:
				v = known[len(known)/2]
			}
			m.data[i*m.n+j] = max(time.Duration(v*float64(time.Millisecond)), 10*time.Microsecond)
		}
	}
	return m, nil
}
