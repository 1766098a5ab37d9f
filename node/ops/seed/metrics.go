package seed

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace is the prefix of all series.
const namespace = "apoidea_seed_"

// reading is the data of one scrape.
type reading struct {
	known, answering, proven, spare int
	written                         float64 // seconds since 1970
}

// gauges are read at each scrape; counters count events. The registry and docs/founder.md are
// generated from these tables.
var (
	gauges = []struct {
		name, help string
		read       func(r *reading) float64
	}{
		{"peers", "Known peers.", func(r *reading) float64 { return float64(r.known) }},
		{"peers_answering", "Peers that responded to the last visit.", func(r *reading) float64 { return float64(r.answering) }},
		{"peers_proven", "Peers included in responses.", func(r *reading) float64 { return float64(r.proven) }},
		{"peers_spare", "New peers, included if there are too few others.", func(r *reading) float64 { return float64(r.spare) }},
		{"state_written_timestamp_seconds", "Time of the last write of the state.", func(r *reading) float64 { return r.written }},
	}
	counters = []struct {
		name, help string
		labels     []string
	}{
		{nameQuestions, "Queries by result: answered, no_data, no_such_name, refused; slipped and dropped above the rate limit; malformed; full above the connection limit.", []string{"transport", "result"}},
		{nameVisits, "Visits of peers by result.", []string{"result"}},
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

// question counts a query.
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
