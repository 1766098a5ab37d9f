package owner

import (
	"cmp"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
)

// Waits returns the hosts in backoff by outcome, and for each job the number of URLs deferred
// beyond the horizon.
func (bk *books) Waits(horizon time.Time) ([]hosts.Wait, map[job.ID]hosts.PutOff) {
	byOutcome := make(map[link.Outcome]*hosts.Wait)
	jobs := make(map[job.ID]hosts.PutOff)
	for _, h := range bk.hosts.ByName {
		if rest := bk.rests.Rest(h, horizon.UnixMilli(), jobs); rest.URLs > 0 {
			hosts.WaitOf(byOutcome, h.Rec.FailOutcome).Add(h, &rest, bk.Now)
		}
	}
	bk.rests.Away.Waits(bk.Now, horizon.UnixMilli(), byOutcome, jobs)
	list := make([]hosts.Wait, 0, len(byOutcome))
	for _, w := range byOutcome {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b hosts.Wait) int {
		return cmp.Or(cmp.Compare(b.PutOff, a.PutOff), cmp.Compare(a.Reason, b.Reason))
	})
	return list, jobs
}
