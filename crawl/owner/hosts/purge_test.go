package hosts

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
	a, b := &Host{}, &Host{}
	p.add(a)
	p.add(b)
	for _, want := range []*Host{a, b} {
		if !p.Some() || p.First() != want || !want.purging {
			t.Errorf("first is %p, want %p", p.First(), want)
		}
		if p.Pass(); want.purging {
			t.Error("it is purged, and on the list")
		}
	}
	if p.Some() {
		t.Error("the list has no end")
	}
}

// ask has so many requests be made.
func ask(hj *Job, n int) {
	for range n {
		hj.Requested()
	}
}

// fetched has so many pages be fetched.
func fetched(hj *Job, n uint64) {
	for hash := range n {
		hj.Learn(hash)
		hj.Conclude(&ondisk.Pending{Hash: hash}, ondisk.Final{Outcome: link.OutcomeOK})
	}
}

// TestFate: of the reasons for which URLs end untried the first one counts.
func TestFate(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name string
		make func(h *Host, hj *Job)
		want link.Outcome
		dead bool
	}{
		{"nothing", func(*Host, *Job) {}, 0, false},
		{"down", func(_ *Host, hj *Job) { hj.Fail(link.OutcomeDNS, now+1) }, link.OutcomeDNS, true},
		{"down until now", func(_ *Host, hj *Job) { hj.Fail(link.OutcomeDNS, now) }, 0, false},
		{"a trap, and down", func(_ *Host, hj *Job) { hj.Trapped(); hj.Fail(link.OutcomeDNS, now+1) }, link.OutcomeTrap, true},
		{"crowded, and a trap", func(_ *Host, hj *Job) { hj.Admit(domain.Crowded); hj.Trapped() }, link.OutcomeOutOfBudget, true},
		{"opted out, and crowded", func(h *Host, hj *Job) { h.Rec.OptOut.On = true; hj.Admit(domain.Crowded) }, link.OutcomeOptedOut, true},
		{"canceled, and opted out", func(h *Host, hj *Job) { h.Rec.OptOut.On, hj.State.State = true, job.StateCanceled }, link.OutcomeNone, true},
		{"an unknown job, canceled", func(_ *Host, hj *Job) { hj.State.Known, hj.State.State = false, job.StateCanceled }, 0, false},
		{"a budget used up", func(_ *Host, hj *Job) { hj.State.Exhaust() }, link.OutcomeOutOfBudget, true},
		{"all requests made", func(_ *Host, hj *Job) { ask(hj, 50) }, link.OutcomeOutOfBudget, true},
		{"all pages fetched", func(_ *Host, hj *Job) { hj.State.Spec.MaxPagesPerHost = 3; fetched(hj, 3) }, link.OutcomeOutOfBudget, true},
		{"all but what is promised", func(_ *Host, hj *Job) {
			hj.State.Spec.MaxPagesPerHost = 3
			fetched(hj, 2)
			hj.Adopt(&ondisk.Pending{})
		}, 0, false},
	} {
		s := &Step{Cfg: Config{MaxRequests: 50, OptOuts: noOptOuts{}}, Now: now}
		a := &Agenda{Step: s, domains: &Domains{Step: s}}
		h := &Host{}
		hj := emptyBook()
		c.make(h, hj)
		if got, dead := a.Fate(h, hj); got != c.want || dead != c.dead {
			t.Errorf("%s: %v, %v", c.name, got, dead)
		}
	}
}
