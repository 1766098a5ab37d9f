package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

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
}

// Offer offers hosts to a worker.
type Offer struct {
	Worker string   // recipient
	Hosts  []string // names
}

// Limits of a step's input besides its time, give or take a piece, so that Commit takes a few
// milliseconds at most as well.
const (
	// wantsAtOnce bounds the URL requests served in a step.
	wantsAtOnce = 64
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
