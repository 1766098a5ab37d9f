package sim

import (
	"context"
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// ChurnConfig configures a run of the ring alone under churn. A zero field means its default.
type ChurnConfig struct {
	Seed  uint64 // of all random draws
	Peers int    // default 10,000
	// Internet defaults to [internet.Synthetic] of the seed.
	Internet dhtsim.Internet
	// For is the duration of churn; default 20 minutes.
	For time.Duration
	// Session is the median session length; default 60 minutes. Sessions are exponential, and each
	// ends with a crash, never with a goodbye; half of them drop no connection, like a power loss.
	Session time.Duration
	// Massacre is the fraction of peers that crash at once in the end; default a tenth, negative for
	// none.
	Massacre float64
	// SampleEvery is the sampling interval, default 10 s, each with Lookups lookups, default 200.
	SampleEvery time.Duration
	Lookups     int // lookups per sample
	// Progress, if set, is called after each second of virtual time.
	Progress func(done, all time.Duration)

	plant func(r *dhtsim.Sim) // corrupts the ring after churn, to test that a fault is detected
}

func (c *ChurnConfig) fill() {
	fill(&c.Peers, 10_000)
	fill(&c.For, 20*time.Minute)
	fill(&c.Session, time.Hour)
	fill(&c.Massacre, 0.1)
	fill(&c.SampleEvery, 10*time.Second)
	fill(&c.Lookups, 200)
	c.SampleEvery = min(c.SampleEvery, c.For)
	if c.Internet == nil {
		c.Internet = internet.Synthetic(c.Seed)
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Sample is one observation of the ring.
type Sample struct {
	// At is the time since the start of churn.
	At    time.Duration
	Peers int // live peers
	dhtsim.Coverage
	// Lookups that ended in this interval: the number that returned a peer that is not the owner,
	// found none, or found an owner that does not serve yet.
	Lookups, Wrong, Failed, Waiting int
	// Calls made by them.
	Calls int
}

func (s *Sample) add(other *Sample) {
	s.Lookups += other.Lookups
	s.Wrong += other.Wrong
	s.Failed += other.Failed
	s.Waiting += other.Waiting
	s.Calls += other.Calls
}

// ChurnReport is the result of a run.
type ChurnReport struct {
	Samples []Sample // by time
	// Peers is the mean number of live peers under churn; Born and Died are the numbers of arrivals
	// and crashes.
	Peers      float64
	Born, Died int // arrivals, and crashes
	// Churn sums the lookups under churn, Quiet those from 30 s after the last change on, Shock those
	// during recovery from the massacre.
	Churn, Quiet, Shock Sample
	// Owned is the mean fraction of keys served by their owner under churn; OwnedMin and WrongMax are
	// the worst samples.
	Owned, OwnedMin, WrongMax float64
	// QuietOwned is the least fraction from 30 s after the last change on.
	QuietOwned float64
	// Upkeep traffic, in calls and bytes per live peer and second, under churn.
	UpkeepCalls, UpkeepBytes float64
	// Killed peers crashed at once in the end. Owners is the time until every key was served by its
	// owner again, Settled until every leaf set was right as well; negative if the wait ended before.
	Killed          int
	Owners, Settled time.Duration // since the massacre
}

// quiet is the time after which every owner must be right.
const quiet = 30 * time.Second

// RunChurn runs the simulation; the error is ctx's.
func RunChurn(ctx context.Context, cfg ChurnConfig) (*ChurnReport, error) {
	cfg.fill()
	r := newChurn(cfg)
	r.ring.Found(cfg.Peers)
	if err := r.ring.settle(ctx); err != nil {
		return nil, err
	}
	for _, phase := range []func(context.Context) error{r.churn, r.calm, r.massacre} {
		if err := phase(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

// churn is a run in progress.
type churn struct {
	cfg    ChurnConfig
	ring   *population
	report ChurnReport
	begin  time.Duration // of churn
	now    Sample        // being filled
}

func newChurn(cfg ChurnConfig) *churn {
	ring := newPopulation(&dhtsim.World{Seed: cfg.Seed, Internet: cfg.Internet}, cfg.Peers, cfg.Session)
	ring.length, ring.progress = cfg.For, cfg.Progress
	return &churn{cfg: cfg, ring: ring}
}

// churn is the first phase: peers join and crash.
func (c *churn) churn(ctx context.Context) error {
	c.begin = c.ring.Elapsed()
	c.ring.churn()
	before := c.ring.Sent[dhtsim.Upkeep]
	n := int(c.cfg.For / c.cfg.SampleEvery)
	for range n {
		if err := c.sample(ctx, &c.report.Churn); err != nil {
			return err
		}
	}
	c.ring.alive = false
	r := &c.report
	r.Born, r.Died = c.ring.born, c.ring.died
	r.OwnedMin = 1
	for i := range r.Samples {
		s := &r.Samples[i]
		r.Peers += float64(s.Peers) / float64(n)
		r.Owned += s.Owned / float64(n)
		r.OwnedMin, r.WrongMax = min(r.OwnedMin, s.Owned), max(r.WrongMax, s.Coverage.Wrong)
	}
	per := r.Peers * (time.Duration(n) * c.cfg.SampleEvery).Seconds()
	sent := c.ring.Sent[dhtsim.Upkeep]
	r.UpkeepCalls = float64(sent.Calls-before.Calls) / per
	r.UpkeepBytes = float64(sent.Bytes-before.Bytes) / per
	return nil
}

// sample makes lookups, spread over an interval, and then samples the ring.
func (c *churn) sample(ctx context.Context, sum *Sample) error {
	for range c.cfg.Lookups {
		c.ring.After(time.Duration(c.ring.Rand.Int64N(int64(c.cfg.SampleEvery))), c.lookup)
	}
	if err := c.ring.run(ctx, c.cfg.SampleEvery); err != nil {
		return err
	}
	s := c.now
	c.now = Sample{}
	s.At, s.Peers, s.Coverage = c.ring.Elapsed()-c.begin, c.ring.Size(), c.ring.Coverage()
	sum.add(&s)
	c.report.Samples = append(c.report.Samples, s)
	return nil
}

// lookup searches a random key from a random serving peer, and compares the result with the correct
// owner at that moment.
func (c *churn) lookup() {
	r := c.ring
	p := r.Living()[r.Rand.IntN(len(r.Living()))]
	if !p.Started() || p.State() != dht.Serving {
		return
	}
	key := r.RandomKey()
	p.Lookup(key, func(found dht.Lookup, err error) {
		s := &c.now
		s.Lookups++
		s.Calls += found.Calls
		switch {
		case err != nil:
			s.Failed++
		case found.Owner.ID != r.Truth(key).Peer.ID:
			s.Wrong++
		case !found.Serving:
			s.Waiting++
		}
	})
}

// calm is the second phase: from 30 s after the last change on the ring must be consistent.
func (c *churn) calm(ctx context.Context) error {
	if err := c.ring.run(ctx, quiet); err != nil {
		return err
	}
	if c.cfg.plant != nil {
		c.cfg.plant(c.ring.Sim)
	}
	c.now = Sample{}
	before := c.ring.Coverage().Owned
	err := c.sample(ctx, &c.report.Quiet)
	c.report.QuietOwned = min(before, c.ring.Coverage().Owned)
	return err
}

// massacre is the third phase: many peers crash at once.
func (c *churn) massacre(ctx context.Context) error {
	c.report.Owners, c.report.Settled = -1, -1
	if c.cfg.Massacre <= 0 {
		return nil
	}
	r := c.ring
	living := slices.Clone(r.Living())
	r.Rand.Shuffle(len(living), func(i, j int) { living[i], living[j] = living[j], living[i] })
	c.report.Killed = int(c.cfg.Massacre * float64(len(living)))
	for _, p := range living[:c.report.Killed] {
		r.kill(p)
	}
	died := r.Elapsed()
	for r.Elapsed()-died < settleWithin && c.report.Settled < 0 {
		for range c.cfg.Lookups / 5 {
			r.After(time.Duration(r.Rand.Int64N(int64(time.Second))), c.lookup)
		}
		if err := c.ring.run(ctx, time.Second); err != nil {
			return err
		}
		s := c.now
		c.now = Sample{}
		s.At, s.Peers, s.Coverage = r.Elapsed()-c.begin, r.Size(), r.Coverage()
		c.report.Shock.add(&s)
		c.report.Samples = append(c.report.Samples, s)
		if c.report.Owners < 0 && s.Owned > 1-1e-9 && s.Coverage.Wrong == 0 {
			c.report.Owners = r.Elapsed() - died
		}
		if c.report.Owners >= 0 && r.Settled() == nil {
			c.report.Settled = r.Elapsed() - died
		}
	}
	return nil
}
