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

// Owners reaches the owners of hosts. Peers are named by the bytes of their IDs; one of them may be
// this very process, which takes the same path.
type Owners interface {
	// Session carries one message to an owner and brings its answer. The message and the answer are
	// not changed afterwards by either side.
	Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error)
	// OwnerOf is who is believed to own a host now; empty if nobody is known. It must not block.
	OwnerOf(host string) string
}

// Fetcher makes one exchange, as fetch.Fetcher does.
type Fetcher interface {
	// Get returns a response, which the caller releases, or a *fetch.Error.
	Get(ctx context.Context, req *fetch.Request) (*fetch.Response, error)
}

// OptOuts is this peer's own list of what is not to be fetched, from memory; why is empty for what
// is not on it.
type OptOuts interface {
	URL(url string) (why string) // says why a URL is not to be fetched
}

// Permits reaches those who share out the requests to an address, and the turns at a domain, among
// all workers; see package permit. Ask says how many permits there are and for how long they hold;
// an error means that nobody answers.
type Permits interface {
	// Ask asks for what a wallet wants.
	Ask(ctx context.Context, q permit.Ask) (n int, holds time.Duration, err error)
}

// Clock is the lease clock: it tells how much time has gone by, suspend included, for leases must
// not outlive a sleep that the ordinary monotonic clock does not see. It never goes back. Safe for
// concurrent use.
type Clock interface {
	Now() time.Duration // counts from some moment in the past
}

// Event is what became of one URL.
type Event struct {
	URL      string        // canonical
	Job      job.ID        // that asked for it
	Depth    uint32        // links from a seed
	Outcome  link.Outcome  // how it ended
	Status   int           // of HTTP; 0 without an answer
	Size     int64         // bytes of the body
	Duration time.Duration // of the exchange
	Links    int           // found on the page
	Detail   string        // of a failure, in words
}

// Deps is what a worker needs of others. Owners, Fetch, Archive, Content and Jobs are required.
type Deps struct {
	Owners  Owners        // reaches the owners of hosts
	Fetch   Fetcher       // makes exchanges
	Archive pages.Archive // keeps pages
	Content pages.Content // knows bodies that were met before
	Jobs    reports.Specs // knows the specs of jobs
	// OptOuts may be nil: then nothing is on the list.
	OptOuts OptOuts
	// Permits may be nil: then Config.PermitLimit counts for nothing, and the delay of a domain for
	// this worker alone.
	Permits Permits
	// Spill may be nil: then exchanges wait while memory is full.
	Spill pages.Spill
	// Estimates are what rates servers have, for the governor; they are the worker's from then on.
	// Nil: nothing is known yet.
	Estimates *bandwidth.Estimates
	// Clock is the lease clock. Nil: a clock.System.
	Clock Clock
	// Log may be nil.
	Log *slog.Logger
	// Events, if not nil, is called for each URL when its outcome is known. It must not block.
	Events func(Event)
}
