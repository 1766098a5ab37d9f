package fresh

import "math"

// Outcome is the result of a visit.
type Outcome uint8

// The outcomes of visits.
const (
	Unchanged Outcome = iota // status 304, or the same digest
	Changed                  // at an unknown time
	ChangedAt                // at a time that is believed
	Gone                     // status 404 or 410
	Failed                   // status 5xx, or no answer: no evidence
)

// Page is the schedule of a URL.
type Page struct {
	Rate   Rate
	Last   float64 // day of the last visit with evidence of a change or none
	Visits uint32  // with such evidence, after the first crawl
	Misses uint8   // visits in a row that found it gone
	Weight float32 // importance: 1 for most
}

const (
	goneAfter    = 2  // visits in a row
	goneInterval = 64 // days at most between visits of a URL that is gone
	retry        = 1  // days after a failed visit, and after the first that found the URL gone
)

// Visit returns the state after a visit on day now. since is the day of the change for ChangedAt.
// host and job are updated.
func (p Page) Visit(now float64, o Outcome, since float64, host, job *Means) Page {
	if o == Failed {
		return p
	}
	if o == Gone {
		p.Misses += min(1, math.MaxUint8-p.Misses)
		return p
	}
	before, first, prior, interval := p.Rate, p.Visits == 0, host.Prior(job), now-p.Last
	if first {
		p.Rate = prior
	}
	switch o {
	case Unchanged:
		p.Rate = p.Rate.Unchanged(interval, prior)
	case ChangedAt:
		p.Rate = p.Rate.ChangedAt(since-p.Last, interval, prior)
	default:
		p.Rate = p.Rate.Changed(interval, prior)
	}
	host.Replace(before, p.Rate, first)
	job.Replace(before, p.Rate, first)
	p.Visits += min(1, math.MaxUint32-p.Visits)
	p.Last, p.Misses = max(p.Last, now), 0
	return p
}

// Due returns the day of the next visit, after one on day now with an outcome. A URL that was gone
// twice waits twice as long each time, up to 64 days.
func (p Page) Due(now float64, o Outcome, threshold float64) float64 {
	switch {
	case o == Gone && p.Misses >= goneAfter:
		return now + min(math.Ldexp(retry, int(p.Misses)-goneAfter+1), goneInterval)
	case o == Gone || o == Failed:
		return now + retry
	}
	return p.Last + p.Rate.Due(float64(p.Weight), threshold)
}

// Control keeps the visits of a peer to its budget. Its threshold rises while more visits are made
// than the budget has, and falls while there are fewer.
type Control struct {
	Budget  float64 // visits a day
	Log     float64 // natural logarithm of the threshold, which is in days of weight 1
	Surplus float64 // visits made beyond the budget; negative if fewer
	Hour    int     // visits made in this hour
	Turn    uint8   // visits since the last to the URL that was not visited for the longest time
}

const (
	floor      = 4   // every fourth visit goes to the URL not visited for the longest time
	stepGain   = 0.5 // of the visits of an hour
	totalGain  = 0.02
	maxSurplus = 5  // days of the budget, either way: a longer past is forgotten
	burst      = 6  // times its share of the budget in an hour
	minScale   = 24 // visits a day: a peer with less than a visit an hour counts them as noise
	maxLog     = 60
)

// NewControl returns the control of a budget of visits a day for a number of pages. Its threshold
// is that of a URL without evidence that is visited as often as all others.
func NewControl(budget float64, pages int) Control {
	budget = bounded(budget, 1e-6, 1e12)
	value := NewPrior(usualRate).Value(1, max(float64(pages), 1)/budget)
	return Control{Budget: budget, Log: bounded(math.Log(value), -maxLog, maxLog)}
}

// Threshold returns the value at which a visit is due, in days.
func (c *Control) Threshold() float64 { return math.Exp(c.Log) }

// Tick ends an hour: with e = (visits - budget)/day and E the surplus, the logarithm of the
// threshold moves by 0.5 e + 0.02 E/day, where day is a day's budget, or 24 if it is smaller.
func (c *Control) Tick() {
	e := float64(c.Hour) - c.Budget/24
	c.Hour = 0
	scale := max(c.Budget, minScale)
	c.Surplus = bounded(c.Surplus+e, -maxSurplus*c.Budget, maxSurplus*c.Budget)
	c.Log = bounded(c.Log+stepGain*e/scale+totalGain*c.Surplus/scale, -maxLog, maxLog)
}

// Follow moves half-way to the median threshold of the neighbors, as a logarithm. One that is not a
// number is ignored.
func (c *Control) Follow(median float64) {
	if !math.IsNaN(median) {
		c.Log = (c.Log + bounded(median, -maxLog, maxLog)) / 2
	}
}

// Queue has the URLs of a peer in order.
type Queue[K any] interface {
	// First returns the URL with the earliest due day, Oldest the one that was not visited for the
	// longest time; false if there is none.
	First() (K, float64, bool)
	Oldest() (K, bool)
}

// Next returns the URL of the next visit on day now, false if none is due or the hour's visits are
// made. Every fourth visit goes to the oldest. The caller compares the due day of another one with
// the threshold of now ([Page.Due]), and either moves it in the queue or visits it and calls Done.
func Next[K any](c *Control, q Queue[K], now float64) (k K, oldest, ok bool) {
	if c.Spent() {
		return k, false, false
	}
	if c.Turn >= floor-1 {
		k, ok = q.Oldest()
		return k, true, ok
	}
	k, due, ok := q.First()
	return k, false, ok && due <= now
}

// Spent reports whether the visits of the hour are made.
func (c *Control) Spent() bool { return float64(c.Hour) >= max(1, burst*c.Budget/24) }

// Done counts a visit.
func (c *Control) Done(oldest bool) {
	c.Hour++
	c.Turn++
	if oldest {
		c.Turn = 0
	}
}
