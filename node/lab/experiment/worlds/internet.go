// Package worlds has what several experiments share: the internet of the options, crawlers and
// sites with addresses and positions, peers on a ring, and the placement loop of a strategy.
package worlds

import (
	"cmp"
	"fmt"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/geoip"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Internet returns the internet of the options' files, or one made from the seed, and records it in
// the report. With fill, gaps of a matrix get its median.
func Internet(o *trial.Options, r *report.Report, fill bool) (*internet.Internet, error) {
	n, err := internet.Load(internet.Options{Seed: o.Seed, RTT: o.RTT, Prefixes: o.Prefixes, Hierarchy: o.Hierarchy, Fill: fill})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trial.ErrOptions, err)
	}
	r.Input("rtt", cmp.Or(o.RTT, "synthetic"))
	if o.Prefixes != "" {
		r.Input("prefixes", o.Prefixes)
	}
	if o.Hierarchy != "" {
		r.Input("hierarchy", o.Hierarchy)
		r.Input("networks", len(n.Hierarchy()))
	}
	r.Input("internet", n.Stats())
	return n, nil
}

// Locate returns the position of a host in a database: its city, or else the center of its country.
func Locate(net *internet.Internet, host int) placement.Position {
	if lat, lon, ok := net.Position(host); ok {
		return placement.Position{Lat: lat, Lon: lon, Precision: placement.CityPosition}
	}
	return geoip.Centroid(net.Country(host))
}
