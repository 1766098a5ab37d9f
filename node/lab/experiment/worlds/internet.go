// Package worlds is what experiments of several papers draw alike: the internet of the options,
// crawlers and sites in it with their addresses and places, peers on a ring, and how a strategy
// comes to place a site.
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

// Internet makes what the files of the options say, or an internet from the seed, and notes in the
// report what it is like. With fill the holes of a matrix have its median.
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

// Locate is where a database believes a host to be: its city, or the middle of its country where
// only that is known.
func Locate(net *internet.Internet, host int) placement.Position {
	if lat, lon, ok := net.Position(host); ok {
		return placement.Position{Lat: lat, Lon: lon, Precision: placement.CityPosition}
	}
	return geoip.Centroid(net.Country(host))
}
