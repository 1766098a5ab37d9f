package experiment

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
)

func TestOptions(t *testing.T) {
	e, err := Find("placement")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]trial.Options{
		"peers": {Peers: -1}, "hours": {Hours: -1}, "too long": {Hours: 1e9}, "no hours": {Hours: math.NaN()}, "rtt": {RTT: filepath.Join(t.TempDir(), "none")},
		"every": {Every: 0.01}, "no days": {Every: math.NaN()},
	} {
		if _, err := trial.Run(t.Context(), e, o, t.TempDir(), report.Run{}, nil); !errors.Is(err, trial.ErrOptions) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Find("plcement"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "placement") {
		t.Errorf("error %v", err)
	}
}

func TestMatricesTooSmall(t *testing.T) {
	for _, name := range []string{"ipmicra-probes", "ipmicra-download", "ipmicra-load", "placement", "coordinates-strategies", "coordinates-overhead"} {
		e, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, nodes := range []int{1, 4} {
			if _, err := trial.Run(t.Context(), e, trialtest.Clusters(t, nodes), t.TempDir(), report.Run{}, nil); !errors.Is(err, trial.ErrOptions) {
				t.Errorf("%s, %d nodes: error %v", name, nodes, err)
			}
		}
	}
}

func TestAllInTheOrderOfNames(t *testing.T) {
	if !slices.IsSortedFunc(All(), func(a, b *trial.Experiment) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
}

func TestAllHaveExpectedTimes(t *testing.T) {
	for _, e := range All() {
		if usual, quick := Expected(e.Name, &trial.Options{}), Expected(e.Name, &trial.Options{Quick: true}); quick <= 0 || usual < quick {
			t.Errorf("%s: %v, quick %v", e.Name, usual, quick)
		}
	}
}
