package hosts

import (
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
	work         byte // flags of the work index as stored
	Turn         int  // job that is served first next time

	Tenure
	Search     search
	purging    bool
	Hangs      hangs
	wakeAt     int64
	heap       int // index in wakes, -1 if absent
	wait       waiting
	moved      bool // listed in agenda.moved
	Newer, old *Host
	in         *Lru
}

// Job is a job on a host in memory: its account and further state.
type Job struct {
	*ledger.Account
	State *JobState
	Late  int // granted URLs, of which a share may be delayed ones, see lateShare
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

// openURLs counts the host's URLs without an outcome.
func (h *Host) openURLs() (n int64) {
	for _, hj := range h.Jobs {
		n += hj.Tally.Open()
	}
	return n
}

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

// Worked reports whether a peer has or had the host, by this owner and the record. Other peers have
// no outcomes to report.
func (h *Host) Worked(peer string) bool {
	return h.Lease != nil && h.Lease.Session.Peer == peer || h.Rec.Worker == peer || h.Rec.Placed == peer || slices.Contains(h.past, peer)
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
	for _, hj := range h.Jobs {
		if hj.State.Budget.Starved && !hj.State.Exhausted() && hj.Tally.Ready()+hj.Tally.Waiting() > 0 {
			return true
		}
	}
	return false
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
		times = times[:0]
		for _, mean := range means {
			times = append(times, mean)
		}
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
