// Package ipmicra repeats the experiments of IPMicra (papers 2.6): cost and benefit of probes.
package ipmicra

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// ipmicraRuns repeats an experiment with other crawlers and sites of one internet, and collects the
// results.
type ipmicraRuns struct {
	net   *internet.Internet
	tree  *ipmicra.Tree
	at    *worlds.Addresses
	peers int
	found probesRows
}

// newIPMicraRuns reads the internet and its hierarchy; peers is the default number of crawlers.
func newIPMicraRuns(o *trial.Options, r *report.Report, peers int) (*ipmicraRuns, error) {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return nil, err
	}
	tree, err := ipmicra.Build(net.Hierarchy())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trial.ErrOptions, err)
	}
	peers = o.Count(peers)
	r.Input("peers", peers)
	return &ipmicraRuns{net: net, tree: tree, at: worlds.NewAddresses(o, net), peers: peers}, nil
}

// repeat calls once for each repeat, with its own random source.
func (p *ipmicraRuns) repeat(o *trial.Options, r *report.Report, progress trial.Progress, once func(rnd *rand.Rand) error) error {
	repeats := trial.Either(o, 20, 3)
	r.Input("repeats", repeats)
	for i := range repeats {
		progress(fmt.Sprintf("repeat %d", i+1), float64(i)/float64(repeats))
		if err := once(o.Rand(uint64(i))); err != nil { // not negative
			return err
		}
	}
	return nil
}

// scene returns all round trips between crawlers and sites.
func (p *ipmicraRuns) scene(crawlers, sites []int) (*ipmicraScene, error) {
	return newIPMicraScene(p.net, p.tree, p.at, crawlers, sites)
}

// probesRows holds the results of the repeats by row, and the probes of each site in order for the
// learning curve.
type probesRows struct {
	order []string
	rows  map[string]*collected
	turns map[int][][]int // by number of crawlers
}

func (p *probesRows) row(name string) *collected {
	if p.rows == nil {
		p.rows = make(map[string]*collected)
	}
	if p.rows[name] == nil {
		p.rows[name] = new(collected)
		p.order = append(p.order, name)
	}
	return p.rows[name]
}

// table writes medians of the draws beside the paper's figures. Metrics without a unit are shares
// of the sites.
func (p *probesRows) table(r *report.Report, paper map[string]map[string]float64, units map[string]string) {
	for _, name := range p.order {
		row := p.rows[name]
		for _, metric := range row.order {
			unit, ok := units[metric]
			if !ok {
				unit = "% of sites"
			}
			published, ok := paper[name][metric]
			if !ok {
				published = math.NaN()
			}
			if len(row.values[metric]) > 0 {
				r.Table.Drawn(name, metric, unit, published, row.values[metric])
			}
		}
	}
}
