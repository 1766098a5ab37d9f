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

// Domains is what the registrable domains of hosts have to say: which are full, and what is yet to
// be told to those who answer for them.
type Domains struct {
	*Step
	Crowded map[Crowd]domain.Verdict // domains that get no more hosts in a job, and why
	kin     map[Crowd][]farm.Said    // what hosts of domains said that those who answer for the domains were not told yet
}

// Crowd is a domain in a job.
type Crowd struct {
	ID     job.ID
	Domain string
}

const (
	// saidOf bounds the requests to a host among which are the pages that its domain is judged by.
	saidOf = 16
	// maxSaid pages of hosts of one domain wait for a question at most before they are told without
	// one; maxKin bounds the domains.
	maxSaid = 32
	maxKin  = 1 << 10
)

// admissionEvery is how long after a question for an admission that had no answer it is asked
// again.
const admissionEvery = 5_000

// maxCrowded bounds the full domains in memory; hosts of one that was forgotten are asked for
// again.
const maxCrowded = 1 << 14

// Say notes what one of the first pages of a host says, or that it redirects to yet another host,
// for whoever answers for its domain. Kin: its links lead to hosts of that domain that are new.
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
	if d.kin[key] = list; len(list) >= maxSaid { // the hosts that are known may bring no more of them, so that nobody asks
		d.Ready.Admissions = append(d.Ready.Admissions, Admission{hj.State.ID, h.Rec.Name, d.take(hj.State, h.Rec.Name)})
	}
}

// take takes what is to be told with a question for a host.
func (d *Domains) take(js *JobState, name string) *[]farm.Said {
	key := Crowd{js.ID, domain.Of(name)}
	list := d.kin[key]
	if len(list) == 0 {
		return nil
	}
	delete(d.kin, key)
	return &list
}

// TurnedAway says why a job may not have a host on account of its domain's others.
func (d *Domains) TurnedAway(v domain.Verdict) string {
	switch v {
	case domain.Stale:
		return farm.FullText(d.Cfg.Novelty)
	case domain.Ported:
		return fmt.Sprintf("the job has as many ports of its name as it may (%d)", domain.MaxPorts)
	default:
		return "its domain has as many hosts in the job as it may"
	}
}

// admitted says whether a job may have a host as far as is known here.
func (d *Domains) admitted(h *Host, hj *Job) bool {
	return !d.Cfg.Admission || hj.Tally.Counters().Admission == domain.Admitted || domain.Plain(h.Rec.Name)
}

// ask asks what is yet to be asked of a host, and says when to look again.
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

// Crowds notes that a domain gets no more hosts in a job, and why.
func (d *Domains) Crowds(c Crowd, v domain.Verdict) {
	if d.Crowded[c] == domain.Stale {
		return
	}
	if len(d.Crowded) >= maxCrowded {
		clear(d.Crowded)
	}
	d.Crowded[c] = v
}

// Late says whether a host was admitted before its domain got no more hosts, as the others bring
// nothing new, and nothing of it was asked for yet. One that a seed is on was named by the poster,
// and stays.
func (d *Domains) Late(h *Host, hj *Job) bool {
	if hj.Tally.Counters().Admission != domain.Admitted || hj.State.Seeded(h.Rec.Name) || hj.Tally.Requests() > 0 || hj.Tally.Out() > 0 || len(d.Crowded) == 0 {
		return false
	}
	return d.Crowded[Crowd{hj.State.ID, domain.Of(h.Rec.Name)}] == domain.Stale
}
