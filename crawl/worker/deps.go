package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// Owners sends requests to the owners of hosts. Peers are identified by the bytes of their IDs; the
// local peer may be one of them and is addressed in the same way.
type Owners interface {
	// Session sends one message to an owner and returns its answer. Neither side modifies the message
	// or the answer afterwards.
	Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error)
	// OwnerOf returns the presumed current owner of a host, or "" if none is known. It must not block.
	OwnerOf(host string) string
}

// Fetcher performs one exchange, as fetch.Fetcher does.
type Fetcher interface {
	// Get returns a response, which the caller releases, or a *fetch.Error.
	Get(ctx context.Context, req *fetch.Request) (*fetch.Response, error)
}

// OptOuts is this peer's own in-memory opt-out list; why is empty for a URL that is not on it.
type OptOuts interface {
	URL(url string) (why string) // returns why a URL must not be fetched
}

// Permits requests permits for an address, and time slices of a domain, which are shared among all
// workers; see package permit. Ask returns the number of permits and how long they are valid; an
// error means that no permit peer answered.
type Permits interface {
	// Ask requests what a permit cache lacks.
	Ask(ctx context.Context, q permit.Ask) (n int, holds time.Duration, err error)
}

// Clock is the lease clock: elapsed time including suspend, because leases must not outlive a sleep
// that the ordinary monotonic clock does not count. It never goes back. Safe for concurrent use.
type Clock interface {
	Now() time.Duration // since an arbitrary moment in the past
}

// Event is the outcome of one URL.
type Event struct {
	URL      string        // canonical
	Job      job.ID        // that requested it
	Depth    uint32        // links from a seed
	Outcome  link.Outcome  // how it ended
	Status   int           // of HTTP; 0 without an answer
	Size     int64         // bytes of the body
	Duration time.Duration // of the exchange
	Links    int           // found on the page
	Detail   string        // description of a failure
}

// Deps are the dependencies of a worker. Owners, Fetch, Archive, Content and Jobs are required.
type Deps struct {
	Owners  Owners        // connects to the owners of hosts
	Fetch   Fetcher       // performs exchanges
	Archive pages.Archive // stores pages
	Content pages.Content // index of known bodies
	Jobs    reports.Specs // specs of jobs
	// OptOuts may be nil: then no URL is excluded.
	OptOuts OptOuts
	// Permits may be nil: then Config.PermitLimit is ignored, and the delay of a domain applies to
	// this worker alone.
	Permits Permits
	// Estimates are the measured rates of servers, for the governor; the worker owns them from then
	// on. Nil: no measurements.
	Estimates *bandwidth.Estimates
	// Clock is the lease clock. Nil: a SystemClock.
	Clock Clock
	// Receipt, if not nil, archives the receipt of an owner for the pages in lines, see wire.Receipt.
	Receipt func(owner string, lines, signature []byte) error
	// Log may be nil.
	Log *slog.Logger
	// Events, if not nil, is called for each URL when its outcome is known. It must not block.
	Events func(Event)
}
