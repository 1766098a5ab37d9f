package owner

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
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

// ask has so many requests be made.
func ask(hj *hostJob, n int) {
	for range n {
		hj.Requested()
	}
}

// fetched has so many pages be fetched.
func fetched(hj *hostJob, n uint64) {
	for hash := range n {
		hj.Learn(hash, 0)
		hj.Conclude(&ondisk.Pending{Hash: hash}, ondisk.Final{Outcome: link.OutcomeOK})
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
		{"down", func(_ *host, hj *hostJob) { hj.Fail(link.OutcomeDNS, now+1) }, link.OutcomeDNS, true},
		{"down until now", func(_ *host, hj *hostJob) { hj.Fail(link.OutcomeDNS, now) }, 0, false},
		{"a trap, and down", func(_ *host, hj *hostJob) { hj.Trapped(); hj.Fail(link.OutcomeDNS, now+1) }, link.OutcomeTrap, true},
		{"crowded, and a trap", func(_ *host, hj *hostJob) { hj.Admit(domain.Crowded); hj.Trapped() }, link.OutcomeOutOfBudget, true},
		{"a stale domain", func(_ *host, hj *hostJob) { hj.Admit(domain.Stale) }, link.OutcomeTrap, true},
		{"opted out, and crowded", func(h *host, hj *hostJob) { h.rec.OptOut.On = true; hj.Admit(domain.Crowded) }, link.OutcomeOptedOut, true},
		{"canceled, and opted out", func(h *host, hj *hostJob) { h.rec.OptOut.On, hj.state.State = true, job.StateCanceled }, link.OutcomeNone, true},
		{"an unknown job, canceled", func(_ *host, hj *hostJob) { hj.state.Known, hj.state.State = false, job.StateCanceled }, 0, false},
		{"a budget used up", func(_ *host, hj *hostJob) { hj.state.Exhaust() }, link.OutcomeOutOfBudget, true},
		{"all requests made", func(_ *host, hj *hostJob) { ask(hj, 50) }, link.OutcomeOutOfBudget, true},
		{"all pages fetched", func(_ *host, hj *hostJob) { hj.state.Spec.MaxPagesPerHost = 3; fetched(hj, 3) }, link.OutcomeOutOfBudget, true},
		{"all but what is promised", func(_ *host, hj *hostJob) {
			hj.state.Spec.MaxPagesPerHost = 3
			fetched(hj, 2)
			hj.Adopt(&ondisk.Pending{})
		}, 0, false},
	} {
		s := &step{cfg: Config{MaxRequests: 50, OptOuts: noOptOuts{}}, now: now}
		a := &agenda{step: s, domains: &domains{step: s}}
		h := &host{}
		hj := emptyBook()
		c.make(h, hj)
		if got, dead := a.fate(h, hj); got != c.want || dead != c.dead {
			t.Errorf("%s: %v, %v", c.name, got, dead)
		}
	}
}
