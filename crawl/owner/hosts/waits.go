package hosts

import (
	"cmp"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// Wait sums up the hosts with URLs that are not fetched for a while, by reason: they failed, or
// asked for a delay. The politeness delay alone does not count.
type Wait struct {
	// Outcome is the failure of the hosts; none: they asked for a delay, or single URLs of them wait
	// for a retry.
	Outcome     link.Outcome
	Hosts, URLs int64 // numbers; the URLs are pending
	// PutOff counts the URLs whose next try is beyond the horizon, HostsPutOff the hosts with such
	// URLs.
	PutOff, HostsPutOff int64
	// Next is the earliest next try, NextPutOff the earliest deferred one; zero: none.
	Next, NextPutOff time.Time
	// Examples lists the hosts with the most deferred URLs, or if there are none, with the most URLs.
	Examples []Waiting
}

// Waiting is a host that is not fetched for a while.
type Waiting struct {
	Host         string    // name
	URLs, PutOff int64     // pending URLs, and those with a next try beyond the horizon
	Until        time.Time // nothing is fetched before
	// Fails counts consecutive failures; Why is the last one, or the site's request.
	Fails uint32
	Why   string // for display
}

// PutOff counts a job's deferred URLs, whose next try is beyond a horizon, and their hosts.
type PutOff struct {
	URLs, Hosts int64     // numbers of each
	Next        time.Time // first due time
}

// maxExamples bounds the hosts listed in a Wait.
const maxExamples = 4

// WaitOf returns the entry of an outcome, created if missing.
func WaitOf(byOutcome map[link.Outcome]*Wait, outcome link.Outcome) *Wait {
	w := byOutcome[outcome]
	if w == nil {
		w = &Wait{Outcome: outcome}
		byOutcome[outcome] = w
	}
	return w
}

// Rest is the reason and end of a host's wait.
type Rest struct {
	Outcome      link.Outcome
	URLs, putOff int64
	until        int64
}

// add counts URLs of a job that wait until a time.
func (r *Rest) add(js *JobState, urls, at, now, horizon int64, jobs map[job.ID]PutOff) {
	if urls == 0 || at <= now {
		return
	}
	r.URLs += urls
	r.until = min(r.until, at)
	if at <= horizon {
		return
	}
	r.putOff += urls
	p := jobs[js.ID]
	p.URLs += urls
	p.Hosts++
	p.Next = earlier(p.Next, time.UnixMilli(at))
	jobs[js.ID] = p
}

// JobWait is the wait of a job's URLs on a host.
type JobWait struct {
	open    int64 // URLs that are not out
	waiting int64 // of them, waiting for a retry
	Due     int64 // first due time of those; never if there is none
}

// until returns the number of waiting URLs and their time: all URLs if the host waits as a whole,
// else those that wait for a retry.
func (w *JobWait) until(whole int64, rests bool) (urls, at int64) {
	switch {
	case w.waiting > 0 && w.waiting == w.open:
		return w.waiting, max(w.Due, whole)
	case rests:
		return w.open, whole
	case w.waiting > 0:
		return w.waiting, max(w.Due, whole)
	default:
		return 0, 0
	}
}

// Add counts a host.
func (w *Wait) Add(h *Host, r *Rest) {
	until := time.UnixMilli(r.until)
	w.Hosts++
	w.URLs += r.URLs
	w.Next = earlier(w.Next, until)
	if r.putOff > 0 {
		w.PutOff += r.putOff
		w.HostsPutOff++
		w.NextPutOff = earlier(w.NextPutOff, until)
	}
	e := Waiting{Host: h.Rec.Name, URLs: r.URLs, PutOff: r.putOff, Until: until, Fails: h.Rec.Fails, Why: h.Rec.BackoffReason}
	at, _ := slices.BinarySearchFunc(w.Examples, e, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(b.PutOff, a.PutOff), cmp.Compare(b.URLs, a.URLs), cmp.Compare(a.Host, b.Host))
	})
	if at < maxExamples {
		w.Examples = slices.Insert(w.Examples, at, e)
		w.Examples = w.Examples[:min(maxExamples, len(w.Examples))]
	}
}

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
