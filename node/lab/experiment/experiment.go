package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/lab/experiment/apoidea"
	"github.com/apoidea/apoidea/node/lab/experiment/bandwidth"
	"github.com/apoidea/apoidea/node/lab/experiment/churn"
	"github.com/apoidea/apoidea/node/lab/experiment/coordinates"
	"github.com/apoidea/apoidea/node/lab/experiment/frontier"
	"github.com/apoidea/apoidea/node/lab/experiment/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/placement"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// ErrUnknown is returned for a name that no experiment has.
var ErrUnknown = errors.New("no such experiment")

// all are the experiments by name.
var all = []*trial.Experiment{
	&apoidea.Peers, &apoidea.Proximity, &apoidea.Threads, &bandwidth.Governors, &churn.Churn,
	&coordinates.Adapt, &coordinates.Crawl, &coordinates.Overhead, &coordinates.Strategies,
	&frontier.Frontier, &ipmicra.Download, &ipmicra.Load, &ipmicra.Probes, &placement.Strategies, &placement.Today,
}

// All lists the experiments by name.
func All() []*trial.Experiment { return slices.Clone(all) }

// Find returns the experiment of a name; the error wraps ErrUnknown and names those there are.
func Find(name string) (*trial.Experiment, error) {
	var names []string
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("%w: %q, there are %s", ErrUnknown, name, strings.Join(names, ", "))
}
