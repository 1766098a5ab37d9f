package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Owners reaches the owners of hosts. Peers are named by the bytes of their IDs; one of them may be this very process, which takes the same path.
type Owners interface {
	// Session carries one message to an owner and brings its answer. The message and the answer are not changed afterwards by either side.
	Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error)
	// OwnerOf is who is believed to own a host now; empty if nobody is known. It must not block.
	OwnerOf(host string) string
}

// Fetcher makes one exchange, as fetch.Fetcher does.
type Fetcher interface {
	Get(ctx context.Context, req *fetch.Request) (*fetch.Response, error)
}

// Jobs knows the specs of jobs. Spec may ask the network; an error means that it is not to be had now.
type Jobs interface {
	Spec(ctx context.Context, id job.ID) (*job.Spec, error)
}

// Exchange is one exchange to be archived. What it points to is lent for the call.
type Exchange struct {
	URL      string
	Date     time.Time
	IP       string
	Protocol string // as WARC-Protocol names it: "http/1.1", "h2"
	// Request and Response are the heads, Body is decoded and ResponseHead fits it.
	RequestHead, ResponseHead, Body []byte
	Digest                          [32]byte // SHA-256 of Body
	// Truncated says that Body is only the beginning of what the site sent: the bound on its size was reached.
	Truncated bool
	// RevisitOf is where the same body is archived; nil archives it here.
	RevisitOf *Original
	// Outlinks are the links of the page, canonical: those of each kind in Links behind those of the one before.
	Outlinks []string
	Links    LinkCounts
	Depth    uint32
	Hops     uint8
	Duration time.Duration
}

// LinkCounts says what the links of an archived page are: a repair of the records follows those that were followed.
type LinkCounts struct {
	Pages, Requisites, Sitemaps int
	// Unfollowed are those that the page asks not to follow.
	Unfollowed int
}

func (c *LinkCounts) all() [4]*int {
	return [4]*int{&c.Pages, &c.Requisites, &c.Sitemaps, &c.Unfollowed}
}

// String is how the archive has them: four numbers.
func (c LinkCounts) String() string {
	return fmt.Sprintf("%d %d %d %d", c.Pages, c.Requisites, c.Sitemaps, c.Unfollowed)
}

// ParseLinkCounts reads what String returns.
func ParseLinkCounts(text string) (c LinkCounts, err error) {
	if _, err := fmt.Sscanf(text, "%d %d %d %d", &c.Pages, &c.Requisites, &c.Sitemaps, &c.Unfollowed); err != nil {
		return LinkCounts{}, fmt.Errorf("numbers of links %.40q: %w", text, err)
	}
	for _, n := range c.all() {
		if *n < 0 {
			return LinkCounts{}, fmt.Errorf("numbers of links %.40q: negative", text)
		}
	}
	return c, nil
}

// Original is the record of a body met before.
type Original struct {
	URL, RecordID string
	Date          time.Time
}

// ErrUnarchivable is what an Archive's error wraps that concerns one exchange and not the disk: the URL is reported without a record.
var ErrUnarchivable = errors.New("exchange cannot be archived")

// Archive keeps what was fetched. Save may be called by many goroutines at once; the caller's goroutine does the encoding. What was saved is on disk
// when a later Sync has returned nil. An error of either ends the worker, unless it is ErrUnarchivable.
type Archive interface {
	// Save returns the identity of the record of the response, urn:uuid:...
	Save(x *Exchange) (recordID string, err error)
	Sync() error
}

// Verdict is what a content owner says of a body.
type Verdict uint8

// The verdicts.
const (
	// Fresh: nobody is known to have archived the body; the asker is to.
	Fresh Verdict = iota
	// Known: it is archived.
	Known
	// Wait: another is about to archive it.
	Wait
)

// Question asks for a body by its digest, found at a URL.
type Question struct {
	Digest [32]byte
	URL    string
}

// Answer to a Question. Original is that of a known body.
type Answer struct {
	Verdict  Verdict
	Original Original
}

// Confirmation says that a body is archived here and on disk.
type Confirmation struct {
	Digest   [32]byte
	URL      string
	RecordID string
	Date     time.Time
}

// Content reaches the owners of bodies.
type Content interface {
	// Claim answers questions in their order, within bounded time. An error counts as Fresh for all.
	Claim(ctx context.Context, q []Question) ([]Answer, error)
	// Confirm tells what was archived. What cannot be told is forgotten: a body is then stored twice.
	Confirm(ctx context.Context, c []Confirmation) error
}

// Spill keeps bodies on disk that memory has no room for, as spill.Dir does. An error of Create, or of a write, means that the disk takes none now.
type Spill interface {
	Create() (fetch.Spilled, error)
}

// OptOuts is this peer's own list of what is not to be fetched, from memory; why is empty for what is not on it.
type OptOuts interface {
	URL(url string) (why string)
}

// Permits reaches those who share out the requests to an address among all workers; see package permit. Ask says how many permits there are and for
// how long they hold; an error means that nobody answers.
type Permits interface {
	Ask(ctx context.Context, prefix netip.Prefix, want int) (n int, holds time.Duration, err error)
}

// Event is what became of one URL.
type Event struct {
	URL      string
	Job      job.ID
	Depth    uint32
	Outcome  link.Outcome
	Status   int
	Size     int64
	Duration time.Duration
	Links    int // found on the page
	Detail   string
}

// Deps is what a worker needs of others. Owners, Fetch, Archive, Content and Jobs are required.
type Deps struct {
	Owners  Owners
	Fetch   Fetcher
	Archive Archive
	Content Content
	Jobs    Jobs
	// OptOuts may be nil: then nothing is on the list.
	OptOuts OptOuts
	// Permits may be nil: then Config.PermitLimit counts for nothing.
	Permits Permits
	// Spill may be nil: then exchanges wait while memory is full.
	Spill Spill
	// Estimates are what rates servers have, for the governor; they are the worker's from then on. Nil: nothing is known yet.
	Estimates *bandwidth.Estimates
	// Clock is the lease clock. Nil: a SystemClock.
	Clock Clock
	// Log may be nil.
	Log *slog.Logger
	// Events, if not nil, is called for each URL when its outcome is known. It must not block.
	Events func(Event)
}
