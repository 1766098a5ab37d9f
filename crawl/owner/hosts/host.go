package hosts

import (
	"maps"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Host is a host in memory.
type Host struct {
	Key  ring.Key
	Pos  ring.Pos
	Rec  ondisk.Host
	Jobs []*Job

	saved, dirty bool
	work         byte   // flags of the work index as stored
	visitAt      uint32 // first visit in the index as stored, in Unix seconds; 0: none
	indexed      bool   // visitAt was written by this process
	Turn         int    // job that is served first next time

	Tenure
	Search     search
	purging    bool
	Hangs      hangs
	wakeAt     int64
	heap       int // index in wakes, -1 if absent
	wait       waiting
	Checks     []*Check // of its pages, oldest first
	moved      bool     // listed in agenda.moved
	Newer, old *Host
	in         *Lru
}

// Job is a job on a host in memory: its account and further state.
type Job struct {
	*ledger.Account
	State *JobState
	Share float64 // visits again that may be granted while others wait, see Config.RefreshShare
	Late  int     // granted URLs, of which a share may be delayed ones, see lateShare
	// Trap is the trap state of its pages, nil if not read; TrapMod marks it for writing.
	Trap    *trap.State
	TrapMod bool
	// askedAt is the time of the admission request; 0: none yet.
	askedAt int64
}

const (
	workPending = 1
	WorkOutbox  = 2
)

// Detail returns the counters of the job on the host.
func (hj *Job) Detail(now int64) HostCounts {
	all := hj.Tally.Counters()
	c := HostCounts{Admission: all.Admission, Requests: all.Requests, LinksCut: all.Cut, Counts: CountsOf(hj.State.ID, &all, hj.Tally.Out())}
	c.NextRetryS = SecondsUntil(hj.NextDue(), now)
	return c
}

// PagesLeft returns the rest of the job's page limit for the host: pages fetched and URLs that may
// have been fetched count.
func (hj *Job) PagesLeft() int64 {
	spec := hj.State.Spec
	if spec.MaxPagesPerHost == 0 {
		return 1 << 62
	}
	return int64(min(spec.MaxPagesPerHost, 1<<62)) - hj.Tally.Pages() - hj.Tally.Promised()
}

// Number implements ledger.Sequence.
func (h *Host) Number() uint64 { return h.Rec.Number() }

// Kept reports whether the host is in memory; lists may still contain evicted hosts.
func (h *Host) Kept() bool { return h.in != nil }

// Unleased counts the URLs without an outcome that are not out.
func (h *Host) Unleased() (n int64) {
	for _, hj := range h.Jobs {
		n += hj.Tally.Unleased()
	}
	return n
}

// Job returns the host's part of a job, nil if there is none.
func (h *Host) Job(js *JobState) *Job {
	for _, hj := range h.Jobs {
		if hj.State == js {
			return hj
		}
	}
	return nil
}

// LeasedTo reports whether a worker has the host under that epoch.
func (h *Host) LeasedTo(s *Session, epoch *wire.Epoch) bool {
	return h != nil && h.Lease != nil && h.Lease.Session == s && h.Lease.Epoch.Is(epoch)
}

// Worked reports whether a peer has the host, or was the last to be chosen for it.
func (h *Host) Worked(peer string) bool {
	return h.Lease != nil && h.Lease.Session.Peer == peer || h.Rec.Worker == peer || h.Rec.Placed == peer
}

// HasOrigin reports whether an origin is one of the host's two.
func (h *Host) HasOrigin(origin string) bool {
	return origin == "http://"+h.Rec.Name || origin == "https://"+h.Rec.Name
}

// Accepted returns the number of the host's URLs in a job.
func (h *Host) Accepted(js *JobState) int64 {
	if hj := h.Job(js); hj != nil {
		return hj.Tally.Accepted()
	}
	return 0
}

// Starved reports whether URLs of the host wait for their job's budget.
func (h *Host) Starved() bool {
	return slices.ContainsFunc(h.Jobs, func(hj *Job) bool {
		return hj.State.Budget.Starved && !hj.State.Exhausted() && hj.Tally.Ready()+hj.Tally.Waiting() > 0
	})
}

// Variance returns the variance of the RTTs measured to the host. With fewer than two measurements
// the means of workers that measured other hosts are used, and without those it is infinite, so
// that hosts with data come first.
func (h *Host) Variance(means map[string]float64) float64 {
	var times []float64
	for _, m := range h.Rec.Measured {
		if m.Error == "" {
			times = append(times, float64(m.RTTUs)/1000)
		}
	}
	if len(times) < 2 {
		times = slices.AppendSeq(times[:0], maps.Values(means))
		slices.Sort(times) // the sum of floats depends on the order
	}
	if len(times) < 2 {
		return math.Inf(1)
	}
	sum, squares := 0.0, 0.0
	for _, v := range times {
		sum += v
	}
	mean := sum / float64(len(times))
	for _, v := range times {
		squares += (v - mean) * (v - mean)
	}
	return squares / float64(len(times))
}

// rank returns the lowest rank of the ready URLs, see [job.Spec.Rank]; 0 for jobs without an order
// of their own.
func (h *Host) rank() uint32 {
	first := uint32(math.MaxUint32)
	for _, hj := range h.Jobs {
		if hj.Tally.Ready() > 0 {
			first = min(first, hj.First())
		}
	}
	return first
}

// Mute reports whether the host had two connection failures in a row, and none of its URLs has an
// outcome.
func (h *Host) Mute() bool {
	if h.Rec.FailOutcome != link.OutcomeConnect || h.Rec.Fails < 2 {
		return false
	}
	for _, hj := range h.Jobs {
		if hj.Tally.Accepted() > hj.Tally.Open() {
			return false
		}
	}
	return true
}

// searchState is the state of the search for a host's worker.
type searchState uint8

const (
	// SearchIdle: no search.
	SearchIdle searchState = iota
	// SearchAsked: a worker is being chosen.
	SearchAsked
	// SearchOffered: a worker was chosen and sent an offer.
	SearchOffered
)

// String returns the name of a state.
func (s searchState) String() string { return [...]string{"idle", "asked", "offered"}[s] }

// search is the search for a host's worker, with constraints on the next one.
//
//	state            next      because
//	idle             asked     ask: a worker is to be chosen
//	asked            offered   offer: it was chosen, and is sent an offer
//	asked            idle      refused: it is full, or none was chosen in time
//	offered          idle      refused: it declined, or did not answer in time
//	asked, offered   idle      end: it took the host, or the host needs no worker any more
//
// A refusal excludes a worker from the next searches. After maxExcluded of them the host is
// assigned to this peer; if this peer refuses it too, or no worker is found, the search pauses.
type search struct {
	State   searchState
	Until   int64  // deadline
	Offered string // recipient
	last    string // last recipient: an acceptance may be late
	// Reserved is the not-before time of the host without the measuring requests of candidates; 0:
	// none are permitted.
	Reserved int64
	URLs     int     // limit of URLs of the next lease; 0: none
	Pace     float64 // factor of the next worker's request interval

	Exclude []string
	rest    int64  // time of the next search
	Replace bool   // the worker must return the host, which is placed again
	Anew    string // reason, for display
	// Grown is the number of unleased URLs at which a host that was placed with little data is placed
	// again; 0: never.
	Grown     int64
	Remeasure bool // measurements of the host are outdated
	Check     bool // for the checks of its pages
}

// Ask begins the search; others is false if only this peer remains to take the host.
func (s *search) Ask(until int64) (others bool) {
	s.State, s.Until = SearchAsked, until
	return len(s.Exclude) < maxExcluded
}

// Reserve reserves the time until then for measuring requests of candidates.
func (s *search) Reserve(polite, until int64) {
	s.Reserved, s.Until = max(polite, 1), until
}

// Unreserve ends that time, and returns the earlier not-before time and the end of the reservation;
// 0 if there was none.
func (s *search) Unreserve() (before, until int64) {
	if s.Reserved == 0 {
		return 0, 0
	}
	before, s.Reserved = s.Reserved, 0
	return before, s.Until
}

// Found stores the conditions of the next lease from a placement.
func (s *search) Found(p *Placement) {
	s.Remeasure, s.URLs, s.Pace = false, max(p.URLs, 0), p.Pace
	if !p.Unsure {
		s.Grown = 0
	}
}

// Offer records an offer of the host to a worker.
func (s *search) Offer(worker string, until int64) {
	s.State, s.Offered, s.last, s.Until = SearchOffered, worker, worker, until
}

// OfferedTo reports whether the host is offered to a worker.
func (s *search) OfferedTo(worker string) bool {
	return s.State == SearchOffered && s.Offered == worker
}

// Asked reports whether a worker may take the host: its offer is the current or the last one.
func (s *search) Asked(worker string) bool {
	return s.OfferedTo(worker) || s.State != SearchOffered && s.last == worker
}

// Refused records that a worker did not take the host; an empty name means that none was found. The
// caller ends the search.
func (s *search) Refused(worker, self string, now int64) {
	switch worker {
	case self:
		s.Exclude = nil
		s.Pause(now)
	case "":
		s.Pause(now)
	default:
		s.Exclude = append(s.Exclude, worker)
	}
}

// Pause delays the next search.
func (s *search) Pause(now int64) { s.rest = now + restAfter }

// End ends the search, and reports whether the host was offered.
func (s *search) End() (offered bool) {
	offered = s.State == SearchOffered
	s.State, s.Offered, s.URLs, s.Pace, s.Reserved, s.Check = SearchIdle, "", 0, 0, 0, false
	return offered
}

// Taken clears the constraints of the search once a lease begins.
func (s *search) Taken() { s.Exclude, s.Replace, s.Anew = nil, false, "" }

// Again requests another placement of the host.
func (s *search) Again(why string) { s.Replace, s.Anew = true, why }

// Searches limits the concurrent searches.
type Searches struct {
	most    int // maximum, if every host finds a worker
	Under   int // in progress
	refused int // by how much the limit is reduced at present
	Queue   queue
}

// room reports whether another search may begin. While all workers are full, the limit follows the
// number of accepted hosts: a host that even this peer declines lowers it by one, an accepted one
// raises it by one. It starts low, so that the first hosts provide measurements for the others.
func (s *Searches) room() bool { return s.Under < s.most-s.refused }

// Declined records that a worker did not take a host.
func (s *Searches) Declined() { s.refused = min(s.refused+1, max(s.most-leastPlacing, 0)) }

// Taken records that a worker took a host.
func (s *Searches) Taken() { s.refused = max(s.refused-1, 0) }

// Waiting reports whether a queued host can be searched for.
func (s *Searches) Waiting() bool { return s.Queue.len() > 0 && s.room() }
