package inspect

import (
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
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

// allWaits merges the waits of all members.
func allWaits(members []control.Member) (waits []control.Wait) {
	for i := range members {
		waits = hosts.AddWaits(waits, members[i].Waits)
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
