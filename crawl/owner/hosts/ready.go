package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Draw takes from a job's budget at the job's owner.
type Draw struct {
	Job  job.ID     // whose budget it is
	Draw *wire.Draw // what to ask its owner
}

// Admission asks whether a job may have a host, of the owner of the host's registrable domain; it
// is answered with Owner.Admitted.
type Admission struct {
	Job  job.ID // that asks
	Host string // that it wants
	// Said is what hosts of that domain which are owned here said since the last question, nil if
	// nothing is to be told.
	Said *[]farm.Said
}

// Ready is what a step came to. Nothing in it, and no reply of the step, may leave before Wait has
// returned nil; the Readys of consecutive steps are released in their order.
type Ready struct {
	// Wait returns when everything of the step is on disk.
	Wait func() error
	// Places are hosts for which a worker is to be chosen: answer with Owner.Placed.
	Places []Place
	// Offers are to be sent to workers; what they decline, or fail to hear, goes to
	// Owner.Declined.
	Offers []Offer
	// NeedJobs are jobs of which something arrived and that nobody told us of: fetch their spec,
	// then call Owner.JobChanged.
	NeedJobs []job.ID
	// Draws go to the owners of the jobs; each is answered with Owner.Drawn.
	Draws []Draw
	// Admissions go to the owners of the hosts' registrable domains; each is answered with
	// Owner.Admitted.
	Admissions []Admission
	// Outbox says that Owner.Outbox has links to send.
	Outbox bool
	// Next is when a step is to be made even if nothing arrives; the zero time if never.
	Next time.Time
}

// Place asks for a worker for a host.
type Place struct {
	Host string // to be placed
	// Addrs of the site, 4 or 16 bytes each, where known.
	Addrs [][]byte
	// Pending URLs at present. With Tiny the host is not to be probed: its range's known worker or
	// the owner takes it.
	Pending int64
	Tiny    bool // too few URLs to be worth a probe
	// Known is the worker of the last placement, empty if there was none; Exclude are workers that
	// did not take the host.
	Known   string
	Exclude []string // do not ask these
	// Relieved says that Known gave the host up as it had its hands full.
	Relieved bool
	// Secure says that a URL of the host is https, so that a probe knows the port.
	Secure bool
	// Measured is what candidates measured for the last placement, at MeasuredAt. Remeasure says
	// that it does not hold any more: fetches have become slower.
	Measured   []ondisk.Measurement
	MeasuredAt time.Time // zero: never
	Remeasure  bool      // what was measured does not hold any more
	// NotBefore is until when politeness is owed to the host. RequestsUntil, unless it is zero,
	// lets candidates send requests to measure the host from then on (HEAD), one at a time, as
	// polite as fetches and under the same rules: nobody fetches before it, and none may be sent
	// behind it.
	NotBefore, RequestsUntil time.Time
}

// Offer asks a worker to take hosts.
type Offer struct {
	Worker string   // to be asked
	Hosts  []string // names
}

// What a step takes in at most beside its time, give or take a piece, so that what Commit makes of
// it takes some milliseconds as well.
const (
	// wantsAtOnce bounds the wishes for URLs that a step serves.
	wantsAtOnce = 64
	// writesAtOnce bounds what a step writes; a host that has changed comes to about writesOfHost.
	writesAtOnce = 2048
	writesOfHost = 3
)

const Never = ledger.Never

// Placement is the answer to a [Place].
type Placement struct {
	// Worker is the one chosen; empty for none but this peer.
	Worker string
	// URLs bounds how many URLs the worker may fetch before the host is placed anew; 0: no bound.
	URLs int
	// Pace is by how much the host is to be asked less often than usual; 1 or less: as usual.
	Pace float64
	// Measured is what the candidates measured, Why says why it was this worker.
	Measured []ondisk.Measurement
	Why      string // reason of the choice, in words
	// Unsure says that another worker may well be better: once more is known of the host it is
	// placed anew.
	Unsure bool
	// NotBefore is until when politeness is owed for requests that were made to measure; zero if
	// none was.
	NotBefore time.Time
}
