package owner

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestPurges: hosts come off in order, and know whether they are on the list.
func TestPurges(t *testing.T) {
	var p purges
	a, b := &host{}, &host{}
	p.add(a)
	p.add(b)
	for _, want := range []*host{a, b} {
		if !p.some() || p.first() != want || !want.purging {
			t.Errorf("first is %p, want %p", p.first(), want)
		}
		if p.pass(); want.purging {
			t.Error("it is purged, and on the list")
		}
	}
	if p.some() {
		t.Error("the list has no end")
	}
}

// TestFate: of the reasons for which URLs end untried the first one counts.
func TestFate(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name string
		make func(h *host, hj *hostJob)
		want link.Outcome
		dead bool
	}{
		{"nothing", func(*host, *hostJob) {}, 0, false},
		{"down", func(_ *host, hj *hostJob) { hj.c.Down, hj.c.DownUntil = link.OutcomeDNS, now+1 }, link.OutcomeDNS, true},
		{"down until now", func(_ *host, hj *hostJob) { hj.c.Down, hj.c.DownUntil = link.OutcomeDNS, now }, 0, false},
		{"a trap, and down", func(_ *host, hj *hostJob) { hj.c.Trap, hj.c.Down, hj.c.DownUntil = true, link.OutcomeDNS, now+1 }, link.OutcomeTrap, true},
		{"crowded, and a trap", func(_ *host, hj *hostJob) { hj.c.Admission, hj.c.Trap = domain.Crowded, true }, link.OutcomeOutOfBudget, true},
		{"a stale domain", func(_ *host, hj *hostJob) { hj.c.Admission = domain.Stale }, link.OutcomeTrap, true},
		{"opted out, and crowded", func(h *host, hj *hostJob) { h.rec.OptOut.On, hj.c.Admission = true, domain.Crowded }, link.OutcomeOptedOut, true},
		{"canceled, and opted out", func(h *host, hj *hostJob) { h.rec.OptOut.On, hj.state.state = true, job.StateCanceled }, link.OutcomeNone, true},
		{"an unknown job, canceled", func(_ *host, hj *hostJob) { hj.state.known, hj.state.state = false, job.StateCanceled }, 0, false},
		{"a budget used up", func(_ *host, hj *hostJob) { hj.state.c.Exhausted = true }, link.OutcomeOutOfBudget, true},
		{"all requests made", func(_ *host, hj *hostJob) { hj.c.Requests = 50 }, link.OutcomeOutOfBudget, true},
		{"all pages fetched", func(_ *host, hj *hostJob) { hj.state.spec.MaxPagesPerHost, hj.c.Outcomes[link.OutcomeOK] = 3, 3 }, link.OutcomeOutOfBudget, true},
		{"all but what is promised", func(_ *host, hj *hostJob) {
			hj.state.spec.MaxPagesPerHost, hj.c.Outcomes[link.OutcomeOK], hj.c.Promised = 3, 2, 1
		}, 0, false},
	} {
		s := &step{cfg: Config{MaxRequests: 50, OptOuts: noOptOuts{}}, now: now}
		a := &agenda{step: s, domains: &domains{step: s}}
		h := &host{}
		hj := &hostJob{state: &jobState{known: true, spec: &job.Spec{}}}
		c.make(h, hj)
		if got, dead := a.fate(h, hj); got != c.want || dead != c.dead {
			t.Errorf("%s: %v, %v", c.name, got, dead)
		}
	}
}
