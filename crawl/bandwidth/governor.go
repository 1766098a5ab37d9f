package bandwidth

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Candidate is a waiting fetch.
type Candidate struct {
	// ID is unique among all waiting and running fetches.
	ID uint64
	// Server is the address to fetch from; invalid if unknown.
	Server netip.Addr
}

// Queue is the queue of waiting fetches, by score: depth 0 is the highest. At returns false beyond
// its end.
type Queue interface {
	At(depth int) (Candidate, bool) // returns the candidate at that depth
}

// Admission is a candidate that may start.
type Admission struct {
	// Depth is its position in the queue: more than 0 if it skips higher scores.
	Depth int
	// Rate is its expected rate, in bytes a second; Known reports whether the server is known.
	Rate  float64
	Known bool // the server's rate is known
}

// Progress is the progress of a running fetch.
type Progress struct {
	// Bytes is the number of bytes so far; Left is how many remain, negative if unknown.
	Bytes, Left int64
	// Held is how long the limiter delayed it so far.
	Held time.Duration
}

// Result is the result of a fetch.
type Result struct {
	// Bytes is the total, in the time from the request to the last byte. Without bytes, or with a zero
	// time, the estimates do not change.
	Bytes int64
	Took  time.Duration // that time
	// Wait is the part of that time before the first byte.
	Wait time.Duration
	// Held is the part of it for which the limiter delayed it.
	Held time.Duration
}

// held reports whether the limiter slowed the fetch, by more than a twentieth.
func (r *Result) held() bool { return r.Held > r.Took/20 }

// rate returns M; zero if there is no measurement.
func (r *Result) rate() float64 {
	if r.Took <= 0 || r.Bytes <= 0 {
		return 0
	}
	return float64(r.Bytes) / r.Took.Seconds()
}

// Governor decides which of the waiting fetches starts, and when, so that all together stay below a
// limit. It is called whenever a fetcher is idle: when a fetch has ended or was queued, and every
// Every. It has no clock of its own and is not safe for concurrent use.
type Governor interface {
	// Admit selects a fetch to start now, which then counts as running until End; false if none may.
	Admit(now time.Time, q Queue) (Admission, bool)
	// Sample reports the progress of a running fetch. It is called for each of them every Every.
	Sample(now time.Time, id uint64, p Progress)
	// End reports the result of an admitted fetch. Without an exchange the Result is zero.
	End(now time.Time, id uint64, r Result)
	// Every is the interval of Sample, and of Admit although no fetch ended.
	Every() time.Duration
	// Expected returns the expected rate of all running fetches, in bytes a second.
	Expected(now time.Time) float64
	// SetRate changes the limit L, in bytes a second.
	SetRate(rate float64)
}

// The governors by name.
const (
	// Ours admits by the current and expected rates of the running fetches.
	Ours = "ours"
	// PaperGovernor admits by frozen estimates (Diligenti et al.).
	PaperGovernor = "paper"
	// StartStopGovernor is the paper's alternative: one fetcher more or less, by the measured rate.
	StartStopGovernor = "start-stop"
	// None leaves admission to the limiter.
	None = "none"
)

// Names returns the names accepted by New.
func Names() []string { return []string{Ours, PaperGovernor, StartStopGovernor, None} }

// Config is the configuration of a governor.
type Config struct {
	// Rate is the limit L in bytes a second.
	Rate float64
	// MaxDepth is how far down the queue a fetch that fits is searched: a larger value uses more of
	// the limit and lets lower scores precede higher ones.
	MaxDepth int
	// Fetchers is the maximum number of concurrent fetches.
	Fetchers int
	// Limited states that a Limiter enforces the limit, so that more may be admitted than fits.
	Limited bool
}

// DefaultMaxDepth is the larger of the paper's two values.
const DefaultMaxDepth = 6

// MaxMaxDepth bounds the search, which is made after each fetch.
const MaxMaxDepth = 1024

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	switch {
	case !(c.Rate >= 0 && c.Rate <= MaxRate):
		return fmt.Errorf("bandwidth config: Rate %v: out of range", c.Rate)
	case c.MaxDepth < 1 || c.MaxDepth > MaxMaxDepth:
		return fmt.Errorf("bandwidth config: MaxDepth %d: must be between 1 and %d", c.MaxDepth, MaxMaxDepth)
	case c.Fetchers < 1:
		return fmt.Errorf("bandwidth config: Fetchers %d: must be positive", c.Fetchers)
	}
	return nil
}

// New returns the governor with a name; nil for None.
func New(name string, cfg Config, e *Estimates) (Governor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch name {
	case Ours:
		return newForecast(cfg, e), nil
	case PaperGovernor:
		return &paper{cfg: cfg, e: e, running: make(map[uint64]admitted), guard: guard{passed: make(map[uint64]passedOver)}}, nil
	case StartStopGovernor:
		return &startStop{cfg: cfg, e: e, running: make(map[uint64]*measured), allowed: 1}, nil
	case None:
		return nil, nil //nolint:nilnil // None has no governor
	default:
		return nil, fmt.Errorf("governor %q: must be one of %v", name, Names())
	}
}

// strangerShare is the expected share of the limit for a server while none is known.
const strangerShare = 0.1

// guard keeps candidates within max_d from starving. A candidate that was passed over during max_d
// completions and during the mean download time is reserved: no other starts before it. The paper
// only states that there is such a check (2); this one has no time of its own.
type guard struct {
	passed   map[uint64]passedOver
	ends     int           // completed downloads
	took     time.Duration // their total time
	reserved uint64
	holds    bool // there is a reservation
}

// passedOver is when a candidate first did not fit: the time, and the completions before it.
type passedOver struct {
	since time.Time
	ends  int
}

// pass records that a candidate did not fit.
func (g *guard) pass(now time.Time, id uint64) {
	if _, ok := g.passed[id]; !ok {
		g.passed[id] = passedOver{now, g.ends}
	}
}

// started removes a candidate.
func (g *guard) started(id uint64) {
	delete(g.passed, id)
	if g.reserved == id {
		g.holds = false
	}
}

// ended counts a completed download.
func (g *guard) ended(took time.Duration) {
	g.ends++
	g.took += took
}

// reservation returns the index of the reserved candidate among those within max_d, in the order of
// scores; -1 if there is none.
func (g *guard) reservation(now time.Time, near []Candidate, depth int) int {
	if len(g.passed) > 2*depth {
		maps.DeleteFunc(g.passed, func(id uint64, _ passedOver) bool {
			return !slices.ContainsFunc(near, func(c Candidate) bool { return c.ID == id })
		})
	}
	if g.holds {
		if i := slices.IndexFunc(near, func(c Candidate) bool { return c.ID == g.reserved }); i >= 0 {
			return i
		}
	}
	mean := g.took / time.Duration(max(g.ends, 1))
	i := slices.IndexFunc(near, func(c Candidate) bool {
		p, ok := g.passed[c.ID]
		return ok && g.ends-p.ends >= depth && now.Sub(p.since) >= mean
	})
	if g.holds = i >= 0; g.holds {
		g.reserved = near[i].ID
	}
	return i
}

// measureEvery is the interval of measurements.
const measureEvery = time.Second

// startStop is the alternative that the paper compares itself with (its reference 6): measure the
// rate; above the limit stop a fetcher, below it start one. A stopped fetcher takes no further URL,
// but completes the current one. Scores are kept in order.
type startStop struct {
	cfg      Config
	e        *Estimates
	running  map[uint64]*measured
	allowed  int
	bytes    int64 // since the last measurement
	measured time.Time
	rate     float64
}

type measured struct {
	candidate Candidate
	bytes     int64
}

// Admit implements Governor.
func (s *startStop) Admit(now time.Time, q Queue) (Admission, bool) {
	s.measure(now)
	if len(s.running) >= s.allowed {
		return Admission{}, false
	}
	c, ok := q.At(0)
	if !ok {
		return Admission{}, false
	}
	s.running[c.ID] = &measured{candidate: c}
	rate, known := s.e.Rate(now, c.Server)
	return Admission{Rate: rate, Known: known}, true
}

// measure periodically changes the number of fetchers by one.
func (s *startStop) measure(now time.Time) {
	if s.measured.IsZero() {
		s.measured = now
	}
	d := now.Sub(s.measured)
	if d < measureEvery {
		return
	}
	s.rate = float64(s.bytes) / d.Seconds()
	s.bytes, s.measured = 0, now
	switch {
	case s.rate > s.cfg.Rate:
		s.allowed = max(s.allowed-1, 1)
	case s.rate < s.cfg.Rate && len(s.running) >= s.allowed-1: // else more would be idle
		s.allowed = min(s.allowed+1, s.cfg.Fetchers)
	}
}

// Sample implements Governor. Its sum is evaluated in Admit, after all samples.
func (s *startStop) Sample(_ time.Time, id uint64, p Progress) {
	if m := s.running[id]; m != nil && p.Bytes > m.bytes {
		s.bytes += p.Bytes - m.bytes
		m.bytes = p.Bytes
	}
}

// End implements Governor.
func (s *startStop) End(now time.Time, id uint64, r Result) {
	m := s.running[id]
	if m == nil {
		return
	}
	s.bytes += max(r.Bytes-m.bytes, 0)
	delete(s.running, id)
	if !r.held() {
		s.e.Learn(now, m.candidate.Server, r.rate())
	}
}

// Every implements Governor.
func (s *startStop) Every() time.Duration { return measureEvery }

// Expected implements Governor: the last measurement.
func (s *startStop) Expected(time.Time) float64 { return s.rate }

// SetRate implements Governor.
func (s *startStop) SetRate(rate float64) { s.cfg.Rate = rate }

// paper admits a fetch if the sum of the estimates of all running ones and its own stays below the
// limit (Diligenti et al., 2).
type paper struct {
	cfg     Config
	e       *Estimates
	running map[uint64]admitted
	sum     float64     // CB
	near    []Candidate // within max_d
	guard   guard
}

// paperEvery is the interval of Admit although no fetch ended: another host may be due.
const paperEvery = 10 * time.Second

// admitted is a running fetch. Its estimate is fixed: the same value is added at the start and
// subtracted at the end.
type admitted struct {
	candidate Candidate
	rate      float64
}

// rateOf returns B(u).
func (p *paper) rateOf(now time.Time, c Candidate) (float64, bool) {
	rate, known := p.e.Rate(now, c.Server)
	rate = cmp.Or(rate, strangerShare*p.cfg.Rate)
	return rate, known
}

// Admit implements Governor: the first candidate of the queue that fits, up to the maximum depth.
// The paper continues at the same depth after one has started, which is equivalent to a new search:
// what did not fit before fits less now. A reserved candidate waits until it fits, or until nothing
// else runs; if nothing runs, waiting cannot help, and the head starts.
func (p *paper) Admit(now time.Time, q Queue) (Admission, bool) {
	p.near = p.near[:0]
	for d := range p.cfg.MaxDepth {
		c, ok := q.At(d)
		if !ok {
			break
		}
		p.near = append(p.near, c)
	}
	if d := p.guard.reservation(now, p.near, p.cfg.MaxDepth); d >= 0 {
		rate, known := p.rateOf(now, p.near[d])
		if p.sum+min(rate, p.cfg.Rate) > p.cfg.Rate {
			return Admission{}, false
		}
		return p.start(d, p.near[d], rate, known), true
	}
	for d, c := range p.near {
		rate, known := p.rateOf(now, c)
		if p.sum+rate <= p.cfg.Rate {
			return p.start(d, c, rate, known), true
		}
		p.guard.pass(now, c.ID)
	}
	if len(p.near) == 0 || len(p.running) > 0 {
		return Admission{}, false
	}
	rate, known := p.rateOf(now, p.near[0])
	return p.start(0, p.near[0], rate, known), true
}

func (p *paper) start(d int, c Candidate, rate float64, known bool) Admission {
	p.guard.started(c.ID)
	p.running[c.ID] = admitted{c, rate}
	p.sum += rate
	return Admission{Depth: d, Rate: rate, Known: known}
}

// Sample implements Governor. It does nothing: the paper uses no data before the end.
func (p *paper) Sample(time.Time, uint64, Progress) {}

// End implements Governor. A rate reduced by the limiter is no measurement of the server.
func (p *paper) End(now time.Time, id uint64, r Result) {
	a, ok := p.running[id]
	if !ok {
		return
	}
	delete(p.running, id)
	if p.sum -= a.rate; len(p.running) == 0 {
		p.sum = 0 // rounding errors
	}
	p.guard.ended(r.Took)
	if !r.held() {
		p.e.Learn(now, a.candidate.Server, r.rate())
	}
}

// Every implements Governor.
func (p *paper) Every() time.Duration { return paperEvery }

// Expected implements Governor: CB.
func (p *paper) Expected(time.Time) float64 { return p.sum }

// SetRate implements Governor.
func (p *paper) SetRate(rate float64) { p.cfg.Rate = rate }
