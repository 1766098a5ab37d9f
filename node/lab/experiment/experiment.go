package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/apoidea"
	"github.com/apoidea/apoidea/node/lab/experiment/bandwidth"
	"github.com/apoidea/apoidea/node/lab/experiment/coordinates"
	"github.com/apoidea/apoidea/node/lab/experiment/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/placement"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// ErrUnknown is returned for an unknown name.
var ErrUnknown = errors.New("unknown experiment")

// all lists the experiments by name.
var all = []*trial.Experiment{
	&apoidea.Peers, &apoidea.Proximity, &apoidea.Threads, &bandwidth.Governors,
	&coordinates.Adapt, &coordinates.Crawl, &coordinates.Overhead, &coordinates.Strategies,
	&ipmicra.Download, &ipmicra.Load, &ipmicra.Probes, &placement.Strategies, &placement.Today,
}

// All lists the experiments by name.
func All() []*trial.Experiment { return slices.Clone(all) }

// Overview returns what each experiment measures, for help.
func Overview() string {
	var b strings.Builder
	b.WriteString("Run an experiment with: apoidea experiment run NAME -o DIR. The tables are in docs/experiments.md.\n")
	for _, e := range all {
		fmt.Fprintf(&b, "\n%s: %s.\n\n%s\n", e.Name, e.About, e.Long)
	}
	return b.String()
}

// seconds has the wall-clock times of default and quick runs on two cores.
var seconds = map[string][2]time.Duration{
	"apoidea-peers": {30, 3}, "apoidea-proximity": {1, 1}, "apoidea-threads": {1, 1}, "bandwidth": {10, 2},
	"coordinates-adapt": {10, 10}, "coordinates-crawl": {10, 10}, "coordinates-overhead": {10, 3}, "coordinates-strategies": {15, 3},
	"ipmicra-download": {10, 3}, "ipmicra-load": {120, 90}, "ipmicra-probes": {40, 15}, "placement": {45, 8}, "placement-today": {120, 25},
}

// Expected returns the approximate duration of a run on two cores with default options.
func Expected(name string, o *trial.Options) time.Duration {
	return trial.Either(o, seconds[name][0], seconds[name][1]) * time.Second
}

// Find returns the experiment named name; the error wraps ErrUnknown and lists all names.
func Find(name string) (*trial.Experiment, error) {
	var names []string
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("%w: %q, expected one of %s", ErrUnknown, name, strings.Join(names, ", "))
}
