package apoidea

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
)

// TestProcessor checks that tasks share the CPU equally (Apoidea's machines, papers 1.5).
func TestProcessor(t *testing.T) {
	type task struct{ at, work, want time.Duration }
	const ms = time.Millisecond
	tests := map[string]struct {
		share float64
		tasks []task
	}{
		"alone":                 {1, []task{{0, 10 * ms, 10 * ms}}},
		"beside other programs": {0.25, []task{{0, 10 * ms, 40 * ms}}},
		"two alike":             {1, []task{{0, 10 * ms, 20 * ms}, {0, 10 * ms, 20 * ms}}},
		"a short one overtakes": {1, []task{{0, 10 * ms, 12 * ms}, {2 * ms, 2 * ms, 6 * ms}}},
		"one after the other":   {0.5, []task{{0, 10 * ms, 20 * ms}, {30 * ms, 10 * ms, 50 * ms}}},
		"three, staggered":      {1, []task{{0, 4 * ms, 9 * ms}, {1 * ms, 3 * ms, 9 * ms}, {2 * ms, 2 * ms, 8 * ms}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var clock clock.Clock
			p := processor{clock: &clock, share: tt.share}
			ended := make([]time.Duration, len(tt.tasks))
			total := time.Duration(0)
			for i, task := range tt.tasks {
				total += task.work
				clock.After(task.at, func() { p.run(task.work, func() { ended[i] = clock.Elapsed() }) })
			}
			clock.Run(time.Second)
			for i, task := range tt.tasks {
				if d := ended[i] - task.want; d < 0 || d > time.Microsecond {
					t.Errorf("task %d ended at %v, want %v", i, ended[i], task.want)
				}
			}
			if done := p.done(); max(done-total, total-done) > time.Microsecond || len(p.tasks) != 0 {
				t.Errorf("%v of work done and %d tasks left, want %v and none", done, len(p.tasks), total)
			}
		})
	}
}

// TestDisk checks that the disk serves requests in sequence.
func TestDisk(t *testing.T) {
	var clock clock.Clock
	m := newMachine(&clock, &hardware{disk: 30 * time.Millisecond}, 1)
	var ended []time.Duration
	for _, at := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond} {
		clock.After(at, func() { m.store(func() { ended = append(ended, clock.Elapsed()) }) })
	}
	clock.Run(time.Second)
	if want := []time.Duration{30 * time.Millisecond, 60 * time.Millisecond, 130 * time.Millisecond}; !slices.Equal(ended, want) {
		t.Errorf("%v, want %v", ended, want)
	}
}

// TestApoideaBatches checks that messages within the batch time are sent once per destination, and
// cost both sides.
func TestApoideaBatches(t *testing.T) {
	setup := apoideaSetup{
		hardware: &hardware{page: time.Millisecond, call: 2 * time.Millisecond, pageSize: func(*rand.Rand) int { return 1000 }},
		load:     1, peers: 2, threads: 1, sites: make([]time.Duration, 8), server: time.Microsecond, length: 10 * time.Second,
		kinds: []messageKind{{linger: 100 * time.Millisecond, most: 1 << 30, to: func(_ *apoideaCrawl, _ *rand.Rand, from int) []int { return []int{from, 1 - from} }}},
	}
	got, err := runApoidea(t.Context(), rand.New(rand.NewPCG(1, 2)), setup)
	if err != nil {
		t.Fatal(err)
	}
	if got.messages < 190 || got.messages > 202 {
		t.Errorf("%d messages of two peers in ten seconds, want one each every 100 ms", got.messages)
	}
	// Of each second a peer sends and takes ten messages of 2 ms; the rest makes pages of 1 ms.
	if rate := got.perPeer(); rate < 930 || rate > 962 {
		t.Errorf("%.0f pages a second and peer, want about 960", rate)
	}
	setup.kinds[0].most = 4
	if got, err = runApoidea(t.Context(), rand.New(rand.NewPCG(1, 2)), setup); err != nil {
		t.Fatal(err)
	}
	if per := got.perPage(); per < 0.24 || per > 0.26 {
		t.Errorf("%.3f messages a page, want one for four", per)
	}
}

// TestApoideaExperiments checks the papers' results on quick runs: near sites are faster, threads
// help up to saturation, and communication has a cost.
func TestApoideaExperiments(t *testing.T) {
	trialtest.Unraced(t)
	tables := make(map[string]report.Table)
	for _, e := range []*trial.Experiment{&Proximity, &Threads, &Peers} {
		var first []byte
		for range 2 {
			r := new(report.Report)
			if err := e.Run(t.Context(), &trial.Options{Seed: 3, Peers: 8, Quick: true}, r, func(string, float64) {}); err != nil {
				t.Fatal(err)
			}
			trialtest.Named(t, r)
			data, err := r.Table.JSON()
			if err != nil || len(r.Plots) == 0 {
				t.Fatalf("%s: %v, %d plots", e.Name, err, len(r.Plots))
			}
			if first != nil && !bytes.Equal(first, data) {
				t.Errorf("%s: the same seed, another table", e.Name)
			}
			first, tables[e.Name] = data, r.Table
		}
	}
	for _, r := range tables["apoidea-threads"] {
		if strings.Contains(r.Row, "high load") && r.Unit == "%" {
			t.Errorf("%s, %s: the processor's share is put in there", r.Row, r.Metric)
		}
	}
	for _, tt := range []struct {
		table, row, metric string
		least, most        float64
	}{
		{"apoidea-proximity", "near/far", "near_over_far_low_load", 1.5, 3.5},
		{"apoidea-proximity", "near/far", "near_over_far_high_load", 1.02, 1.8},
		{"apoidea-threads", "pentium-550, high load", "best_threads", 2, 4},
		{"apoidea-threads", "pentium-550, low load", "best_threads", 5, 12},
		{"apoidea-threads", "pentium-550, low load", "cpu_at_best", 20, 45},
		{"apoidea-peers", "pentium-550, high load", "pages_2_peers", 60, 80},
		{"apoidea-peers", "pentium-550, high load", "pages_8_peers", 40, 60},
		{"apoidea-peers", "pentium-550, low load", "pages_8_peers", 95, 105},
		{"apoidea-peers", "pentium-550, low load, waits", "pages_2_peers", 80, 95},
		{"apoidea-peers", "pentium-550, low load, waits", "pages_8_peers", 70, 85},
		{"apoidea-peers", "today, full load", "cpu_8_peers", 99, 100},
	} {
		if v, ok := tables[tt.table].Find(tt.row, tt.metric); !ok || v < tt.least || v > tt.most {
			t.Errorf("%s, %s, %s: %v (there: %v), want %v to %v", tt.table, tt.row, tt.metric, v, ok, tt.least, tt.most)
		}
	}
}
