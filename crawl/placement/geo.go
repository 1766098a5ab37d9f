package placement

import (
	"fmt"
	"math"
	"net/netip"
)

// Precision says what a position is made of.
type Precision uint8

const (
	// NoPosition: nothing is known.
	NoPosition Precision = iota
	// CountryPosition: the middle of a country, which may be thousands of kilometres off.
	CountryPosition
	// CityPosition: some city.
	CityPosition
)

// String is country, city or none.
func (p Precision) String() string {
	switch p {
	case CountryPosition:
		return "country"
	case CityPosition:
		return "city"
	default:
		return "none"
	}
}

// Position is where an address is believed to be, in degrees north and east; without meaning if
// Precision is NoPosition.
type Position struct {
	Lat, Lon  float64   // degrees
	Precision Precision // what the position is made of
}

// earthRadius is the mean one, in kilometres.
const earthRadius = 6371.0

// Distance is the length of the great circle between two positions in kilometres.
func (p Position) Distance(q Position) float64 {
	const degree = math.Pi / 180
	lat, lon := math.Sin((p.Lat-q.Lat)*degree/2), math.Sin((p.Lon-q.Lon)*degree/2)
	h := lat*lat + math.Cos(p.Lat*degree)*math.Cos(q.Lat*degree)*lon*lon
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1)))
}

// Locator finds positions of addresses. It answers at once, and with NoPosition for an address that
// it does not know, the zero address among them.
type Locator interface {
	Locate(addr netip.Addr) Position // returns where an address is
}

// Geo gives a host to the candidate with the smallest great-circle distance to the site (papers
// 3.4, the thesis' baseline). It measures nothing.
//
// Where positions are those of countries, many candidates are equally far: the owner keeps the host
// if it is among them, else one of them is drawn by the host's hash, so that they share a country's
// sites. A site that cannot be located stays with its owner, and a candidate that cannot is passed
// over.
type Geo struct {
	// Locator knows positions; without one every host stays with its owner.
	Locator Locator
}

// Next implements Strategy.
func (g *Geo) Next(v *View) Choice {
	able := v.Able()
	stays := func(why string) Choice { return Choice{Worker: keeper(able), Why: why + ": the owner keeps the host"} }
	if g.Locator == nil {
		return stays("no database of positions")
	}
	if len(able) < 2 {
		return stays("no other candidate")
	}
	if !v.Site.IsValid() {
		return stays("the address of the site is not known")
	}
	site := g.Locator.Locate(v.Site)
	if site.Precision == NoPosition {
		return stays(fmt.Sprintf("no position known for %v", v.Site))
	}
	nearest, distance, precision := g.nearest(able, site)
	if len(nearest) == 0 {
		return stays("no candidate's position is known")
	}
	worker := drawn(v.Host, nearest)
	for _, c := range nearest {
		if c.Self {
			worker = c.Peer
		}
	}
	return Choice{Worker: worker, Why: fmt.Sprintf("%.0f km to the site, the least (by %v and %v), %d as near", distance, precision, site.Precision, len(nearest))}
}

// nearest are the candidates at the least distance, how far that is, and how well the first of them
// is located.
func (g *Geo) nearest(able []Candidate, site Position) (nearest []Candidate, distance float64, precision Precision) {
	distance = math.Inf(1)
	for _, c := range able {
		at := g.Locator.Locate(c.Addr)
		if at.Precision == NoPosition {
			continue
		}
		switch d := at.Distance(site); {
		case d < distance:
			nearest, distance, precision = []Candidate{c}, d, at.Precision
		case d == distance:
			nearest = append(nearest, c)
		}
	}
	return nearest, distance, precision
}
