package placer

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/geoip"
)

// strategies maps the name of each strategy to its setup in a placer: its machine, and its ring
// state. A further one that only chooses needs a line with plain here; see CONTRIBUTING.md for its
// other parts.
var strategies = map[string]func(pl *Placer) error{
	"adaptive":    (*Placer).adapt,
	"coordinates": (*Placer).byCoordinates,
	"geo":         (*Placer).byCountry,
	"ipmicra":     (*Placer).delegate,
	"owner":       plain(placement.Owner{}),
	"random":      plain(placement.Random{}),
	"rtt":         plain(placement.RTT{}),
}

// Names returns the names of the strategies.
func Names() []string { return slices.Sorted(maps.Keys(strategies)) }

// plain sets up a strategy that needs only the measurements of candidates.
func plain(s placement.Strategy) func(pl *Placer) error {
	return func(pl *Placer) error {
		pl.strategy = s
		return nil
	}
}

// setUp sets up the configured strategy.
func (pl *Placer) setUp() error {
	set, ok := strategies[pl.cfg.Strategy]
	if !ok {
		return fmt.Errorf("placement %q: want one of %s", pl.cfg.Strategy, strings.Join(Names(), ", "))
	}
	return set(pl)
}

// byCountry places by the positions of addresses.
func (pl *Placer) byCountry() error {
	geo := new(placement.Geo)
	pl.strategy = geo
	if pl.cfg.GeoIP == "" {
		return nil
	}
	var err error
	geo.Locator, err = geoip.Open(pl.cfg.GeoIP)
	return err
}

// adapt places by the strategy adaptive, whose samples neighbors exchange.
func (pl *Placer) adapt() error {
	seed := fnv.New64a()
	seed.Write([]byte(pl.deps.Self)) // so that peers do not explore the same sites
	s := adaptive.New(seed.Sum64())
	pl.strategy, pl.samples = s, newSampleGossip(s, &pl.mu, &pl.deps)
	return nil
}

// byCoordinates places by network coordinates, which neighbors exchange.
func (pl *Placer) byCoordinates() error {
	s := newLocated(&pl.deps)
	pl.strategy, pl.gossip = s, s.gossip
	return nil
}

// delegate places by records of subnets on the ring.
func (pl *Placer) delegate() error {
	tree, err := loadTree(pl.cfg.Hierarchy)
	if err != nil {
		return err
	}
	pl.delegations = newDelegations(tree, string(pl.deps.Self), pl.deps.Records, pl.deps.Log)
	return nil
}
