package inspect

import (
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
)

// DefaultPatience is the default wait limit: a wait for the end of a crawl ignores URLs whose next
// try is later. It equals the longest usual backoff, so that temporary failures get all their
// retries.
const DefaultPatience = 10 * time.Minute

// MaxPatience is the maximum wait limit; longer delays requested by sites are ignored.
const MaxPatience = 30 * 24 * time.Hour

// horizon returns the end of the wait limit by the lease clock; 0 is no limit.
func (v *View) horizon(patience time.Duration) time.Time {
	if patience == 0 {
		patience = MaxPatience
	}
	return v.deps.Hosts.Now().Add(patience)
}

// reasonAsked is the reason of hosts that require a delay, and of single URLs that wait for a
// retry.
const reasonAsked = "asked"

// tellWaits sets the deferred hosts and URLs of a status.
func tellWaits(c *control.Status, waits []owner.Wait, now time.Time) {
	for i := range waits {
		w := &waits[i]
		c.URLsPutOff += w.PutOff
		c.HostsPutOff += w.HostsPutOff
		told := control.Wait{
			Reason: reasonAsked, Hosts: w.Hosts, URLs: w.URLs, PutOff: w.PutOff, HostsPutOff: w.HostsPutOff,
			NextS: secondsUntil(w.Next, now), NextPutOffS: secondsUntil(w.NextPutOff, now),
		}
		if w.Outcome != link.OutcomeNone {
			told.Reason = w.Outcome.String()
		}
		for _, e := range w.Examples {
			told.Examples = append(told.Examples, control.WaitingHost{
				Host: e.Host, URLs: e.URLs, PutOff: e.PutOff, NextS: secondsUntil(e.Until, now), Fails: e.Fails, Why: e.Why,
			})
		}
		c.Waits = append(c.Waits, told)
	}
}

// allWaits merges the waits of all members.
func allWaits(members []control.Member) (waits []control.Wait) {
	for i := range members {
		waits = control.AddWaits(waits, members[i].Waits)
	}
	return waits
}

// secondsUntil returns the seconds to at; 0 if at is zero, otherwise more than 0.
func secondsUntil(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now).Seconds(), 0.001)
}

const (
	// patienceMore is added to the wait limit while nothing is fetched: the first two backoffs, so
	// that the usual retries of the last page complete.
	patienceMore = 75 * time.Second
	// patienceLeast is the minimum wait, if the wait limit is not less: the delays of politeness
	// alone.
	patienceLeast = 90 * time.Second
)

// lasting is the rest of the wait limit of one wait: sites that repeatedly require a delay just
// below the limit must not extend it for hours.
type lasting struct {
	patience time.Duration
	fetched  int64
	since    time.Time // time of the last fetch
}

// left records the fetch counters and returns the current wait limit. 0 stays unlimited.
func (l *lasting) left(c *control.Counters, now time.Time) time.Duration {
	if fetched := c.Pages + c.Duplicates + c.Redirects; fetched != l.fetched {
		l.fetched, l.since = fetched, now
	}
	return min(l.patience, max(l.patience+patienceMore-now.Sub(l.since), patienceLeast))
}
