package internet

import (
	_ "embed"
	"encoding/csv"
	"math"
	"strconv"
	"strings"
)

// city is a location. Positions are facts, rounded; weights estimate the share of homes and
// universities, and of hosting companies and clouds, relative to other cities. They are rough
// guesses, so that crawlers and sites concentrate where real ones do.
type city struct {
	country     string
	registry    rir
	north, east float64 // degrees
	people      float64
	hosting     float64
}

// rir is one of the five regional internet registries.
type rir uint8

const (
	afrinic rir = iota
	apnic
	arin
	lacnic
	ripe
	registries
)

// firstOctets are some of the /8 blocks of each registry.
var firstOctets = [registries][]byte{
	afrinic: {41, 102, 105},
	apnic:   {1, 14, 27, 39, 42, 49, 58, 101, 103, 110, 113, 118},
	arin:    {23, 24, 50, 63, 64, 66, 67, 68, 69, 72, 74, 96, 98, 104, 107},
	lacnic:  {177, 179, 181, 186, 189, 190},
	ripe:    {31, 37, 46, 62, 77, 78, 79, 80, 81, 82, 85, 91, 93, 109},
}

// registryNames are those of cities.csv.
var registryNames = map[string]rir{"afrinic": afrinic, "apnic": apnic, "arin": arin, "lacnic": lacnic, "ripe": ripe}

//go:embed cities.csv
var citiesCSV string

// cities are the lines of cities.csv.
var cities = readCities()

func readCities() (list []city) {
	lines, err := csv.NewReader(strings.NewReader(citiesCSV)).ReadAll()
	if err != nil {
		panic(err) // the file is part of the program
	}
	for _, line := range lines[1:] {
		var n [4]float64
		for i := range n {
			if n[i], err = strconv.ParseFloat(line[2+i], 64); err != nil {
				panic(err)
			}
		}
		list = append(list, city{country: line[0], registry: registryNames[line[1]], north: n[0], east: n[1], people: n[2], hosting: n[3]})
	}
	return list
}

// distance returns the great-circle distance of two cities, in km.
func distance(a, b int) float64 {
	const earth, degree = 6371, math.Pi / 180
	p, q := &cities[a], &cities[b]
	north := math.Pow(math.Sin((p.north-q.north)*degree/2), 2)
	east := math.Pow(math.Sin((p.east-q.east)*degree/2), 2)
	return 2 * earth * math.Asin(math.Sqrt(north+math.Cos(p.north*degree)*math.Cos(q.north*degree)*east))
}
