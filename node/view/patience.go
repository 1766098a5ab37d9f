package view

import (
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
)

// DefaultPatience is how far away the next try of a URL may be before a wait for the end of a crawl
// does without it: as long as the last of the usual waits between tries, so that what fails for a
// passing reason has them all.
const DefaultPatience = 10 * time.Minute

// MaxPatience bounds it: no site is believed to want to be left alone for longer.
const MaxPatience = 30 * 24 * time.Hour

// horizon is until when a next try is waited for by a patience, by the lease clock; 0 is without
// end.
func (v *View) horizon(patience time.Duration) time.Time {
	if patience == 0 {
		patience = MaxPatience
	}
	return v.deps.Hosts.Now().Add(patience)
}

// reasonAsked stands for hosts that wish to be left alone, and for single URLs that wait for
// another try.
const reasonAsked = "asked"

// tellWaits fills in which hosts are left alone, and what is put off.
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

// allWaits merges what all members say.
func allWaits(members []control.Member) (waits []control.Wait) {
	for i := range members {
		waits = control.AddWaits(waits, members[i].Waits)
	}
	return waits
}

// secondsUntil is how far away a time is, 0 if there is none, and more than that if there is one.
func secondsUntil(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now).Seconds(), 0.001)
}

const (
	// patienceMore is how much longer than the patience a wait may last in which nothing is
	// fetched: the first two waits between tries, so that the usual tries of the last page come to
	// their end.
	patienceMore = 75 * time.Second
	// patienceLeast is waited for in any case, if the patience is not less: what politeness alone
	// asks for.
	patienceLeast = 90 * time.Second
)

// lasting is what is left of the patience of one wait: sites that ask again and again to be left
// alone for a little less must not hold it up for hours.
type lasting struct {
	patience time.Duration
	fetched  int64
	since    time.Time // when something was fetched last
}

// left takes in what has been fetched so far and returns how far away a next try may be. 0 stays
// without end.
func (l *lasting) left(c *control.Counters, now time.Time) time.Duration {
	if fetched := c.Pages + c.Duplicates + c.Redirects; fetched != l.fetched {
		l.fetched, l.since = fetched, now
	}
	return min(l.patience, max(l.patience+patienceMore-now.Sub(l.since), patienceLeast))
}
