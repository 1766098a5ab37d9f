package worker

import (
	"net/http"
	"sync/atomic"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// stats are the running counters.
type stats struct {
	pages, duplicates, bytes, wireBytes, errors, denied, requests, revisits, notModified atomic.Int64
	outcomes                                                                             [link.Outcomes]atomic.Int64
}

// Stats are the counters of a worker since it was created, and its current load.
type Stats struct {
	// Pages is the number of 2xx answers with new content, Duplicates that of known content, Bytes
	// their bodies' decoded.
	Pages, Duplicates, Bytes int64
	// WireBytes is what all exchanges took from the network, Requests their number, robots.txt
	// included.
	WireBytes, Requests int64
	// Errors is the number of failed outcomes, RobotsDenied that of URLs that robots.txt forbids or
	// that it makes unreachable.
	Errors, RobotsDenied int64
	// Revisits is the number of outcomes of URLs that were fetched before, NotModified that of answers
	// with status 304 to them.
	Revisits, NotModified int64
	// Outcomes by link.Outcome.
	Outcomes [link.Outcomes]int64
	// Counts are the counters of visits and leases.
	visits.Counts
	// Dropped is the number of outcomes dropped because their owner did not answer; their URLs are
	// fetched again.
	Dropped int64
	// Acknowledged is the number of outcomes that owners have stored on disk.
	Acknowledged int64
	// Assumed is the number of bodies treated as new because no answer arrived in time: each may be
	// archived twice.
	Assumed int64
	// Incomplete is the number of answers retained although their body was truncated, or could not be
	// decoded completely.
	Incomplete int64
	// InFlight is the number of exchanges under way, Processing that of pages between exchange and
	// report, Unreported that of outcomes on their way to owners.
	InFlight, Processing, Unreported int
	// Memory is the part of Config.MaxMemory in use, in bytes.
	Memory int64
	// Hosts is the number of leases held, Window that of URLs in their windows.
	Hosts, Window int
}

// Stats returns the counters.
func (w *Worker) Stats() Stats {
	c := &w.stats
	s := Stats{
		Pages: c.pages.Load(), Duplicates: c.duplicates.Load(), Bytes: c.bytes.Load(), WireBytes: c.wireBytes.Load(),
		Requests: c.requests.Load(), Errors: c.errors.Load(), RobotsDenied: c.denied.Load(), Assumed: w.pipe.Assumed(),
		Incomplete: w.pipe.Incomplete(), Revisits: c.revisits.Load(), NotModified: c.notModified.Load(),
	}
	for i := range s.Outcomes {
		s.Outcomes[i] = c.outcomes[i].Load()
	}
	s.Memory = w.pipe.Held()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Counts = w.visits.Counts()
	s.Hosts, s.InFlight, s.Processing = w.visits.Load()
	s.Window, s.Unreported = w.visits.Frontier().Items(), w.sessions.Unreported()
	s.Acknowledged, s.Dropped = w.sessions.Acknowledged(), w.sessions.Dropped()
	return s
}

// Held describes a host that a worker holds a lease on.
type Held = visits.Held

// Held returns the leases in no particular order.
func (w *Worker) Held() []Held {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.visits.Held()
}

// count counts an outcome.
func (c *stats) count(f *wire.Fetched) {
	o, size := link.Outcome(f.GetOutcome()), int64(f.GetSize()) // a valid link.Outcome
	c.outcomes[o].Add(1)
	if f.GetAgain() {
		c.revisits.Add(1)
		if o == link.OutcomeDuplicate && f.GetStatus() == http.StatusNotModified {
			c.notModified.Add(1)
		}
	}
	switch o {
	case link.OutcomeOK:
		c.pages.Add(1)
		c.bytes.Add(size)
	case link.OutcomeDuplicate:
		c.duplicates.Add(1)
		c.bytes.Add(size)
	case link.OutcomeRobotsDenied, link.OutcomeRobotsUnreachable:
		c.denied.Add(1)
	case link.OutcomeNoIndex:
		c.bytes.Add(size)
	case link.OutcomeRedirect, link.OutcomeNone:
	default:
		c.errors.Add(1)
	}
}
