package bandwidth

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// forecastEvery is how often ours samples the running fetches.
	forecastEvery = 100 * time.Millisecond
	// slot and slots define the forecast: two seconds in tenths. A fetch that begins in it has a round
	// trip and the server's response time ahead; one that ends in it is followed by the next.
	slot  = 0.1
	slots = 20
	// second is a window of one second, in slots.
	second = 10
	// smooth is the time constant of a measured rate, in seconds.
	smooth = 0.5
	// overbook is the factor of admission above a limiter: a twentieth may end early or stall before
	// part of the limit is unused.
	overbook = 1.05
	// aboveShare is the target share of seconds above the limit without a limiter, below the required
	// 5 %; lessen is the reduction for each such second, as a part of the limit.
	aboveShare = 0.04
	lessen     = 0.004
	// leastTarget and mostTarget bound the resulting target.
	leastTarget = 0.3
	mostTarget  = 1.2
	// firstSize is the assumed size of a fetch until some have ended, in bytes, and sizeWeight the
	// weight of each later one.
	firstSize  = 16 << 10
	sizeWeight = 0.05
	// firstWait is the assumed response time of an unknown server, in seconds.
	firstWait = 0.3
)

// forecast is the governor ours. The paper books one figure for a fetch from beginning to end. Ours
// forecasts each of the next two seconds: running fetches continue at their present rate until they
// are complete, and those without a first byte get it at the usual response time of their server.
// The head of the queue starts as soon as it fits.
//
// Above a limiter, a little more than fits is admitted, so that the whole limit is used. Without
// one, the target is below the limit: it is lowered whenever a second was above the limit, and
// raised slowly otherwise.
type forecast struct {
	cfg     Config
	e       *Estimates
	running map[uint64]*flight
	size    float64 // expected size of a fetch, in bytes

	target  float64 // as a part of the limit
	sampled time.Time
	bytes   int64           // since the last slot
	past    [second]float64 // bytes in each of the last slots, the latest last
	hungry  bool            // a candidate did not fit
}

// flight is a running fetch.
type flight struct {
	candidate Candidate
	begun     time.Time
	flow      float64 // expected, bytes a second
	wait      float64 // expected, seconds until the first byte
	at        time.Time
	got       Progress
	rate      float64 // measured; 0 before the first byte
	held      bool    // since the last sample
}

func newForecast(cfg Config, e *Estimates) *forecast {
	f := &forecast{cfg: cfg, e: e, running: make(map[uint64]*flight), size: firstSize, target: 0.9}
	if cfg.Limited {
		f.target = overbook
	}
	return f
}

// future has the expected bytes in each slot from now on.
type future [slots]float64

// add adds a flow that begins after a wait and ends after so many bytes.
func (fu *future) add(wait, rate, left float64) {
	for i := range fu {
		from := max(wait-float64(i)*slot, 0)
		if from >= slot || left <= 0 {
			continue
		}
		b := min(rate*(slot-from), left)
		fu[i] += b
		left -= b
	}
}

// most returns the maximum bytes in a window of a second that ends in the future; past has the
// slots before.
func (fu *future) most(past *[second]float64) float64 {
	sum := 0.0
	for _, b := range past {
		sum += b
	}
	most := 0.0
	for i, b := range fu {
		sum += b
		if i < second {
			sum -= past[i]
		} else {
			sum -= fu[i-second]
		}
		most = max(most, sum)
	}
	return most
}

// expectation returns that of a fetch that has not begun.
func (f *forecast) expectation(now time.Time, c Candidate) (flow, wait float64, known bool) {
	if flow, wait, known = f.e.flow(c.Server); known {
		return flow, wait, true
	}
	rate, known := f.e.Rate(now, c.Server)
	rate = cmp.Or(rate, strangerShare*f.cfg.Rate)
	if d := f.size/rate - firstWait; d > 0 { // rate has the wait in it
		return max(rate, f.size/max(d, 0.1)), firstWait, known
	}
	return rate, firstWait, known
}

// outlook returns the forecast for all running fetches.
func (f *forecast) outlook(now time.Time) (fu future) {
	for _, r := range f.running {
		if r.rate == 0 {
			fu.add(max(r.wait-now.Sub(r.begun).Seconds(), 0), r.flow, f.size)
			continue
		}
		rate := r.rate
		if r.held {
			rate = max(rate, r.flow) // what it would use
		}
		left := float64(r.got.Left)
		if left < 0 {
			left = f.size
		}
		fu.add(0, rate, left)
	}
	return fu
}

// Admit implements Governor. It considers only the head of the queue: a deeper search for one that
// fits was tried without gain, as the head fits soon.
func (f *forecast) Admit(now time.Time, q Queue) (Admission, bool) {
	c, ok := q.At(0)
	if !ok {
		return Admission{}, false
	}
	flow, wait, known := f.expectation(now, c)
	if f.cfg.Limited {
		if !f.short(now) {
			return Admission{}, false
		}
		return f.start(now, c, flow, wait, known), true
	}
	f.hungry = true
	fu := f.outlook(now)
	fu.add(wait, flow, f.size)
	past := f.past
	past[second-1] += float64(f.bytes) // since the last slot ended
	if fu.most(&past) > f.target*f.cfg.Rate && len(f.running) > 0 {
		return Admission{}, false
	}
	return f.start(now, c, flow, wait, known), true
}

// short reports whether the forecast is below the limiter's rate.
func (f *forecast) short(now time.Time) bool {
	fu := f.outlook(now)
	return slices.Min(fu[:second]) < f.target*f.cfg.Rate*slot
}

func (f *forecast) start(now time.Time, c Candidate, flow, wait float64, known bool) Admission {
	f.running[c.ID] = &flight{candidate: c, begun: now, at: now, flow: flow, wait: wait, got: Progress{Left: -1}}
	return Admission{Rate: flow, Known: known}
}

// Sample implements Governor.
func (f *forecast) Sample(now time.Time, id uint64, p Progress) {
	f.tick(now)
	r := f.running[id]
	if r == nil {
		return
	}
	d := now.Sub(r.at).Seconds()
	if d <= 0 {
		return
	}
	came := p.Bytes - r.got.Bytes
	f.bytes += came
	r.held = p.Held-r.got.Held > now.Sub(r.at)/20
	switch {
	case r.rate > 0:
		r.rate += (1 - math.Exp(-d/smooth)) * (float64(came)/d - r.rate)
	case came > 0:
		// It began in between: the expectation is retained for a little longer.
		r.rate = max(r.flow, float64(came)/d)
	}
	r.at, r.got = now, p
}

// tick processes the last second.
func (f *forecast) tick(now time.Time) {
	if now.Sub(f.sampled) < forecastEvery {
		return
	}
	f.sampled = now
	copy(f.past[:], f.past[1:])
	f.past[second-1], f.bytes = float64(f.bytes), 0
	if f.cfg.Limited {
		return
	}
	sum := 0.0
	for _, b := range f.past {
		sum += b
	}
	switch {
	case sum > f.cfg.Rate:
		f.target = max(f.target-lessen*(1-aboveShare), leastTarget)
	case f.hungry:
		f.target = min(f.target+lessen*aboveShare/(1-aboveShare), mostTarget)
	}
	f.hungry = false
}

// End implements Governor.
func (f *forecast) End(now time.Time, id uint64, r Result) {
	fl := f.running[id]
	if fl == nil {
		return
	}
	delete(f.running, id)
	f.bytes += max(r.Bytes-fl.got.Bytes, 0)
	m := r.rate()
	if m == 0 {
		return
	}
	f.size += sizeWeight * (float64(r.Bytes) - f.size)
	flow := m
	if d := r.Took - r.Wait; d > 0 {
		flow = float64(r.Bytes) / max(d, forecastEvery/2).Seconds()
	}
	server := fl.candidate.Server
	known, _, ok := f.e.flow(server)
	if r.held() && ok && flow <= known {
		return // delayed by the limiter: it could be faster, not slower
	}
	if !r.held() || !ok {
		f.e.Learn(now, server, m)
	}
	f.e.learnFlow(server, flow, r.Wait.Seconds())
}

// Every implements Governor.
func (f *forecast) Every() time.Duration { return forecastEvery }

// Expected implements Governor: the forecast of the next second.
func (f *forecast) Expected(now time.Time) float64 {
	fu := f.outlook(now)
	sum := 0.0
	for _, b := range fu[:second] {
		sum += b
	}
	return sum
}

// SetRate implements Governor.
func (f *forecast) SetRate(rate float64) { f.cfg.Rate = rate }
