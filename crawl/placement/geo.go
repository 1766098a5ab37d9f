package placement

import (
	"fmt"
	"math"
	"net/netip"
)

// Precision is the source of a position.
type Precision uint8

const (
	// NoPosition: unknown.
	NoPosition Precision = iota
	// CountryPosition: the middle of a country, which may be thousands of kilometers off.
	CountryPosition
	// CityPosition: a city.
	CityPosition
)

// String returns country, city or none.
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

// Position is the presumed location of an address, in degrees north and east; undefined if
// Precision is NoPosition.
type Position struct {
	Lat, Lon  float64   // degrees
	Precision Precision // source of the position
}

// earthRadius is the mean radius in kilometers.
const earthRadius = 6371.0

// Distance returns the great-circle distance between two positions in kilometers.
func (p Position) Distance(q Position) float64 {
	const degree = math.Pi / 180
	lat, lon := math.Sin((p.Lat-q.Lat)*degree/2), math.Sin((p.Lon-q.Lon)*degree/2)
	h := lat*lat + math.Cos(p.Lat*degree)*math.Cos(q.Lat*degree)*lon*lon
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1)))
}

// Locator looks up positions of addresses. It does not block, and returns NoPosition for an unknown
// or invalid address.
type Locator interface {
	Locate(addr netip.Addr) Position // returns the position of an address
}

// Geo selects the candidate with the smallest great-circle distance to the site (papers 3.4, the
// thesis' baseline). It measures nothing.
//
// With positions of countries, many candidates are equally far: the owner keeps the host if it is
// among them, else one of them is selected by the host's hash, so that they share a country's
// sites. A site without a position stays with its owner, and a candidate without one is skipped.
type Geo struct {
	// Locator looks up positions; without one every host stays with its owner.
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
	return Choice{Worker: worker, Why: fmt.Sprintf("%.0f km to the site, the smallest distance (by %v and %v), shared by %d", distance, precision, site.Precision, len(nearest))}
}

// nearest returns the candidates at the smallest distance, that distance, and the precision of the
// first of them.
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
