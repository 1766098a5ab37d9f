package bandwidth

import (
	"fmt"
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
		return newPaper(cfg, e), nil
	case StartStopGovernor:
		return newStartStop(cfg, e), nil
	case None:
		return nil, nil //nolint:nilnil // None has no governor
	default:
		return nil, fmt.Errorf("governor %q: must be one of %v", name, Names())
	}
}

const (
	// guardEvery and guardAfter: how often candidates are checked, and after what time a skipped one
	// gets a reservation (papers 4.2).
	guardEvery = 10 * time.Second
	guardAfter = time.Minute
	// strangerShare is the expected share of the limit for a server while none is known.
	strangerShare = 0.1
)

// guard prevents the starvation of candidates.
type guard struct {
	passed   map[uint64]time.Time // since when they were skipped
	checked  time.Time
	reserved uint64
	holds    bool // there is a reservation
}

func newGuard() guard { return guard{passed: make(map[uint64]time.Time)} }

// pass records that a candidate did not fit.
func (g *guard) pass(now time.Time, id uint64) {
	if _, ok := g.passed[id]; !ok {
		g.passed[id] = now
	}
}

// started removes a candidate.
func (g *guard) started(id uint64) {
	delete(g.passed, id)
	if g.holds && g.reserved == id {
		g.holds = false
	}
}

// check periodically reserves a candidate skipped for too long, and drops those no longer near the
// head of the queue.
func (g *guard) check(now time.Time, q Queue, depth int) {
	if now.Sub(g.checked) < guardEvery {
		return
	}
	g.checked = now
	var near []uint64
	for d := range depth {
		c, ok := q.At(d)
		if !ok {
			break
		}
		near = append(near, c.ID)
	}
	for id := range g.passed {
		if !slices.Contains(near, id) {
			delete(g.passed, id)
		}
	}
	if g.holds && slices.Contains(near, g.reserved) {
		return
	}
	g.holds = false
	for _, id := range near { // of several the one with the highest score
		if since, ok := g.passed[id]; ok && now.Sub(since) >= guardAfter {
			g.reserved, g.holds = id, true
			return
		}
	}
}

// find returns the position of the reserved candidate in the queue; if it is not there, the
// reservation ends.
func (g *guard) find(q Queue, depth int) (int, Candidate, bool) {
	for d := range depth {
		c, ok := q.At(d)
		if !ok {
			break
		}
		if c.ID == g.reserved {
			return d, c, true
		}
	}
	g.holds = false
	return 0, Candidate{}, false
}
