package bandwidth

import "time"

// paper admits a fetch if the sum of the estimates of all running ones and its own stays below the
// limit (Diligenti et al., 2).
type paper struct {
	cfg     Config
	e       *Estimates
	running map[uint64]admitted
	sum     float64 // CB
	guard   guard
}

// admitted is a running fetch. Its estimate is fixed: the same value is added at the start and
// subtracted at the end.
type admitted struct {
	candidate Candidate
	rate      float64
}

func newPaper(cfg Config, e *Estimates) *paper {
	return &paper{cfg: cfg, e: e, running: make(map[uint64]admitted), guard: newGuard()}
}

// rateOf returns B(u).
func (p *paper) rateOf(now time.Time, c Candidate) (float64, bool) {
	rate, known := p.e.Rate(now, c.Server)
	if rate == 0 {
		rate = strangerShare * p.cfg.Rate
	}
	return rate, known
}

// Admit implements Governor: the first candidate of the queue that fits, up to the maximum depth.
// The paper continues at the same depth after one has started, which is equivalent to a new search:
// what did not fit before fits less now.
func (p *paper) Admit(now time.Time, q Queue) (Admission, bool) {
	p.guard.check(now, q, p.cfg.MaxDepth)
	if p.guard.holds {
		if d, c, ok := p.guard.find(q, p.cfg.MaxDepth); ok {
			rate, known := p.rateOf(now, c)
			if p.sum+min(rate, p.cfg.Rate) > p.cfg.Rate {
				return Admission{}, false
			}
			return p.start(d, c, rate, known), true
		}
	}
	for d := range p.cfg.MaxDepth {
		c, ok := q.At(d)
		if !ok {
			break
		}
		rate, known := p.rateOf(now, c)
		if p.sum+rate <= p.cfg.Rate {
			return p.start(d, c, rate, known), true
		}
		p.guard.pass(now, c.ID)
	}
	return Admission{}, false
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
	if !r.held() {
		p.e.Learn(now, a.candidate.Server, r.rate())
	}
}

// Every implements Governor.
func (p *paper) Every() time.Duration { return guardEvery }

// Expected implements Governor: CB.
func (p *paper) Expected(time.Time) float64 { return p.sum }

// SetRate implements Governor.
func (p *paper) SetRate(rate float64) { p.cfg.Rate = rate }
