package main

import (
	"bytes"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
)

// TestChurnIsTheSameForASeed compares two small runs of the whole experiment.
func TestChurnIsTheSameForASeed(t *testing.T) {
	run := func(seed uint64) map[string][]byte {
		_, files := trialtest.Run(t, &churn, trial.Options{Seed: seed, Peers: 30, Hours: 0.01})
		return files
	}
	first, second, other := run(1), run(1), run(2)
	for name, data := range first {
		if name != "run.json" && !bytes.Equal(data, second[name]) {
			t.Errorf("%s is another the second time", name)
		}
	}
	if bytes.Equal(first["table.json"], other["table.json"]) {
		t.Error("another seed gave the same table")
	}
}
