package bandwidth

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Candidate is a fetch that waits.
type Candidate struct {
	// ID tells it from all others that wait or run.
	ID uint64
	// Server is where it would be fetched from; invalid if that is not known yet.
	Server netip.Addr
}

// Queue is what waits, by score: depth 0 is the highest. At returns false beyond its end.
type Queue interface {
	At(depth int) (Candidate, bool) // returns what waits at that depth
}

// Admission says which candidate may start.
type Admission struct {
	// Depth is where in the queue it stands: more than 0 if it passes higher scores.
	Depth int
	// Rate is what it is expected to take, in bytes a second; Known says whether the server is.
	Rate  float64
	Known bool // the server's rate is known
}

// Progress is how far a running fetch has come.
type Progress struct {
	// Bytes that came so far; Left is how many are still to come, negative if that is not known.
	Bytes, Left int64
	// Held is how long the limiter made it wait so far.
	Held time.Duration
}

// Result is how a fetch went.
type Result struct {
	// Bytes that came in all, in the time from the request to the last of them. Zero bytes, or a
	// zero time, teach nothing.
	Bytes int64
	Took  time.Duration // that time
	// Wait is the part of that time before the first byte.
	Wait time.Duration
	// Held is the part of it in which the limiter made it wait.
	Held time.Duration
}

// held says that the limiter made a fetch slower than its server is, by more than a twentieth.
func (r *Result) held() bool { return r.Held > r.Took/20 }

// rate is M; zero if it teaches nothing.
func (r *Result) rate() float64 {
	if r.Took <= 0 || r.Bytes <= 0 {
		return 0
	}
	return float64(r.Bytes) / r.Took.Seconds()
}

// Governor decides which of the waiting fetches starts, and when, so that all together stay under a
// cap. It is asked whenever a fetcher is idle: when a fetch has ended or came to wait, and every
// Every. It keeps no time of its own and is not safe for concurrent use.
type Governor interface {
	// Admit picks a fetch to start now, which then counts as running until End; false if none may.
	Admit(now time.Time, q Queue) (Admission, bool)
	// Sample tells how far a running fetch has come. It is called for each of them every Every.
	Sample(now time.Time, id uint64, p Progress)
	// End tells how a fetch went that was admitted. One that made no exchange ends with a zero
	// Result.
	End(now time.Time, id uint64, r Result)
	// Every is how often to sample and to ask again although nothing ended.
	Every() time.Duration
	// Expected is what the running fetches are expected to take together, in bytes a second.
	Expected(now time.Time) float64
	// SetRate changes the cap L, in bytes a second.
	SetRate(rate float64)
}

// The governors by name.
const (
	// Ours admits by what the running fetches take at present and are about to.
	Ours = "ours"
	// PaperGovernor admits by frozen estimates (Diligenti et al.).
	PaperGovernor = "paper"
	// StartStopGovernor is the paper's rival: one fetcher more or less, by the measured rate.
	StartStopGovernor = "start-stop"
	// None leaves everything to the limiter.
	None = "none"
)

// Names are those that New knows.
func Names() []string { return []string{Ours, PaperGovernor, StartStopGovernor, None} }

// Config says how a governor decides.
type Config struct {
	// Rate is the cap L in bytes a second.
	Rate float64
	// MaxDepth is how far down the queue a fetch is searched for that fits: more uses more of the
	// cap and lets lower scores pass higher ones.
	MaxDepth int
	// Fetchers is how many fetches can run at once.
	Fetchers int
	// Limited says that a Limiter holds the cap beneath, so that more may be admitted than fits.
	Limited bool
}

// DefaultMaxDepth is the larger of the two that the paper tries.
const DefaultMaxDepth = 6

// MaxMaxDepth bounds the search, which is made each time that a fetch ends.
const MaxMaxDepth = 1024

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	switch {
	case !(c.Rate >= 0 && c.Rate <= MaxRate):
		return fmt.Errorf("bandwidth config: Rate %v", c.Rate)
	case c.MaxDepth < 1 || c.MaxDepth > MaxMaxDepth:
		return fmt.Errorf("bandwidth config: MaxDepth %d: must be between 1 and %d", c.MaxDepth, MaxMaxDepth)
	case c.Fetchers < 1:
		return fmt.Errorf("bandwidth config: Fetchers %d: must be positive", c.Fetchers)
	}
	return nil
}

// New returns the governor of a name; nil for None.
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
		return nil, nil //nolint:nilnil // no governor is what was asked for
	default:
		return nil, fmt.Errorf("governor %q: must be one of %v", name, Names())
	}
}

const (
	// guardEvery and guardAfter: how often it is looked for fetches that were passed over for how
	// long (papers 4.2).
	guardEvery = 10 * time.Second
	guardAfter = time.Minute
	// strangerShare of the cap is expected of a server while none is known at all.
	strangerShare = 0.1
)

// guard sees that nothing is passed over for ever.
type guard struct {
	passed   map[uint64]time.Time // since when
	checked  time.Time
	reserved uint64
	holds    bool // something is reserved
}

func newGuard() guard { return guard{passed: make(map[uint64]time.Time)} }

// pass notes that a candidate did not fit.
func (g *guard) pass(now time.Time, id uint64) {
	if _, ok := g.passed[id]; !ok {
		g.passed[id] = now
	}
}

// started forgets a candidate.
func (g *guard) started(id uint64) {
	delete(g.passed, id)
	if g.holds && g.reserved == id {
		g.holds = false
	}
}

// check reserves, now and then, what was passed over for too long, and forgets what is not near the
// head of the queue any more.
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

// find is where in the queue the reserved candidate stands; false if it does not any more, and then
// it is not reserved.
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
