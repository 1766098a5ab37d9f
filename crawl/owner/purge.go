package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

const (
	purgeHost = 8
)

// purger assigns shared outcomes to URLs, a bounded number per step.
type purger struct {
	*hosts.Step
	hosts   *hosts.Table
	agenda  *hosts.Agenda
	traps   *hosts.Traps
	domains *hosts.Domains
}

// some purges URLs of hosts, as many as the step has capacity for.
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

// purge concludes up to limit pending URLs that are not out, and returns their number.
func (g *purger) purge(h *hosts.Host, hj *hosts.Job, limit int) int {
	fate, dead := g.agenda.Fate(h, hj)
	if !dead || limit <= 0 || h.Frozen > 0 || hj.Tally.Ready()+hj.Tally.Waiting() <= 0 || h.Barred(g.Now) && hj.Tally.PromisedHere() > 0 {
		return 0
	}
	return hj.ConcludeAll(limit, func(hash uint64) bool { return h.Lease.Item(hash) != nil }, ondisk.Final{Outcome: fate, Detail: g.text(h, hj, fate)})
}

// text returns the reason of a shared outcome for display.
func (g *purger) text(h *hosts.Host, hj *hosts.Job, fate link.Outcome) string {
	switch {
	case fate == link.OutcomeNone:
		return "the job was canceled"
	case fate == link.OutcomeOptedOut:
		return ondisk.Clip(g.WhyOptedOut(h))
	case hj.Tally.Counters().Admission.TurnsAway():
		return ondisk.Clip(g.domains.TurnedAway(hj.Tally.Counters().Admission))
	case fate == link.OutcomeTrap:
		return g.traps.Text(h, hj)
	case fate == link.OutcomeOutOfBudget && hj.State.Exhausted():
		return "the job's budget was exhausted"
	case fate == link.OutcomeOutOfBudget && g.Spends(hj) != hosts.SpentNothing:
		return g.SpentText(hj)
	case fate == link.OutcomeOutOfBudget:
		return fmt.Sprintf("the job reached its page limit for the host (--max-pages-per-host %d)", hj.State.Spec.MaxPagesPerHost)
	default:
		return "too many consecutive failures of the host: " + h.Rec.BackoffReason
	}
}
