package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
)

// Counts are the counters of one job on this peer. Accepted and Done only grow; Accepted = Pending
// + Leased + Done at any moment.
type Counts struct {
	Accepted, Done int64 // URLs in the URL sets, and those with an outcome
	// Pending URLs are not out. Waiting of them wait for a retry, the first of those on hosts in
	// memory until NextDue (zero if none).
	Pending, Waiting int64
	NextDue          time.Time // zero: no URL waits
	Leased           int64     // out at workers
	// Outbox counts the links of pages with links that are not yet acknowledged.
	Outbox    int64
	Outcomes  [link.Outcomes]int64 // done URLs
	Bytes     int64                // of bodies
	Refetched int64                // repeated fetches
	// LeftOut counts links beyond the limits of a page.
	LeftOut int64
}

// Outstanding returns the number of unfinished items.
func (c *Counts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox }

// CountsOf converts counters, with the number of URLs at workers.
func CountsOf(of *ondisk.Counters, out int64) Counts {
	c := Counts{
		Accepted: of.Accepted, Done: of.Done(), Waiting: of.Delayed, Leased: out, Outbox: of.Outbox,
		Outcomes: of.Outcomes, Bytes: of.Bytes, Refetched: of.Refetched, LeftOut: of.LeftOut,
	}
	c.Pending = c.Accepted - c.Done - c.Leased
	return c
}

// Counts returns the counters of the job on this peer.
func (js *JobState) Counts() Counts {
	c := js.Sums()
	return CountsOf(&c, js.Out())
}

// HostCounts are the counters of a job on a host.
type HostCounts struct {
	Job job.ID // the job
	Counts
	// Admission is the verdict of the owner of the registrable domain.
	Admission domain.Verdict
	// Requests counts requests to the host; LinksCut counts links rejected because the host's pages
	// link to too many new hosts, or too many of its URLs wait.
	Requests, LinksCut int64
	// Left counts what the trap rules left, by rule, and Rules are their limits; Trap describes the
	// rule that left most, empty: none did.
	Left  [trap.Count]trap.Left
	Rules trap.Rules
	Trap  string
	Spent string // exhausted limit of the job for the host, for display; empty: none
}
