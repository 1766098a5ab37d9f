package seed

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins the name of every series.
const namespace = "apoidea_seed_"

// reading is what is read of a seed for one answer.
type reading struct {
	known, answering, proven, spare int
	written                         float64 // seconds since 1970
}

// gauges are what a seed is asked for; counters what is counted as it happens. From these tables
// both the registry and docs/founder.md are made.
var (
	gauges = []struct {
		name, help string
		read       func(r *reading) float64
	}{
		{"peers", "Peers kept.", func(r *reading) float64 { return float64(r.known) }},
		{"peers_answering", "Peers that answered when they were visited last.", func(r *reading) float64 { return float64(r.answering) }},
		{"peers_proven", "Peers that are given.", func(r *reading) float64 { return float64(r.proven) }},
		{"peers_spare", "New peers, given where there are too few others.", func(r *reading) float64 { return float64(r.spare) }},
		{"state_written_timestamp_seconds", "When the state was written last.", func(r *reading) float64 { return r.written }},
	}
	counters = []struct {
		name, help string
		labels     []string
	}{
		{nameQuestions, "Questions by what became of them: answered, no_data, no_such_name, refused; slipped and dropped beyond the rate; malformed; full for a connection too many.", []string{"transport", "result"}},
		{nameVisits, "Visits of peers by what came of them.", []string{"result"}},
	}
)

const (
	nameQuestions = "questions_total"
	nameVisits    = "visits_total"
)

// metrics is the registry of a seed.
type metrics struct {
	registry *prometheus.Registry
	counted  map[string]*prometheus.CounterVec
}

func newMetrics(read func() *reading) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), counted: make(map[string]*prometheus.CounterVec)}
	for _, g := range gauges {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: namespace + g.name, Help: g.help}, func() float64 { return g.read(read()) }))
	}
	for _, c := range counters {
		m.counted[c.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + c.name, Help: c.help}, c.labels)
		m.registry.MustRegister(m.counted[c.name])
	}
	return m
}

// question counts a question.
func (m *metrics) question(transport, result string) {
	m.counted[nameQuestions].WithLabelValues(transport, result).Inc()
}

// visit counts a visit.
func (m *metrics) visit(answered bool) {
	result := "failed"
	if answered {
		result = "answered"
	}
	m.counted[nameVisits].WithLabelValues(result).Inc()
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

// Document writes the tables as Markdown.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| series | kind | labels | is |\n| --- | --- | --- | --- |\n")
	for _, g := range gauges {
		fmt.Fprintf(&b, "| `%s%s` | gauge | - | %s |\n", namespace, g.name, g.help)
	}
	for _, c := range counters {
		fmt.Fprintf(&b, "| `%s%s` | counter | `%s` | %s |\n", namespace, c.name, strings.Join(c.labels, "`, `"), c.help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
