package bandwidth

import "time"

// paper admits a fetch if the estimates of all that run and its own stay under the cap (Diligenti
// et al., 2).
type paper struct {
	cfg     Config
	e       *Estimates
	running map[uint64]admitted
	sum     float64 // CB
	guard   guard
}

// admitted is a running fetch. Its estimate is frozen: what is subtracted at the end is what was
// added.
type admitted struct {
	candidate Candidate
	rate      float64
}

func newPaper(cfg Config, e *Estimates) *paper {
	return &paper{cfg: cfg, e: e, running: make(map[uint64]admitted), guard: newGuard()}
}

// rateOf is B(u).
func (p *paper) rateOf(now time.Time, c Candidate) (float64, bool) {
	rate, known := p.e.Rate(now, c.Server)
	if rate == 0 {
		rate = strangerShare * p.cfg.Rate
	}
	return rate, known
}

// Admit implements Governor: the first candidate of the queue, to the depth that is searched, that
// fits. To go on at the same depth after one has started, as the paper does, comes to the same as
// to begin anew: what did not fit before fits less now.
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

// Sample implements Governor: the paper looks at nothing before the end.
func (p *paper) Sample(time.Time, uint64, Progress) {}

// End implements Governor. A rate that the limiter held down says nothing of the server.
func (p *paper) End(now time.Time, id uint64, r Result) {
	a, ok := p.running[id]
	if !ok {
		return
	}
	delete(p.running, id)
	if p.sum -= a.rate; len(p.running) == 0 {
		p.sum = 0 // what rounding left
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
