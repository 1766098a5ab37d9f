package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// purgePerStep bounds how many URLs meet their fate in one step; the search for those of a host
// counts as purgeHost of them.
const (
	purgePerStep = 512
	purgeHost    = 8
)

// purges are the hosts with URLs that are to get their fate, in the order in which they were found.
//
//	state     next      because
//	none      purging   add: some URLs of the host share an outcome; no worker is looked for from here on
//	purging   none      pass: all of them have it
type purges struct{ list []*host }

func (p *purges) some() bool { return len(p.list) > 0 }

func (p *purges) add(h *host) {
	h.purging = true
	p.list = append(p.list, h)
}

func (p *purges) first() *host { return p.list[0] }

// pass takes off the first, which may be found again.
func (p *purges) pass() {
	p.list[0].purging = false
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil
	}
}

// fate is the outcome that all pending URLs of a job on a host get without being tried, if there is
// one.
func (a *agenda) fate(h *host, hj *hostJob) (link.Outcome, bool) {
	js := hj.state
	c := hj.Tally.Counters()
	switch {
	case !js.Known:
		return 0, false
	case js.State == job.StateCanceled:
		return link.OutcomeNone, true
	case a.optedOut(h) != "":
		return link.OutcomeOptedOut, true
	case c.Admission == domain.Crowded || c.Admission == domain.Ported:
		return link.OutcomeOutOfBudget, true
	case c.Admission == domain.Stale || a.domains.late(h, hj):
		return link.OutcomeTrap, true
	case c.Trap:
		return link.OutcomeTrap, true
	case c.Down != link.OutcomeNone && a.now < c.DownUntil:
		return c.Down, true
	case js.Exhausted():
		return link.OutcomeOutOfBudget, true
	case a.spends(hj) != spentNothing:
		return link.OutcomeOutOfBudget, true
	case js.Spec.MaxPagesPerHost > 0 && hj.Tally.Promised() == 0 && hj.pagesLeft() <= 0:
		return link.OutcomeOutOfBudget, true
	default:
		return 0, false
	}
}

// late says whether a host was admitted before its domain got no more hosts, as the others bring
// nothing new, and nothing of it was asked for yet. One that a seed is on was named by the poster,
// and stays.
func (d *domains) late(h *host, hj *hostJob) bool {
	if hj.Tally.Counters().Admission != domain.Admitted || hj.state.seeded(h.rec.Name) || hj.Tally.Requests() > 0 || hj.Tally.Out() > 0 || len(d.crowded) == 0 {
		return false
	}
	return d.crowded[crowd{hj.state.ID, domain.Of(h.rec.Name)}] == domain.Stale
}

// checkPurge puts a host on the list of those with URLs to purge, or says when it is to be looked
// at again.
func (a *agenda) checkPurge(h *host) (again int64) {
	again = never
	for _, hj := range h.jobs {
		if h.purging || h.frozen > 0 {
			return never
		}
		if hj.Tally.Ready()+hj.Tally.Waiting() <= 0 {
			continue
		}
		if _, dead := a.fate(h, hj); !dead {
			continue
		}
		if h.barred(a.now) && hj.Tally.PromisedHere() > 0 {
			again = h.bar // a report may be on its way, for which there must be budget
			continue
		}
		a.purges.add(h)
	}
	return again
}

// purger gives URLs the outcome that they all share, some with each step.
type purger struct {
	*step
	hosts   *hostTable
	agenda  *agenda
	traps   *traps
	domains *domains
}

// some gives hosts' URLs their fate, as many as a step has room for.
func (g *purger) some() {
	if !g.agenda.purges.some() {
		return
	}
	g.hosts.flush()
	budget := purgePerStep
	for budget > 0 && g.agenda.purges.some() && g.buf.Err() == nil {
		h := g.agenda.purges.first()
		budget -= purgeHost
		for _, hj := range h.jobs {
			budget -= g.purge(h, hj, budget)
		}
		if budget > 0 {
			g.agenda.purges.pass()
			g.agenda.changed(h)
		}
	}
}

// purge gives up to limit pending URLs that are not out their fate, and says how many.
func (g *purger) purge(h *host, hj *hostJob, limit int) int {
	fate, dead := g.agenda.fate(h, hj)
	if !dead || limit <= 0 || h.frozen > 0 || hj.Tally.Ready()+hj.Tally.Waiting() <= 0 || h.barred(g.now) && hj.Tally.PromisedHere() > 0 {
		return 0
	}
	return hj.ConcludeAll(limit, func(hash uint64) bool { return h.lease.item(hash) != nil }, ondisk.Final{Outcome: fate, Detail: g.text(h, hj, fate)})
}

// text says for people why URLs share an outcome.
func (g *purger) text(h *host, hj *hostJob, fate link.Outcome) string {
	switch {
	case fate == link.OutcomeNone:
		return "the job was canceled"
	case fate == link.OutcomeOptedOut:
		return ondisk.Clip(g.optedOut(h))
	case g.domains.late(h, hj):
		return ondisk.Clip(g.domains.turnedAway(domain.Stale))
	case hj.Tally.Counters().Admission.TurnsAway():
		return ondisk.Clip(g.domains.turnedAway(hj.Tally.Counters().Admission))
	case fate == link.OutcomeTrap:
		return g.traps.text(h, hj)
	case fate == link.OutcomeOutOfBudget && hj.state.Exhausted():
		return "the job's budget was used up before its turn"
	case fate == link.OutcomeOutOfBudget && g.spends(hj) != spentNothing:
		return g.spentText(hj)
	case fate == link.OutcomeOutOfBudget:
		return fmt.Sprintf("the job has as many pages of the host as it may (--max-pages-per-host %d)", hj.state.Spec.MaxPagesPerHost)
	default:
		return "the host failed too often in a row: " + h.rec.BackoffReason
	}
}
