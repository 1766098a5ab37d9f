package hosts

import (
	"cmp"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// Wait sums up the hosts with URLs of which nothing is fetched for a while, for one reason: they
// failed, or asked to be left alone. What politeness alone owes is none.
type Wait struct {
	// Outcome is what the hosts failed with; none: they asked to be left alone, or single URLs of
	// them wait for another try.
	Outcome     link.Outcome
	Hosts, URLs int64 // how many of each; the URLs are pending
	// PutOff counts those of the URLs whose next try is behind the horizon, HostsPutOff the hosts
	// that have such.
	PutOff, HostsPutOff int64
	// Next is the first next try, NextPutOff the first of those put off; zero: there is none.
	Next, NextPutOff time.Time
	// Examples are those of the hosts with the most URLs put off, or if there are none with the
	// most URLs.
	Examples []Waiting
}

// Waiting is a host of which nothing is fetched for a while.
type Waiting struct {
	Host         string    // its name
	URLs, PutOff int64     // pending URLs, and those of them with a next try behind the horizon
	Until        time.Time // nothing is fetched before
	// Fails counts the failures in a row, Why is the last one, or what the site asked for.
	Fails uint32
	Why   string // in words
}

// PutOff counts the URLs of one job whose next try is behind a horizon, and their hosts.
type PutOff struct {
	URLs, Hosts int64     // how many of each
	Next        time.Time // when the first is due
}

// maxExamples bounds the hosts that a Wait names.
const maxExamples = 4

// WaitOf is the entry of an outcome, made if there is none.
func WaitOf(byOutcome map[link.Outcome]*Wait, outcome link.Outcome) *Wait {
	w := byOutcome[outcome]
	if w == nil {
		w = &Wait{Outcome: outcome}
		byOutcome[outcome] = w
	}
	return w
}

// Rest is why and until when a host is left alone.
type Rest struct {
	Outcome      link.Outcome
	URLs, putOff int64
	until        int64
}

// add counts URLs of a job that wait until then.
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

// JobWait is what URLs of a job on a host wait for.
type JobWait struct {
	open    int64 // URLs that are not out
	waiting int64 // of them, those that wait for another try
	Due     int64 // when the first of those is due; never if there is none
}

// until says how many URLs wait for a time and which: all of them where the host rests as a whole,
// else those that wait for another try.
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

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
