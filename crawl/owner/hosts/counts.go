package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Counts are the books of one job on this peer. Accepted and Done only grow; Accepted = Pending +
// Leased + Done at any moment.
type Counts struct {
	Accepted, Done int64 // URLs in the URL sets, and those of them with an outcome
	// Pending URLs are not out; Waiting of them wait for another try, the first of those of the
	// hosts in memory at NextDue (zero if none).
	Pending, Waiting int64
	NextDue          time.Time // zero: none waits
	Leased           int64     // out at workers
	// Outbox counts the links of pages of which some have not been acknowledged by their owners.
	Outbox    int64
	Outcomes  [link.Outcomes]int64 // URLs that are done
	Bytes     int64                // of bodies fetched
	Refetched int64                // fetched more than once
	// LeftOut are links of pages beyond the bounds of what is taken of one.
	LeftOut int64
}

// Outstanding is the work that is not finished.
func (c *Counts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox }

// CountsOf are the books that counters come to, with so many URLs at workers.
func CountsOf(of *ondisk.Counters, out int64) Counts {
	c := Counts{
		Accepted: of.Accepted, Done: of.Done(), Waiting: of.Delayed, Leased: out, Outbox: of.Outbox,
		Outcomes: of.Outcomes, Bytes: of.Bytes, Refetched: of.Refetched, LeftOut: of.LeftOut,
	}
	c.Pending = c.Accepted - c.Done - c.Leased
	return c
}

// Counts are those of the job on this peer.
func (js *JobState) Counts() Counts {
	c := js.Sums()
	return CountsOf(&c, js.Out())
}

// HostCounts are the books of a job on a host.
type HostCounts struct {
	Job job.ID // whose books they are
	Counts
	// Admission is what the owner of the registrable domain said.
	Admission domain.Verdict
	// Requests are those made to the host; LinksCut are links that were not taken, as its pages led
	// to too many new hosts or too much of it waits.
	Requests, LinksCut int64
	// Novelty is how far the host, or some part of it, has come on the way to a trap, 0 to 1; Trap
	// says why the host is one, if it is; parts of it that still bring something go on.
	Novelty float64
	Trap    string // why it is one, in words; empty: it is none
	Spent   string // which share of the host the job has used up, in words; empty: none
}
