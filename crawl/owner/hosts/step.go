package hosts

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Step is the state shared by all parts of an owner: configuration, time, write buffer, and the
// results of the current step.
type Step struct {
	Cfg    Config
	Ring   Ring
	Seen   Seen
	Specs  Jobs
	Buf    *ondisk.Buffer
	Ledger *ledger.Ledger
	// Sources reads the sources of URLs.
	Sources *ondisk.Sources

	Now, Start int64       // Unix ms
	Read       int64       // Unix ms: all input that arrived before is processed
	Room       func() bool // reports whether the step may continue; nil: always
	dirty      []*Host
	dirtyJobs  []*JobState
	Wanted     int // URLs requested, to be granted at the end of the step
	Ready      Ready
}

// Book returns the host's part of a job, created if missing.
func (s *Step) Book(h *Host, js *JobState) *Job {
	hj := h.Job(js)
	if hj == nil {
		hj = &Job{Account: s.Ledger.Open(js.Job, h.Pos, h), State: js}
		h.Jobs = append(h.Jobs, hj)
	}
	return hj
}

// LastAt returns the due time of a URL that is moved behind others.
func (s *Step) LastAt() int64 { return s.Now + min(lastFor*s.Cfg.Delay.Milliseconds(), LastMost) }

// Spends returns the exhausted limit of a job on a host.
func (s *Step) Spends(hj *Job) Spent {
	switch {
	case s.Cfg.MaxRequests > 0 && hj.Tally.Requests() >= s.Cfg.MaxRequests:
		return spentRequests
	case s.Cfg.MaxHostBytes > 0 && hj.Tally.Bytes() >= s.Cfg.MaxHostBytes:
		return spentBytes
	case hj.Tally.Counters().Exhausted && s.Cfg.MaxRequests > 0:
		return spentGrowth
	default:
		return SpentNothing
	}
}

// SpentText describes an exhausted limit for display.
func (s *Step) SpentText(hj *Job) string {
	switch s.Spends(hj) {
	case spentRequests:
		return fmt.Sprintf("the job reached its request limit for the host (--max-requests-per-host %d)", s.Cfg.MaxRequests)
	case spentBytes:
		return fmt.Sprintf("the job reached its byte limit for the host (--max-bytes-per-host %d)", s.Cfg.MaxHostBytes)
	case spentGrowth:
		return fmt.Sprintf("the host is not a seed and few other hosts link to it: limited to %d requests and %d for each such link (--max-requests-per-host 0 lifts the limit)", firstRequests, namedRequests)
	default:
		return ""
	}
}

// RequestsLeft returns the rest of the job's requests to the host: those made and those in flight
// count, and bytes are estimated by the mean of the host's pages.
func (s *Step) RequestsLeft(hj *Job) int64 {
	left := int64(1 << 62)
	if s.Spends(hj) != SpentNothing {
		return 0
	}
	if s.Cfg.MaxRequests > 0 {
		left = s.Cfg.MaxRequests - hj.Tally.Requests() - hj.Tally.Out()
	}
	if mean := hj.Tally.Bytes() / max(hj.Tally.Requests(), 1); s.Cfg.MaxHostBytes > 0 && mean > 0 {
		left = min(left, (s.Cfg.MaxHostBytes-hj.Tally.Bytes())/mean-hj.Tally.Out()+1)
	}
	return left
}

// BoundsOf returns the budget limits of a job.
func (s *Step) BoundsOf(spec *job.Spec) ledger.Bounds {
	return ledger.Bounds{Pages: spec.MaxPages, Bytes: spec.MaxBytes, Reserve: s.Cfg.ByteReserve, Draw: s.Cfg.DrawPages}
}

// OwedAfter returns the not-before time after a lease that lapsed, by this peer's clock: its worker
// stopped a quarter of the TTL before.
func (s *Step) OwedAfter(end int64) int64 {
	return end - s.Cfg.TTL.Milliseconds()/4 + s.Cfg.Delay.Milliseconds()
}

// PoliteAt returns the host's not-before time, without backoff.
func (s *Step) PoliteAt(h *Host) int64 { return max(h.Rec.NotBefore, s.OwedAfter(h.bar)) }

// Ahead reports whether an epoch is impossibly high: a lease takes more than a millisecond. So
// there is always a later epoch that other peers accept.
func (s *Step) Ahead(e ondisk.Epoch) bool {
	const room = 1 << 40 // for clock differences
	return e.Counter > uint64(max(s.Now, 0))+room
}

// Latest returns the upper bound of not-before and due times; the clock of a correct peer is not
// ahead of it.
func (s *Step) Latest() int64 {
	longest := s.Cfg.MaxRetryAfter
	for _, wait := range s.Cfg.Backoff {
		longest = max(longest, wait)
	}
	return s.Now + longest.Milliseconds()
}

// WhyOptedOut returns the reason why nothing of a host is fetched; empty if it may be.
func (s *Step) WhyOptedOut(h *Host) string {
	if h.Rec.OptOut.Out() {
		return "the site has opted out: " + h.Rec.OptOut.Why
	}
	return s.Cfg.OptOuts.Host(h.Rec.Name)
}

// Within bounds the current step: room is called between pieces of work. Once it returns false, the
// rest of a list is left to a later step, and it must return false from then on.
func (s *Step) Within(room func() bool) { s.Room = room }

// HasRoom reports whether the step may accept more input; always unless Owner.Within bounds it.
// Between the inputs of a step.
func (s *Step) HasRoom() bool {
	return s.Room == nil || s.Wanted < wantedAtOnce && s.Buf.Len()+writesOfHost*max(len(s.dirty), s.Ledger.Len()) < writesAtOnce && s.Room()
}

// RestsUntil returns the time before which nothing of the host is fetched.
func (s *Step) RestsUntil(h *Host) int64 { return max(s.PoliteAt(h), h.Rec.BackoffUntil, h.bar) }

// Draw requests a part of a job's budget from the job's owner.
type Draw struct {
	Job  job.ID     // the job
	Draw *wire.Draw // request to its owner
}

// Admission asks the owner of a host's registrable domain whether a job may have the host; the
// reply goes to Owner.Admitted.
type Admission struct {
	Job  job.ID // the job
	Host string // the host
}

// Ready is the result of a step. Its contents, and the replies of the step, may be released only
// after Wait has returned nil; Readys are released in the order of their steps.
type Ready struct {
	// Wait returns when all writes of the step are on disk.
	Wait func() error
	// Places lists hosts that need a worker: answer with Owner.Placed.
	Places []Place
	// Offers are to be sent to workers; declined or undelivered ones go to Owner.Declined.
	Offers []Offer
	// NeedJobs lists unknown jobs named by input: fetch their specs, then call Owner.JobChanged.
	NeedJobs []job.ID
	// Draws go to the owners of the jobs; each is answered with Owner.Drawn.
	Draws []Draw
	// Admissions go to the owners of the hosts' registrable domains; each is answered with
	// Owner.Admitted.
	Admissions []Admission
	// Outbox reports whether Owner.Outbox has links to send.
	Outbox bool
	// Next is the time of the next step without input; zero: none.
	Next time.Time
}

// Place requests a worker for a host.
type Place struct {
	Host string // host to place
	// Addrs holds the known addresses of the site, 4 or 16 bytes each.
	Addrs [][]byte
	// Pending is the number of pending URLs. A Tiny host is not probed: the known worker of its range
	// or the owner takes it.
	Pending int64
	Tiny    bool // too few URLs to be worth a probe
	// Known is the worker of the last placement, empty if there was none; Exclude lists workers that
	// declined the host.
	Known   string
	Exclude []string // workers not to ask
	// Relieved is set if Known returned the host because of overload.
	Relieved bool
	// Secure is set if a URL of the host is https; it selects the port of a probe.
	Secure bool
	// Measured holds the candidates' measurements for the last placement, at MeasuredAt. Remeasure is
	// set if they are outdated: fetches have become slower.
	Measured   []ondisk.Measurement
	MeasuredAt time.Time // zero: never
	Remeasure  bool      // measurements are outdated
	// NotBefore is the host's not-before time. RequestsUntil, unless zero, lets candidates measure the
	// host from then on by requests (HEAD), one at a time and as polite as fetches: the host is not
	// fetched before that time, and no request is sent after it.
	NotBefore, RequestsUntil time.Time
	// Check places a check of the host's pages: Exclude begins with the workers whose reports are
	// checked. Any other one may make it, preferably of another network; none: no Worker is returned.
	Check bool
}

// Offer offers hosts to a worker.
type Offer struct {
	Worker string   // recipient
	Hosts  []string // names
}

// Limits of a step's input besides its time, give or take a piece, so that Commit takes a few
// milliseconds at most as well.
const (
	// wantedAtOnce bounds the URLs requested in a step: each that is fetched again costs a read of its
	// entry at the end of the step.
	wantedAtOnce = 512
	// writesAtOnce bounds the writes of a step; a changed host needs about writesOfHost.
	writesAtOnce = 2048
	writesOfHost = 3
)

const Never = ledger.Never

// Placement is the reply to a [Place].
type Placement struct {
	// Worker is the chosen worker; empty if only this peer is left.
	Worker string
	// URLs bounds the URLs of the lease before the host is placed again; 0: no limit.
	URLs int
	// Pace is the factor of the request interval of the host; 1 or less: normal.
	Pace float64
	// Measured holds the candidates' measurements, Why the reason for the choice.
	Measured []ondisk.Measurement
	Why      string // for display
	// Unsure is set if another worker may well be better: the host is placed again once it has grown.
	Unsure bool
	// NotBefore is the not-before time set by measuring requests; zero if none were made.
	NotBefore time.Time
}
