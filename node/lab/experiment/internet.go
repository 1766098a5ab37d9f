package experiment

import (
	"cmp"
	"fmt"

	"github.com/apoidea/apoidea/node/lab/internet"
)

// loadInternet makes what the files of the options say, or an internet from the seed, and notes in the report what it is like. With fill the holes of a
// matrix have its median.
func loadInternet(o *Options, r *Report, fill bool) (*internet.Internet, error) {
	n, err := internet.Load(internet.Options{Seed: o.Seed, RTT: o.RTT, Prefixes: o.Prefixes, Hierarchy: o.Hierarchy, Fill: fill})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
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
