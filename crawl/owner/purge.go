package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

const (
	purgeHost = 8
)

// purger gives URLs the outcome that they all share, some with each step.
type purger struct {
	*hosts.Step
	hosts   *hosts.Table
	agenda  *hosts.Agenda
	traps   *hosts.Traps
	domains *hosts.Domains
}

// some gives hosts' URLs their fate, as many as a step has room for.
func (g *purger) some() {
	if !g.agenda.Purges.Some() {
		return
	}
	g.hosts.Flush()
	budget := leases.PurgePerStep
	for budget > 0 && g.agenda.Purges.Some() && g.Buf.Err() == nil {
		h := g.agenda.Purges.First()
		budget -= purgeHost
		for _, hj := range h.Jobs {
			budget -= g.purge(h, hj, budget)
		}
		if budget > 0 {
			g.agenda.Purges.Pass()
			g.agenda.Changed(h)
		}
	}
}

// purge gives up to limit pending URLs that are not out their fate, and says how many.
func (g *purger) purge(h *hosts.Host, hj *hosts.Job, limit int) int {
	fate, dead := g.agenda.Fate(h, hj)
	if !dead || limit <= 0 || h.Frozen > 0 || hj.Tally.Ready()+hj.Tally.Waiting() <= 0 || h.Barred(g.Now) && hj.Tally.PromisedHere() > 0 {
		return 0
	}
	return hj.ConcludeAll(limit, func(hash uint64) bool { return h.Lease.Item(hash) != nil }, ondisk.Final{Outcome: fate, Detail: g.text(h, hj, fate)})
}

// text says for people why URLs share an outcome.
func (g *purger) text(h *hosts.Host, hj *hosts.Job, fate link.Outcome) string {
	switch {
	case fate == link.OutcomeNone:
		return "the job was canceled"
	case fate == link.OutcomeOptedOut:
		return ondisk.Clip(g.WhyOptedOut(h))
	case g.domains.Late(h, hj):
		return ondisk.Clip(g.domains.TurnedAway(domain.Stale))
	case hj.Tally.Counters().Admission.TurnsAway():
		return ondisk.Clip(g.domains.TurnedAway(hj.Tally.Counters().Admission))
	case fate == link.OutcomeTrap:
		return g.traps.Text(h, hj)
	case fate == link.OutcomeOutOfBudget && hj.State.Exhausted():
		return "the job's budget was used up before its turn"
	case fate == link.OutcomeOutOfBudget && g.Spends(hj) != hosts.SpentNothing:
		return g.SpentText(hj)
	case fate == link.OutcomeOutOfBudget:
		return fmt.Sprintf("the job has as many pages of the host as it may (--max-pages-per-host %d)", hj.State.Spec.MaxPagesPerHost)
	default:
		return "the host failed too often in a row: " + h.Rec.BackoffReason
	}
}
