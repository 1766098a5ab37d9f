package hosts

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Domains is the state of registrable domains: which are full, and the reports that are still to be
// sent to their owners.
type Domains struct {
	*Step
	Crowded map[Crowd]domain.Verdict // domains that get no more hosts in a job, with the reason
	kin     map[Crowd][]farm.Said    // reports of hosts of a domain that its owner has not received
}

// Crowd identifies a domain in a job.
type Crowd struct {
	ID     job.ID
	Domain string
}

const (
	// saidOf is the number of requests to a host among which its pages are reported for its domain.
	saidOf = 16
	// maxSaid is the maximum of page reports of a domain that wait for its next admission request;
	// then they are sent without one. MaxKin bounds the domains.
	maxSaid = 32
	maxKin  = 1 << 10
)

// admissionEvery is the delay in ms before an unanswered admission request is repeated.
const admissionEvery = 5_000

// maxCrowded bounds the full domains in memory; for a forgotten one, admission is requested again.
const maxCrowded = 1 << 14

// Say records one of the first pages of a host, or its redirect to another host, for the owner of
// its domain. Kin: its links lead to new hosts of that domain.
func (d *Domains) Say(h *Host, hj *Job, got *ondisk.Final, f *wire.Fetched, kin bool) {
	redirect := got.Outcome == link.OutcomeRedirect
	if !d.Cfg.Admission || f.GetAllPrint() == 0 && !redirect || hj.Tally.Requests() > saidOf || domain.Plain(h.Rec.Name) {
		return
	}
	brought := len(f.GetLinks()) > 0 && kin
	if redirect && !brought {
		return
	}
	key := Crowd{hj.State.ID, domain.Of(h.Rec.Name)}
	if d.Crowded[key] == domain.Stale {
		return
	}
	if len(d.kin) >= maxKin {
		clear(d.kin)
	}
	list := d.kin[key]
	list = append(list, farm.Said{Host: farm.HostOf(h.Rec.Name), All: f.GetAllPrint(), Words: f.GetWords(), Brought: brought})
	if d.kin[key] = list; len(list) >= maxSaid { // its known hosts may add no more, so no request would follow
		d.Ready.Admissions = append(d.Ready.Admissions, Admission{hj.State.ID, h.Rec.Name, d.take(hj.State, h.Rec.Name)})
	}
}

// take returns and removes the reports to be sent with an admission request.
func (d *Domains) take(js *JobState, name string) *[]farm.Said {
	key := Crowd{js.ID, domain.Of(name)}
	list := d.kin[key]
	if len(list) == 0 {
		return nil
	}
	delete(d.kin, key)
	return &list
}

// TurnedAway returns the reason why a job may not have another host of a domain.
func (d *Domains) TurnedAway(v domain.Verdict) string {
	switch v {
	case domain.Stale:
		return farm.FullText(d.Cfg.Novelty)
	case domain.Ported:
		return fmt.Sprintf("the job reached its limit of ports of its name (%d)", domain.MaxPorts)
	default:
		return "its domain reached its limit of hosts in the job"
	}
}

// admitted reports whether a job may have a host, by the state known here.
func (d *Domains) admitted(h *Host, hj *Job) bool {
	return !d.Cfg.Admission || hj.Tally.Counters().Admission == domain.Admitted || domain.Plain(h.Rec.Name)
}

// ask sends missing admission requests of a host, and returns the time of the next check.
func (d *Domains) ask(h *Host) (again int64) {
	if again = Never; !d.Cfg.Admission || h.Frozen > 0 {
		return again
	}
	for _, hj := range h.Jobs {
		if hj.Tally.Counters().Admission != domain.Unknown || hj.Tally.Open() == 0 || d.admitted(h, hj) || d.WhyOptedOut(h) != "" {
			continue
		}
		if !d.Ring.Mine(h.Key) {
			return Never
		}
		if hj.askedAt == 0 || d.Now-hj.askedAt >= admissionEvery {
			hj.askedAt = max(d.Now, 1)
			d.Ready.Admissions = append(d.Ready.Admissions, Admission{hj.State.ID, h.Rec.Name, d.take(hj.State, h.Rec.Name)})
		}
		again = min(again, hj.askedAt+admissionEvery)
	}
	return again
}

// Crowds records that a domain gets no more hosts in a job, and why.
func (d *Domains) Crowds(c Crowd, v domain.Verdict) {
	if d.Crowded[c] == domain.Stale {
		return
	}
	if len(d.Crowded) >= maxCrowded {
		clear(d.Crowded)
	}
	d.Crowded[c] = v
}

// Late reports whether a host was admitted before its domain was closed for lack of new content,
// and has had no request. A host with a seed is exempt, since the poster named it.
func (d *Domains) Late(h *Host, hj *Job) bool {
	if hj.Tally.Counters().Admission != domain.Admitted || hj.State.Seeded(h.Rec.Name) || hj.Tally.Requests() > 0 || hj.Tally.Out() > 0 || len(d.Crowded) == 0 {
		return false
	}
	return d.Crowded[Crowd{hj.State.ID, domain.Of(h.Rec.Name)}] == domain.Stale
}
