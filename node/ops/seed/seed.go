package seed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

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
