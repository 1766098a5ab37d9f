package hosts

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Counts are the counters of one job, of one host, one peer or summed over the ring. On one peer
// Accepted and Done only grow, and Accepted = Pending + Leased + Done at any moment. The JSON names
// are stable.
type Counts struct {
	// Job is the ID; empty if the context names the job.
	Job      string `json:"job,omitempty"`
	Accepted int64  `json:"accepted"` // URLs in the URL sets: pending, leased and done
	Done     int64  `json:"done"`     // URLs that have an outcome
	Pending  int64  `json:"pending"`  // URLs neither leased nor done
	Leased   int64  `json:"leased"`   // URLs given to workers, not yet reported
	Waiting  int64  `json:"waiting"`  // pending URLs that wait for a retry
	// Outbox counts links, and pages with links, not yet acknowledged by their owners.
	Outbox   int64            `json:"outbox"`
	Outcomes map[string]int64 `json:"outcomes,omitempty"` // URLs that are done, by outcome
	Bytes    int64            `json:"bytes"`              // of bodies fetched
	// LinksLeftOut are links of pages beyond the size limits of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// NextRetryS is when the first waiting URL on a host in memory is due, 0 if none waits.
	NextRetryS float64 `json:"next_retry_s,omitempty"`
	// PutOff are the deferred URLs: pending, with the next try later than the wait limit.
	PutOff      int64   `json:"put_off,omitempty"`
	PutOffHosts int64   `json:"put_off_hosts,omitempty"`  // hosts of these URLs
	PutOffNextS float64 `json:"put_off_next_s,omitempty"` // seconds until the first is due
}

// Add sums o into c.
func (c *Counts) Add(o *Counts) {
	of := [...]int64{o.Accepted, o.Done, o.Pending, o.Leased, o.Waiting, o.Outbox, o.Bytes, o.LinksLeftOut, o.PutOff, o.PutOffHosts}
	for i, to := range [...]*int64{&c.Accepted, &c.Done, &c.Pending, &c.Leased, &c.Waiting, &c.Outbox, &c.Bytes, &c.LinksLeftOut, &c.PutOff, &c.PutOffHosts} {
		*to += of[i]
	}
	c.PutOffNextS = Sooner(c.PutOffNextS, o.PutOffNextS)
	for k, v := range o.Outcomes {
		if c.Outcomes == nil {
			c.Outcomes = make(map[string]int64)
		}
		c.Outcomes[k] += v
	}
	c.NextRetryS = Sooner(c.NextRetryS, o.NextRetryS)
}

// Outstanding returns the job's unfinished work.
func (c *Counts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox }

// Due returns the unfinished work that is not deferred.
func (c *Counts) Due() int64 { return c.Outstanding() - min(c.PutOff, c.Pending) }

// Fetched returns the number of pages fetched.
func (c *Counts) Fetched() int64 {
	return c.Outcomes["ok"] + c.Outcomes["duplicate"] + c.Outcomes["noindex"] + c.Outcomes["too_large"]
}

// CountsOf converts counters of a job, with the number of URLs at workers.
func CountsOf(id job.ID, of *ondisk.Counters, out int64) Counts {
	c := Counts{
		Job: id.String(), Accepted: of.Accepted, Done: of.Done(), Waiting: of.Delayed, Leased: out, Outbox: of.Outbox,
		Outcomes: make(map[string]int64), Bytes: of.Bytes, LinksLeftOut: of.LeftOut,
	}
	for o, n := range of.Outcomes {
		if n > 0 {
			c.Outcomes[link.Outcome(o).String()] = n // an index into an array of outcomes
		}
	}
	c.Pending = c.Accepted - c.Done - c.Leased
	return c
}

// Counts returns the counters of the job on this peer.
func (js *JobState) Counts() Counts {
	c := js.Sums()
	return CountsOf(js.ID, &c, js.Out())
}

// HostCounts are the counters of a job on a host.
type HostCounts struct {
	Counts
	// Admission is the verdict of the owner of the registrable domain.
	Admission domain.Verdict `json:"-"`
	Requests  int64          `json:"requests"`            // requests to the host
	LinksCut  int64          `json:"links_cut,omitempty"` // links not accepted: too many new hosts, or too many pending URLs
	Spent     string         `json:"spent,omitempty"`     // the budget of the host that the job has used up, for people; empty: none
	Trap      string         `json:"trap,omitempty"`      // the trap rule that left most URLs, for people; empty: none
	Left      []RuleLeft     `json:"left,omitempty"`      // URLs that trap rules left
}

// RuleLeft are the URLs of a host that a trap rule left.
type RuleLeft struct {
	Rule    int    `json:"rule"`    // number, see docs/traps.md
	Text    string `json:"text"`    // the rule and its limit, for people
	URLs    uint64 `json:"urls"`    // number of URLs, approximate after a failure of the owner
	Example string `json:"example"` // the first of them
}
