package hosts

import (
	"math"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
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
	Rester     int // number in Rests, from 1 on; 0: it is not there
	wakeAt     int64
	heap       int // index in wakes, -1 if absent
	wait       waiting
	moved      bool // it stands in agenda.moved
	Newer, old *Host
	in         *Lru
}

// Job is a job on a host in memory: its books, and what else is known of it.
type Job struct {
	*ledger.Account
	State *JobState
	Late  int // URLs granted, of which some may be due again, see lateShare
	// Novelty is what is known of its pages, nil if that was not read; news says that the store is
	// to have it.
	Novelty *novelty.State
	News    bool
	// askedAt is when the host's admission was asked for; 0: not yet.
	askedAt int64
}

const (
	workPending = 1
	WorkOutbox  = 2
)

// Detail is what is counted of the job on the host.
func (hj *Job) Detail() HostCounts {
	all := hj.Tally.Counters()
	c := HostCounts{Job: hj.State.ID, Admission: all.Admission, Requests: all.Requests, LinksCut: all.Cut, Counts: CountsOf(&all, hj.Tally.Out())}
	if hj.NextDue() != Never {
		c.NextDue = time.UnixMilli(hj.NextDue())
	}
	return c
}

// PagesLeft is how many more URLs the job's limit for a host admits: pages that are there and URLs
// that may have been fetched count.
func (hj *Job) PagesLeft() int64 {
	spec := hj.State.Spec
	if spec.MaxPagesPerHost == 0 {
		return 1 << 62
	}
	return int64(min(spec.MaxPagesPerHost, 1<<62)) - hj.Tally.Pages() - hj.Tally.Promised()
}

// Number implements ledger.Sequence.
func (h *Host) Number() uint64 { return h.Rec.Number() }

// Kept says whether the host is in memory; one that was dropped may stand in a list yet.
func (h *Host) Kept() bool { return h.in != nil }

// openURLs counts the host's URLs without an outcome.
func (h *Host) openURLs() (n int64) {
	for _, hj := range h.Jobs {
		n += hj.Tally.Open()
	}
	return n
}

// Unleased counts those of them that are not out.
func (h *Host) Unleased() (n int64) {
	for _, hj := range h.Jobs {
		n += hj.Tally.Unleased()
	}
	return n
}

// Job returns the host's part of a job, nil if it has none.
func (h *Host) Job(js *JobState) *Job {
	for _, hj := range h.Jobs {
		if hj.State == js {
			return hj
		}
	}
	return nil
}

// LeasedTo says whether a worker has a host under that epoch.
func (h *Host) LeasedTo(s *Session, epoch *wire.Epoch) bool {
	return h != nil && h.Lease != nil && h.Lease.Session == s && h.Lease.Epoch.Is(epoch)
}

// Worked says whether a peer has the host or had it, as far as this owner and the record know.
// Nobody else has anything to report of it.
func (h *Host) Worked(peer string) bool {
	return h.Lease != nil && h.Lease.Session.Peer == peer || h.Rec.Worker == peer || h.Rec.Placed == peer || slices.Contains(h.past, peer)
}

// HasOrigin says whether an origin is one of the host's two.
func (h *Host) HasOrigin(origin string) bool {
	return origin == "http://"+h.Rec.Name || origin == "https://"+h.Rec.Name
}

// Accepted is how many URLs of a host a job has.
func (h *Host) Accepted(js *JobState) int64 {
	if hj := h.Job(js); hj != nil {
		return hj.Tally.Accepted()
	}
	return 0
}

// Starved says whether URLs of a host wait for a part of their job's budget.
func (h *Host) Starved() bool {
	for _, hj := range h.Jobs {
		if hj.State.Budget.Starved && !hj.State.Exhausted() && hj.Tally.Ready()+hj.Tally.Waiting() > 0 {
			return true
		}
	}
	return false
}

// Variance between what was measured of a host. Fewer than two measurements have none: the means of
// those that measured other hosts stand in; without those either it is infinite, so that hosts of
// which something is known go first.
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
		slices.Sort(times) // a sum of floats depends on the order
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

// rank is the lowest of the URLs that are ready, see [job.Spec.Rank]; 0 where no job has an order
// of its own.
func (h *Host) rank() uint32 {
	first := uint32(math.MaxUint32)
	for _, hj := range h.Jobs {
		if hj.Tally.Ready() > 0 {
			first = min(first, hj.First())
		}
	}
	return first
}

// Mute says whether nobody could be reached at a host twice in a row, and no URL of it has an
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

func (hj *Job) wait() JobWait { return JobWait{hj.Tally.Unleased(), hj.Tally.Waiting(), hj.NextDue()} }
