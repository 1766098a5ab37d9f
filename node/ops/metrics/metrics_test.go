package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

func reading(context.Context) (*Reading, error) {
	r := &Reading{
		Services: map[string]Service{"ring": {CallsOut: 1}},
		Work:     worker.Stats{Requests: 7}, DiskFree: 5, Profile: "lab",
	}
	r.Work.Outcomes[link.OutcomeOK] = 3
	r.Status = control.Status{State: "crawling", Version: "1", Network: "main", Counters: control.Counters{Pages: 3}}
	return r, nil
}

func full() *Metrics {
	m := New()
	m.Of(reading)
	m.Fetched(20*time.Millisecond, true)
	m.LookedUp(time.Millisecond, 2)
	m.Event("join")
	return m
}

// TestTable compares gathered names, kinds, labels and help texts with the table and runs promlint.
func TestTable(t *testing.T) {
	families, err := full().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	got := make(map[string]string)
	for _, f := range families {
		if name, ours := strings.CutPrefix(f.GetName(), namespace); ours {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			got[name] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ",") + " " + f.GetHelp()
		}
	}
	want := make(map[string]string)
	for _, s := range table() {
		if want[s.name] != "" || s.help == "" || !strings.HasSuffix(s.help, ".") {
			t.Errorf("row %s: duplicate, or help is not a sentence", s.name)
		}
		want[s.name] = s.kind + " " + strings.Join(slices.Sorted(slices.Values(s.labels)), ",") + " " + s.help
	}
	if !maps.Equal(got, want) {
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s: gathered %q, table has %q", name, got[name], want[name])
			}
		}
		t.Errorf("%d series gathered, %d in the table", len(got), len(want))
	}
}

// TestDocument compares docs/metrics.md with the table; -update writes the file.
func TestDocument(t *testing.T) {
	const path = "../../../docs/metrics.md"
	var b bytes.Buffer
	if err := document(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s differs from the table (%v); run go test ./node/ops/metrics -update", path, err)
	}
}

var seriesName = regexp.MustCompile(`\b(apoidea|go|process)_[a-z0-9_]+`)

// TestDashboard checks that each series of the Grafana dashboard exists.
func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/grafana/apoidea.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		UID    string
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil || board.Title == "" || board.UID == "" || len(board.Panels) < 8 {
		t.Fatalf("dashboard %q with %d panels, %v", board.Title, len(board.Panels), err)
	}
	families, err := full().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, f := range families {
		known[f.GetName()] = true
		if f.GetType().String() == "HISTOGRAM" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				known[f.GetName()+part] = true
			}
		}
	}
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no target", p.Title)
		}
		for _, target := range p.Targets {
			names := seriesName.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q: no series in %q", p.Title, target.Expr)
			}
			for _, name := range names {
				if !known[name] {
					t.Errorf("panel %q: unknown series %s", p.Title, name)
				}
			}
		}
	}
}

// TestHandler checks that recorded series are served when the peer cannot be read.
func TestHandler(t *testing.T) {
	m := New()
	m.Of(func(context.Context) (*Reading, error) { return nil, errors.New("busy") })
	m.Event("join")
	var log bytes.Buffer
	answer := httptest.NewRecorder()
	m.Handler(slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	body := answer.Body.String()
	if answer.Code != 200 || !strings.Contains(body, `apoidea_ring_events_total{event="join"} 1`) || strings.Contains(body, "apoidea_pages") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("%d: %.300s", answer.Code, body)
	}
	if !strings.Contains(log.String(), "busy") {
		t.Errorf("log %q", log.String())
	}
}
