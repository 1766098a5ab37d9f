package owner

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// revisited processes the outcome of a URL that was fetched again. It counts neither as a repeated
// fetch nor for the budgets and trap rules of new pages. An error never replaces a page. It is nil
// for a report whose lease has ended.
func (oc *outcomes) revisited(h *hosts.Host, hj *hosts.Job, hash uint64, it *hosts.Item, had, got *ondisk.Final, f *wire.Fetched, went links.Ahead) {
	at := min(got.FetchedMs, oc.Now)
	switch page := ondisk.Knows(got.Outcome) == ondisk.Knows(link.OutcomeOK); {
	case it == nil && (at == 0 || !page):
		return // late: it was granted again, or is repeated
	case at == 0:
		at = oc.Now
	}
	if had.LastVisit() >= ondisk.Seconds(at) { // a repeated report, or a visit within a second of the last
		if had.Revisit.Due > 0 && had.Revisit.Due <= ondisk.Seconds(oc.Now) {
			next := *had
			next.Revisit.Due = oc.jobs.Due(hj, hash, had, fresh.Failed)
			hj.Correct(hash, had, &next)
		}
		return
	}
	oc.health(h, had.URL, got, f)
	next := *had
	what, since := fresh.Failed, 0.0
	switch {
	case f.GetStatus() == http.StatusNotModified && got.Outcome == link.OutcomeDuplicate:
		what = fresh.Unchanged
		next.Validated(had, got)
		hj.NotModified()
	case ondisk.Knows(got.Outcome) == ondisk.Knows(link.OutcomeOK):
		changed, known := contentOf(had, got, f)
		if it != nil && it.Plain && known {
			h.Rec.Validators.Compared(changed && had.SameValidator(got))
			oc.hosts.Touched(h)
		}
		if !bytes.Equal(had.Digest, got.Digest) || len(had.Digest) == 0 {
			next = *got
			next.Depth, next.Hops, next.Kind, next.Tries, next.Via, next.Revisit = had.Depth, had.Hops, had.Kind, had.Tries, had.Via, had.Revisit
		}
		next.Validated(had, got)
		if changed && known && had.SameValidator(got) {
			next.ETag, next.LastModified = "", "" // they lie: not used again
		}
		next.Revisit.Content = f.GetContent()
		switch {
		case !changed && known:
			what = fresh.Unchanged
		case known:
			what, since = oc.changedAt(h, had, got, at)
			next.Revisit.Changes++
		}
	case got.Status == http.StatusNotFound || got.Status == http.StatusGone:
		what = fresh.Gone
	}
	host, sums := hj.Tally.Counters(), hj.State.Sums()
	ofHost, ofJob := host.Means(), sums.Means()
	p := oc.Page(hj, had)
	p = p.Visit(max(oc.Days(at), p.Last), what, since, &ofHost, &ofJob)
	r := &next.Revisit
	if s := had.Revisit.Signal; s != 0 && what != fresh.Failed {
		h.Rec.Proved(s, what == fresh.Changed || what == fresh.ChangedAt)
		oc.hosts.Touched(h)
		r.Signal = 0
	}
	r.Rate, r.Visits, r.Misses = p.Rate, p.Visits, p.Misses
	if what != fresh.Failed && what != fresh.Gone {
		r.Last = ondisk.Seconds(at)
	}
	r.Due = 0
	r.Due = oc.jobs.Due(hj, hash, &next, what)
	hj.Correct(hash, had, &next)
	oc.checks.Begin(h, hj, hash, opinionOf(got, f))
	kind := ondisk.SignalSitemap
	if f.GetFeed() {
		kind = ondisk.SignalFeed
	}
	for i, url := range f.GetChanged() {
		if link.Host(string(url)) == h.Rec.Name {
			oc.scans.Signal(h, hj, string(url), kind, f.GetChangedS()[i])
		}
	}
	if js := hj.State; what >= fresh.Changed && what <= fresh.ChangedAt && js.State != job.StateCanceled {
		oc.emitter.Emit(h, js, &next, f, went)
	}
}

// contentOf compares the content of a page with that of its last visit; known is false if
// nothing is known of it.
func contentOf(had, got *ondisk.Final, f *wire.Fetched) (changed, known bool) {
	was, is := had.Revisit.Content, f.GetContent()
	switch {
	case had.Outcome == link.OutcomeRedirect || got.Outcome == link.OutcomeRedirect:
		return had.Outcome != got.Outcome || had.Target() != got.Target(), true
	case len(had.Digest) > 0 && bytes.Equal(had.Digest, got.Digest):
		return false, true
	case was != 0 && is != 0:
		return was != is, true
	default:
		return true, len(had.Digest) > 0 && len(got.Digest) > 0
	}
}

// changedAt returns when a page has changed, in days: the time that the site names is believed if
// it lies between the visits, and if the host's validators are honest.
func (oc *outcomes) changedAt(h *hosts.Host, had, got *ondisk.Final, at int64) (what fresh.Outcome, since float64) {
	t, err := http.ParseTime(got.LastModified)
	if ms := t.UnixMilli(); err == nil && ms > int64(had.LastVisit())*1000 && ms <= at && h.Rec.Validators.Believed() {
		return fresh.ChangedAt, oc.Days(ms)
	}
	return fresh.Changed, 0
}

// health applies an outcome to the state of the host, and reports whether it is a timeout of this
// URL alone.
func (oc *outcomes) health(h *hosts.Host, url string, got *ondisk.Final, f *wire.Fetched) (hung bool) {
	switch {
	case got.Outcome == link.OutcomeTimeout && got.Status == link.Hung:
		if hung = oc.hung(h, url); !hung {
			oc.hostFailed(h, got, int64(f.GetRetryAfterMs()))
		}
	case got.Outcome.HostWide() || stalls(got):
		oc.hostFailed(h, got, int64(f.GetRetryAfterMs()))
	default:
		h.Hangs.Answered(url)
		oc.hostAnswered(h)
	}
	return hung
}

// Shares returns the thresholds and numbers of pages of the jobs with a budget of visits.
func (bk *books) Shares() *wire.Shares {
	m := new(wire.Shares)
	for _, js := range bk.jobs.Order {
		if js.Refresh.PerDay() == 0 || len(m.GetJobIds()) == wire.MaxJobs {
			continue
		}
		sums := js.Sums()
		m.JobIds, m.Pages = append(m.JobIds, js.ID[:]), append(m.Pages, uint64(max(sums.Scheduled, 0)))
		m.Threshold = append(m.Threshold, js.Control().Log)
	}
	return m
}

// lyingPages bounds the pages of a neighbor relative to the median, when a share is computed.
const lyingPages = 16

// Share sets this peer's share of the visits of each job: by its pages among those of a ring of a
// size in peers, estimated from the neighbors. Thresholds follow those of the neighbors. Part of a
// step.
func (o *Owner) Share(size int, neighbors []*wire.Shares) {
	for _, js := range o.jobs.Order {
		if js.Refresh.PerDay() == 0 {
			continue
		}
		sums := js.Sums()
		pages, logs := []float64{float64(sums.Scheduled)}, []float64(nil)
		for _, m := range neighbors {
			n := 0.0
			if i := slices.IndexFunc(m.GetJobIds(), func(id []byte) bool { return job.ID(id) == js.ID }); i >= 0 {
				if n = float64(m.GetPages()[i]); n > 0 {
					logs = append(logs, m.GetThreshold()[i])
				}
			}
			pages = append(pages, n)
		}
		own, sum := pages[0], 0.0
		slices.Sort(pages)
		most := lyingPages * max(pages[len(pages)/2], own, 1)
		for _, n := range pages {
			sum += min(n, most)
		}
		o.jobs.Share(js, max(own, 1)/max(sum/float64(len(pages))*float64(max(size, len(pages))), max(own, 1)), logs)
	}
}

// Refresh makes URLs, or all pages of a host, due to be fetched again, or earlier than planned if
// the site states that they have changed. It returns the number of jobs for which it does so. Part
// of a step.
func (o *Owner) Refresh(a *wire.Again) (jobs int) {
	h := o.hosts.Find(a.GetHost())
	if h == nil {
		return 0
	}
	for _, hj := range h.Jobs {
		js, found := hj.State, false
		if !a.GetIndexNow() && (!o.jobs.Knows(js) || js.State == job.StateCanceled || js.Refresh == 0 && !a.GetNow() || !js.Spec.Permits(a)) {
			continue
		}
		if len(a.GetUrl()) == 0 && !a.GetIndexNow() {
			found = o.scans.Host(h, js, a)
		}
		for _, url := range a.GetUrl() {
			if a.GetIndexNow() {
				o.scans.Signal(h, hj, string(url), ondisk.SignalIndexNow, a.GetAtS())
			} else {
				found = o.scans.URL(h, hj, link.Hash(js.ID, string(url)), a) || found
			}
		}
		if found {
			jobs++
		}
	}
	return jobs
}
