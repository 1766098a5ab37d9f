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
	Pages   int     // for which the threshold holds; 0: not known
}

// Floor is the longest time between two visits, in mean intervals of all URLs.
const Floor = 4

const (
	stepGain  = 0.5 // of the visits of an hour
	totalGain = 0.02
	memory    = 5 * 24 // hours after which a surplus has the weight 1/e
	burst     = 6      // times its share of the budget in an hour
	minScale  = 5      // visits a day: with a smaller budget, a visit moves the logarithm by 0.1
	maxLog    = 60
	maxAway   = 8   // of the logarithm, from that of a new Control: a budget that cannot be spent moves it on
	anew      = 4   // a budget that changes by this factor begins a new Control
	maxApart  = 0.5 // of the logarithms of neighbors in a mean: no neighbor moves it far
)

// NewControl returns the control of a budget of visits a day for a number of pages. Its threshold
// is that of a URL without evidence that is visited as often as all others.
func NewControl(budget float64, pages int) Control {
	budget = bounded(budget, 1e-6, 1e12)
	value := NewPrior(usualRate).Value(1, max(float64(pages), 1)/budget)
	return Control{Budget: budget, Log: bounded(math.Log(value), -maxLog, maxLog), Pages: max(pages, 1)}
}

// Resize sets the budget and the number of pages. The threshold moves as much as that of a new
// Control would: visits beyond the budget would move it only after days, as in the first crawl,
// when the number of pages grows from one.
func (c *Control) Resize(budget float64, pages int) {
	if pages = max(pages, 1); budget == c.Budget && pages == c.Pages {
		return
	}
	to := NewControl(budget, pages)
	if more := budget / c.Budget; c.Pages > 0 && (more > anew || more < 1./anew) {
		c.Log, c.Surplus = to.Log, 0
	} else if c.Pages > 0 {
		from := NewControl(c.Budget, c.Pages)
		c.Log, c.Surplus = bounded(c.Log+to.Log-from.Log, -maxLog, maxLog), c.Surplus*more
	}
	c.Budget, c.Pages = budget, pages
}

// Threshold returns the value at which a visit is due, in days.
func (c *Control) Threshold() float64 { return math.Exp(c.Log) }

// Tick ends an hour: with e = (visits - budget)/day and E the surplus, the logarithm of the
// threshold moves by 0.5 e + 0.02 E/day, where day is a day's budget, or 5 if it is smaller. E
// forgets (5 days) instead of being clamped, so that it is linear: in a ring, where some peers have
// more to visit than their share, the surpluses of all cancel out only then.
func (c *Control) Tick() {
	e := float64(c.Hour) - c.Budget/24
	c.Hour = 0
	scale := max(c.Budget, minScale)
	c.Surplus += e - c.Surplus/memory
	usual := NewControl(c.Budget, c.Pages).Log
	c.Log = bounded(c.Log+stepGain*e/scale+totalGain*c.Surplus/scale, usual-maxAway, usual+maxAway)
}

// Follow moves half-way to the mean threshold of the neighbors, as a logarithm. Each counts as at
// most 0.5 away; one that is not a number counts as equal. The median would not keep the budget of
// the ring: it follows the majority, which has less to visit than the few peers with busy sites.
func (c *Control) Follow(neighbors []float64) {
	sum := 0.
	for _, log := range neighbors {
		if d := log - c.Log; !math.IsNaN(d) {
			sum += min(max(d, -maxApart), maxApart)
		}
	}
	if sum != 0 {
		c.Log = bounded(c.Log+sum/float64(2*len(neighbors)), -maxLog, maxLog)
	}
}

// Spent reports whether the visits of the hour are made.
func (c *Control) Spent() bool { return float64(c.Hour) >= max(1, burst*c.Budget/24) }

// Due is [Page.Due] by the threshold, and at most Floor times the mean interval between visits of
// a peer that schedules a number of pages. So at most a quarter of the visits go to URLs that are
// visited only because it was long ago; without them, a URL that seems never to change would not be
// visited any more.
func (c *Control) Due(p Page, now float64, o Outcome, pages int) float64 {
	due := p.Due(now, o, c.Threshold())
	if o == Gone || o == Failed {
		return due
	}
	return min(due, p.Last+Floor*float64(max(pages, 1))/c.Budget)
}
