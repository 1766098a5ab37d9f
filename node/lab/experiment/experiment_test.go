package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample() *Report {
	r := &Report{Series: []Series{{Name: "s", Columns: []string{"a", "b"}, Rows: [][]float64{{1, 2.5}, {math.NaN(), 1.0 / 3}}}}}
	r.Table.Compare("ours", "optimal", "%", 75, 92.25)
	r.Table.Add("ours", "time", "s", 0.1234567890123)
	r.Table.Add("theirs", "time", "s", math.NaN())
	r.Plots = []Plot{
		{
			Name: "lines", Title: "A & B <c>", X: "x", Y: "y", Marks: []Mark{{X: 1, Label: "now"}},
			Lines: []Line{{Label: "one", X: []float64{0, 1, 2}, Y: []float64{1, 5, math.Inf(1)}}, {Label: "two", X: []float64{0, 2}, Y: []float64{0, 3}, Dots: true}},
		},
		{Name: "log", LogX: true, LogY: true, Lines: []Line{{X: []float64{0, 10, 1000}, Y: []float64{3, 0.1, 100}, Dashed: true}}},
		{Name: "bars", Groups: []string{"g", "h"}, Bars: []Bars{{"a", []float64{1, 2}}, {"b", []float64{3}}}, YMin: 0, YMax: 10},
		{Name: "empty"},
		{Name: "log of nothing", X: "x", Y: "y", LogX: true, LogY: true, Lines: []Line{{X: []float64{0, 1}, Y: []float64{1, 0}}}},
	}
	return r
}

func TestTable(t *testing.T) {
	table := sample().Table
	data, err := table.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if rows[0]["paper"] != 75.0 || rows[1]["paper"] != nil || rows[1]["here"] != 0.123457 || rows[2]["here"] != nil || len(rows[0]) != 5 {
		t.Errorf("%s", data)
	}
	text := table.Text()
	want := `row     metric   unit  paper |   here
-------------------------------------
ours    optimal  %        75 | 92.250
        time     s         - |  0.123
theirs  time     s         - |      -
`
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
	data, err = table.CSV()
	if want := "row,metric,unit,paper,here\nours,optimal,%,75,92.25\nours,time,s,,0.123457\ntheirs,time,s,,\n"; err != nil || string(data) != want {
		t.Errorf("%v, got\n%swant\n%s", err, data, want)
	}
	if data, err := Table(nil).JSON(); err != nil || string(data) != "[]\n" {
		t.Errorf("empty table: %q, %v", data, err)
	}
	if v, ok := table.Find("ours", "optimal"); !ok || v != 92.25 {
		t.Errorf("found %v, %v", v, ok)
	}
	if _, ok := table.Find("theirs", "time"); ok {
		t.Error("found what was not measured")
	}
}

func TestChartsAreSound(t *testing.T) {
	for _, p := range sample().Plots {
		first, err := p.SVG()
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(first))
		texts := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
				texts++
			}
		}
		if texts < 4 {
			t.Errorf("%s: %d texts", p.Name, texts)
		}
		if second, _ := p.SVG(); !bytes.Equal(first, second) {
			t.Errorf("%s: drawn twice, two pictures", p.Name)
		}
		if bytes.Contains(first, []byte("NaN")) || bytes.Contains(first, []byte("Inf")) {
			t.Errorf("%s: a number that is none", p.Name)
		}
	}
}

func TestRunWritesWholeFilesOnly(t *testing.T) {
	fake := &Experiment{Name: "fake", Run: func(_ context.Context, o *Options, r *Report, progress func(Progress)) error {
		progress(Progress{"half", 0.5})
		*r = *sample()
		r.Input("peers", o.Peers)
		return nil
	}}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := Run(t.Context(), fake, Options{Seed: 7, Peers: 3}, dir, "1.0", nil); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	for _, name := range []string{"table.json", "table.csv", "s.csv", "lines.svg", "log.svg", "bars.svg", "empty.svg", "log of nothing.svg", "run.json"} {
		if len(before[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if len(before) != 9 {
		t.Errorf("%d files", len(before))
	}
	var run struct {
		Experiment, Version string
		Seed                uint64
		Inputs              map[string]any
	}
	if err := json.Unmarshal(before["run.json"], &run); err != nil || run.Seed != 7 || run.Version != "1.0" || run.Inputs["peers"] != 3.0 {
		t.Errorf("run.json: %+v, %v", run, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	interrupted := &Experiment{Name: "fake", Run: func(_ context.Context, _ *Options, r *Report, _ func(Progress)) error {
		r.Table.Add("half", "a", "b", 1)
		cancel()
		return nil
	}}
	if _, err := Run(ctx, interrupted, Options{}, dir, "1.0", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for name, data := range contents(t, dir) {
		if !bytes.Equal(data, before[name]) {
			t.Errorf("%s is another after an interrupt", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = data
	}
	return all
}

func TestOptions(t *testing.T) {
	e, err := Find("churn")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"peers": {Peers: -1}, "hours": {Hours: -1}, "too long": {Hours: 1e9}, "no hours": {Hours: math.NaN()}, "rtt": {RTT: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := Run(t.Context(), e, o, t.TempDir(), "", nil); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Find("chrun"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "churn") {
		t.Errorf("error %v", err)
	}
}

// TestChurnIsTheSameForASeed runs the whole experiment twice, small.
func TestChurnIsTheSameForASeed(t *testing.T) {
	e, err := Find("churn")
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64) map[string][]byte {
		dir := t.TempDir()
		if _, err := Run(t.Context(), e, Options{Seed: seed, Peers: 3, Hours: 0.05}, dir, "", nil); err != nil {
			t.Fatal(err)
		}
		return contents(t, dir)
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

// unraced leaves a test of state machines in virtual time, on one goroutine, to the run without the race detector: there is no race to find, and it
// would take ten times as long.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine in virtual time: not with -short")
	}
}
