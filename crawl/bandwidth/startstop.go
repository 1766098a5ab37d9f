package bandwidth

import "time"

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

func newStartStop(cfg Config, e *Estimates) *startStop {
	return &startStop{cfg: cfg, e: e, running: make(map[uint64]*measured), allowed: 1}
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
