package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// look is the interval of checks for changes and due visits.
	look = time.Second
	// saveEvery is the maximum interval of writes of a changed state; at most the interval of visits.
	saveEvery = time.Minute
)

// Seed is a running name server of a ring.
type Seed struct {
	*crawler
	server  *server
	metrics *metrics
	debug   net.Listener // nil without metrics
	pool    atomic.Pointer[Pool]
	written atomic.Int64 // time of the last write of the state, in milliseconds
}

// New loads the state of the last run and opens the ports. Run starts the seed; without Run, call
// Close.
func New(ctx context.Context, cfg Config, log *slog.Logger) (s *Seed, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := datadir.Claim(cfg.Dir); err != nil {
		return nil, err
	}
	s = new(Seed)
	if s.crawler, err = newCrawler(&cfg, log); err != nil {
		return nil, err
	}
	now := time.Now()
	if err := restore(s.peers, &cfg); err != nil {
		return nil, errors.Join(err, s.net.Close())
	}
	if len(s.peers.peers)+len(cfg.Bootstrap)+len(cfg.DNSSeed) == 0 {
		return nil, errors.Join(control.Usage("bootstrap: no known peers: set --bootstrap to a peer of the ring, or --dns-seed to another seed"), s.net.Close())
	}
	s.pool.Store(s.peers.Pool(now))
	s.metrics = newMetrics(s.reading)
	s.visited = s.metrics.visit
	s.server = &server{zone: newZone(&cfg, uint32(now.Unix()), s.draw), paces: newPaces(cfg.Rate), count: s.metrics.question}
	if s.server.udp, s.server.tcp, err = listen(ctx, cfg.Listen); err != nil {
		return nil, errors.Join(err, s.net.Close())
	}
	if cfg.Metrics != "" {
		if s.debug, err = control.ListenTCP(ctx, "metrics", cfg.Metrics, false); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close releases the resources of New.
func (s *Seed) Close() error {
	err := errors.Join(s.server.tcp.Close(), s.server.udp.Close(), s.net.Close())
	if s.debug != nil {
		err = errors.Join(err, s.debug.Close())
	}
	return err
}

// Addr returns the address for queries.
func (s *Seed) Addr() string { return s.server.tcp.Addr().String() }

// MetricsAddr returns the address for Prometheus, empty if none.
func (s *Seed) MetricsAddr() string {
	if s.debug == nil {
		return ""
	}
	return s.debug.Addr().String()
}

// Run visits peers and serves queries until ctx ends or a part fails, then writes the state.
func (s *Seed) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.net.Run(ctx) })
	group.Go(func() error { return s.server.run(ctx) })
	group.Go(func() error { return s.visitAll(ctx, func() bool { return false }) })
	group.Go(func() error { return s.keep(ctx) })
	if s.debug != nil {
		group.Go(func() error { return control.ServeDebug(ctx, "metrics", s.debug, s.metrics.handler(), "", s.log) })
	}
	return errors.Join(loop.UnlessCanceled(group.Wait()), s.save())
}

// draw returns the peers of a response.
func (s *Seed) draw() []string { return s.pool.Load().Draw(MostGiven, rand.IntN) }

// keep updates the pool and the file from the set until ctx ends.
func (s *Seed) keep(ctx context.Context) error {
	saved := time.Now()
	for {
		if err := loop.Sleep(ctx, look); err != nil {
			return err
		}
		now := time.Now()
		s.pool.Store(s.poolAt(now))
		if now.Sub(saved) < min(saveEvery, s.cfg.Every) {
			continue
		}
		saved = now
		if err := s.save(); err != nil { // queries are still served
			s.log.Warn("continuing without saved state", "err", err)
		}
	}
}

func (s *Seed) poolAt(now time.Time) *Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers.Pool(now)
}

// save writes the state if it has changed.
func (s *Seed) save() error {
	now := time.Now()
	state := s.state(now)
	if state == nil {
		return nil
	}
	if err := state.write(s.cfg.Dir); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed = true
		return fmt.Errorf("write state: %w", err)
	}
	s.written.Store(now.UnixMilli())
	return nil
}

// state returns the current state, nil if unchanged since the last write.
func (s *Seed) state(now time.Time) *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return nil
	}
	s.changed = false
	return s.stateLocked(now)
}

// reading returns the data of a scrape.
func (s *Seed) reading() *reading {
	r := &reading{written: float64(s.written.Load()) / 1000}
	r.proven, r.spare = s.pool.Load().Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.known, r.answering = len(s.peers.peers), s.peers.Answering()
	return r
}

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
		{nameQuestions, "Queries by result: answered, no_data, no_such_name, refused; slipped and dropped above the rate limit; malformed.", []string{"transport", "result"}},
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

// StateFile is the name of the state file in a seed's directory.
const StateFile = "seed.json"

const (
	// stateVersion is the format version; within one version fields are only added.
	stateVersion = 1
	// maxState limits the file, in bytes: a peer needs about 800.
	maxState = 256 << 20
)

// State is the stored state of a seed, also read by other commands.
type State struct {
	Version int       `json:"version"` // of this format
	Zone    string    `json:"zone"`    // as configured
	Network string    `json:"network"` // of the ring
	Public  bool      `json:"public"`  // public addresses only
	Written time.Time `json:"written"` // time of the write
	Peers   []Peer    `json:"peers"`   // best first
}

// ReadState reads the state of a seed, running or not. The error is fs.ErrNotExist if there is
// none.
func ReadState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, err
	}
	s := new(State)
	switch err := json.Unmarshal(raw, s); {
	case len(raw) > maxState:
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxState)
	case err != nil:
		return nil, fmt.Errorf("%s: %w; delete it to start without state", path, err)
	case s.Version != stateVersion:
		return nil, fmt.Errorf("%s: version %d, must be %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// write replaces the file in a directory atomically.
func (s *State) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return datadir.Replace(filepath.Join(dir, StateFile), append(raw, '\n'))
}

// restore loads the state of an earlier run for the same ring, if any, into a set.
func restore(b *PeerSet, c *Config) error {
	s, err := ReadState(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case s.Network != c.Network:
		return fmt.Errorf("%s is of network %q: use another --data-dir for network %q", filepath.Join(c.Dir, StateFile), s.Network, c.Network)
	}
	b.Restore(time.Now(), s.Peers)
	return nil
}

// peerSet returns the state as a set.
func (s *State) peerSet() *PeerSet {
	b := NewPeerSet(Rules{Public: s.Public, Every: mostEvery, Most: mostPeers})
	b.Restore(s.Written, s.Peers)
	return b
}

// Draw draws peers as for a response of the running seed.
func (s *State) Draw(now time.Time, below func(int) int) []string {
	return s.peerSet().Pool(now).Draw(MostGiven, below)
}

// Line is one peer in the output of commands. The JSON names are stable.
type Line struct {
	Peer        string             `json:"peer"`              // its name
	Given       string             `json:"given"`             // in, spare or out
	Why         string             `json:"why"`               // text for people
	Address     string             `json:"address,omitempty"` // address of the last response
	Told        []string           `json:"told,omitempty"`    // addresses announced by others
	Network     string             `json:"network,omitempty"` // a response has at most one peer of it
	Sharing     int                `json:"sharing,omitempty"` // included peers in that network, with this one
	Heard       time.Time          `json:"heard"`             // when it was heard of first
	Visited     time.Time          `json:"visited,omitzero"`  // when it was visited last
	Answered    time.Time          `json:"answered,omitzero"` // when it answered last
	Visits      int                `json:"visits"`            // since its discovery
	Answers     int                `json:"answers"`           // successful visits
	Reliability map[string]float64 `json:"reliability"`       // by window, 0 to 1: 2h, 8h, day, week
}

// Lines returns all peers with their rank and its reason.
func (s *State) Lines(now time.Time) []Line {
	lines := make([]Line, 0, len(s.Peers))
	sharing := make(map[string]int)
	for i := range s.Peers {
		p := &s.Peers[i]
		rank, why := p.Rank(now)
		l := Line{
			Peer: p.ID.String(), Given: rank.String(), Why: why, Address: p.Address, Told: p.Announced, Heard: p.FirstSeen, Visited: p.Visited,
			Answered: p.Answered, Visits: p.Visits, Answers: p.Answers, Reliability: make(map[string]float64, len(measures)),
		}
		for k, m := range measures {
			l.Reliability[m.name] = p.Windows[k].Reliability
		}
		if p.Address != "" && s.Public {
			l.Network = networkOf(p.Address, true)
		}
		if rank != Out && l.Network != "" {
			sharing[l.Network]++
		}
		lines = append(lines, l)
	}
	for i := range lines {
		if l := &lines[i]; l.Given != Out.String() && sharing[l.Network] > 1 {
			l.Sharing = sharing[l.Network]
			l.Why += fmt.Sprintf("; one of %d in %s, a response has at most one of them", l.Sharing, l.Network)
		}
	}
	return lines
}
