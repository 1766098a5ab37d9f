package trial_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
)

func sample() *report.Report {
	r := &report.Report{Series: []report.Series{{Name: "s", Columns: []string{"a", "b"}, Rows: [][]float64{{1, 2.5}, {math.NaN(), 1.0 / 3}}}}}
	r.Table.Compare("ours", "optimal", "%", 75, 92.25)
	r.Table.Add("ours", "time", "s", 0.1234567890123)
	r.Table.Add("theirs", "time", "s", math.NaN())
	r.Plots = []report.Plot{
		{
			Name: "lines", Title: "A & B <c>", X: "x", Y: "y", Marks: []report.Mark{{X: 1, Label: "now"}},
			Lines: []report.Line{{Label: "one", X: []float64{0, 1, 2}, Y: []float64{1, 5, math.Inf(1)}}, {Label: "two", X: []float64{0, 2}, Y: []float64{0, 3}, Dots: true}},
		},
		{Name: "log", LogX: true, LogY: true, Lines: []report.Line{{X: []float64{0, 10, 1000}, Y: []float64{3, 0.1, 100}, Dashed: true}}},
		{Name: "bars", Groups: []string{"g", "h"}, Bars: []report.Bars{{Label: "a", Values: []float64{1, 2}}, {Label: "b", Values: []float64{3}}}, YMin: 0, YMax: 10},
		{Name: "empty"},
		{Name: "log of nothing", X: "x", Y: "y", LogX: true, LogY: true, Lines: []report.Line{{X: []float64{0, 1}, Y: []float64{1, 0}}}},
	}
	return r
}

func TestRunWritesWholeFilesOnly(t *testing.T) {
	fake := &trial.Experiment{Name: "fake", Run: func(_ context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
		progress("half", 0.5)
		*r = *sample()
		r.Input("peers", o.Peers)
		return nil
	}}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := trial.Run(t.Context(), fake, trial.Options{Seed: 7, Peers: 3}, dir, report.Run{Version: "1.0", Commit: "abc", Command: []string{"apoidea", "experiment"}}, nil); err != nil {
		t.Fatal(err)
	}
	before := trialtest.Contents(t, dir)
	for _, name := range []string{"table.json", "table.csv", "s.csv", "lines.svg", "log.svg", "bars.svg", "empty.svg", "log of nothing.svg", "run.json"} {
		if len(before[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if len(before) != 9 {
		t.Errorf("%d files", len(before))
	}
	var run struct {
		Experiment, Version, Commit string
		Command                     []string
		Seed                        uint64
		Inputs                      map[string]any
		Machine                     struct {
			OS, Arch    string
			CPUs        int
			MemoryBytes uint64 `json:"memory_bytes"`
		}
	}
	if err := json.Unmarshal(before["run.json"], &run); err != nil || run.Seed != 7 || run.Version != "1.0" || run.Inputs["peers"] != 3.0 {
		t.Errorf("run.json: %+v, %v", run, err)
	}
	if m := run.Machine; run.Commit != "abc" || len(run.Command) != 2 || m.OS != runtime.GOOS || m.Arch != runtime.GOARCH || m.CPUs < 1 || m.MemoryBytes < 1<<20 {
		t.Errorf("run.json: %+v", run)
	}

	ctx, cancel := context.WithCancel(t.Context())
	interrupted := &trial.Experiment{Name: "fake", Run: func(_ context.Context, _ *trial.Options, r *report.Report, _ trial.Progress) error {
		r.Table.Add("half", "a", "b", 1)
		cancel()
		return nil
	}}
	if _, err := trial.Run(ctx, interrupted, trial.Options{}, dir, report.Run{Version: "1.0", Commit: "abc", Command: []string{"apoidea", "experiment"}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for name, data := range trialtest.Contents(t, dir) {
		if !bytes.Equal(data, before[name]) {
			t.Errorf("%s is another after an interrupt", name)
		}
	}
}
