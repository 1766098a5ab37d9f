package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readTimeout bounds one reading of the peer.
const readTimeout = 5 * time.Second

// Source reads a peer. On an error, the response lacks the series that are read.
type Source func(ctx context.Context) (*Reading, error)

// Metrics is one peer's registry.
type Metrics struct {
	registry *prometheus.Registry
	fetch    *prometheus.HistogramVec
	lookup   prometheus.Histogram
	hops     prometheus.Histogram
	events   *prometheus.CounterVec
}

// New returns a Metrics with its own registry, which includes the Go and process collectors.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	rows := make(map[string]series)
	for _, s := range table() {
		rows[s.name] = s
	}
	opts := func(name string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: namespace + name, Help: rows[name].help, Buckets: buckets}
	}
	// Buckets in seconds: from a millisecond on the same machine to the total timeout of a fetch.
	m.fetch = prometheus.NewHistogramVec(opts(nameFetch, []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}), rows[nameFetch].labels)
	m.lookup = prometheus.NewHistogram(opts(nameLookup, []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}))
	m.hops = prometheus.NewHistogram(opts(nameHops, []float64{0, 1, 2, 3, 4, 6, 8, 12, 20}))
	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + nameEvents, Help: rows[nameEvents].help}, rows[nameEvents].labels)
	for _, result := range []string{resultAnswered, resultFailed} {
		m.fetch.WithLabelValues(result) // present from the start, so that rates begin at zero
	}
	m.registry.MustRegister(m.fetch, m.lookup, m.hops, m.events,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Of registers source, which is called for each scrape. Call it once.
func (m *Metrics) Of(source Source) { m.registry.MustRegister(newCollector(source)) }

// Registerer returns the registry for the series of libraries.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

// The results of a fetch.
const (
	resultAnswered = "answered"
	resultFailed   = "failed"
)

// Fetched records the duration of a fetch and whether the site answered.
func (m *Metrics) Fetched(took time.Duration, answered bool) {
	result := resultFailed
	if answered {
		result = resultAnswered
	}
	m.fetch.WithLabelValues(result).Observe(took.Seconds())
}

// LookedUp records the duration of a lookup and the number of its calls.
func (m *Metrics) LookedUp(took time.Duration, calls int) {
	m.lookup.Observe(took.Seconds())
	m.hops.Observe(float64(calls))
}

// Event counts an event of the ring.
func (m *Metrics) Event(event string) { m.events.WithLabelValues(event).Inc() }

// Handler serves scrapes. A failed reading is logged, and its series are left out.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4,
	})
}

// collector reads the peer.
type collector struct {
	source Source
	rows   []series
	descs  []*prometheus.Desc
}

func newCollector(source Source) *collector {
	c := &collector{source: source}
	for _, s := range table() {
		if s.read != nil {
			c.rows = append(c.rows, s)
			c.descs = append(c.descs, prometheus.NewDesc(namespace+s.name, s.help, s.labels, nil))
		}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	r, err := c.source(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], fmt.Errorf("read the peer: %w", err))
		return
	}
	for i := range c.rows {
		c.rows[i].read(r, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(c.descs[i], c.rows[i].valueType(), v, labels...)
		})
	}
}
