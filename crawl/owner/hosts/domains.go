package hosts

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
)

// Domains is the state of registrable domains: which of them are full.
type Domains struct {
	*Step
	Full map[DomainJob]domain.Verdict // domains that get no more hosts in a job, with the reason
}

// DomainJob identifies a domain in a job.
type DomainJob struct {
	ID     job.ID
	Domain string
}

// admissionEvery is the delay in ms before an unanswered admission request is repeated.
const admissionEvery = 5_000

// maxFullDomains bounds the full domains in memory; for a forgotten one, admission is requested
// again.
const maxFullDomains = 1 << 14

// TurnedAway returns the reason why a job may not have another host of a domain.
func (d *Domains) TurnedAway(v domain.Verdict) string {
	switch v {
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
			d.Ready.Admissions = append(d.Ready.Admissions, Admission{hj.State.ID, h.Rec.Name})
		}
		again = min(again, hj.askedAt+admissionEvery)
	}
	return again
}

// SetFull records that a domain gets no more hosts in a job, and why.
func (d *Domains) SetFull(c DomainJob, v domain.Verdict) {
	if len(d.Full) >= maxFullDomains {
		clear(d.Full)
	}
	d.Full[c] = v
}
