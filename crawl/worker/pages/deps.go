package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// Config is the configuration of a pipeline.
type Config struct {
	// Agent is the crawler's product token in robots directives.
	Agent string
	// Processors is the number of pages processed concurrently.
	Processors int
	// MaxMemory bounds the bytes of pages in memory, and of bodies being received beyond
	// fetch.FreeBody each; the rest waits. SetMemory changes it.
	MaxMemory int64
	// ClaimLinger is how long a claim waits for others, unless claimBatch of them wait.
	ClaimLinger time.Duration
	// MaxParked bounds the bytes of bodies that another peer has claimed for archiving, and that wait
	// for it for at most waitFor (design, section 4).
	MaxParked int64
	// ArchiveNoIndex archives pages that request not to be indexed.
	ArchiveNoIndex bool
	// DuplicatesDrop omits the links of duplicate bodies from reports, as the paper does (Apoidea,
	// 2.1).
	DuplicatesDrop bool
}

const (
	claimBatch = 64 // claims in a batch
	waitFor    = 2 * time.Second
)

// Deps are the dependencies of a pipeline.
type Deps struct {
	// Archive stores the pages.
	Archive Archive
	// Content sends claims and confirmations to the owners of bodies.
	Content Content
	// Known are the links that need not be reported again.
	Known *reports.Known
	// Log is required.
	Log *slog.Logger
}

// Worker is the pipeline's view of the worker. Its methods are called without any lock held, except
// Laden.
type Worker interface {
	// Report receives the report of a page, with the number of its links. It ends the page.
	Report(r *reports.Report, links int)
	// Laden reports whether the outbox is full, so that acknowledgments must come first; GoOn is
	// called when it no longer is. It must not block.
	Laden() bool
	// Resting reports whether no exchange is under way, nor will be while a claim would wait for its
	// batch.
	Resting() bool
	// Begin resumes exchanges that Full has deferred.
	Begin()
	// Broken ends the run after an error of the archive.
	Broken(err error)
}

// Exchange is one exchange to be archived. Its slices are valid during the call only.
type Exchange struct {
	URL      string    // canonical
	Date     time.Time // when the request was written
	IP       string    // address that answered, empty if unknown
	Protocol string    // value of WARC-Protocol: "http/1.1", "h2"
	// RequestHead and ResponseHead are the heads, Body is decoded and ResponseHead matches it.
	RequestHead, ResponseHead, Body []byte
	Digest                          [32]byte // SHA-256 of Body
	// Truncated is why Body is incomplete; empty: it is complete.
	Truncated fetch.Truncation
	// RevisitOf is the record that has the same body; nil archives it here.
	RevisitOf *Original
	// Outlinks are the canonical links of the page, grouped by kind in the order of Links.
	Outlinks []string
	Links    LinkCounts    // number of outlinks by kind
	Depth    uint32        // links from a seed
	Hops     uint8         // redirects followed to come here
	Duration time.Duration // from request to last byte
	// Via is the URL of the page that led here, HopPath the hop path from Seed, see link.Source; empty
	// if there is none, or if it is unknown.
	Via, HopPath, Seed string
	Job                job.ID // that requested the URL
	Outcome            string // as in exports of URLs
	// Visit is the number of this visit after the first fetch, Change what it found, and Before the
	// SHA-256 of the body before; 0, empty and nil for the first fetch.
	Visit  uint32
	Change Change
	Before []byte
}

// Change is what a visit after the first fetch found.
type Change string

// The changes.
const (
	// NotModified: the server answered with status 304; RevisitOf is the record that it refers to.
	NotModified Change = "not-modified"
	SameBody    Change = "same"
	// OtherBody: the same text and links.
	OtherBody Change = "body"
	OtherText Change = "text" // or other links
	// UnknownChange: the body before is unknown, or this answer is no complete page.
	UnknownChange Change = "unknown"
)

// LinkCounts are the numbers of links of an archived page by kind, from which repair reconstructs
// the followed links.
type LinkCounts struct {
	Pages, Requisites, Sitemaps int // number of each kind
	// Unfollowed is the number of nofollow links.
	Unfollowed int
}

func (c *LinkCounts) all() [4]*int {
	return [4]*int{&c.Pages, &c.Requisites, &c.Sitemaps, &c.Unfollowed}
}

// String returns the form used in the archive: four numbers.
func (c LinkCounts) String() string {
	return fmt.Sprintf("%d %d %d %d", c.Pages, c.Requisites, c.Sitemaps, c.Unfollowed)
}

// ParseLinkCounts parses what String returns.
func ParseLinkCounts(text string) (c LinkCounts, err error) {
	if _, err := fmt.Sscanf(text, "%d %d %d %d", &c.Pages, &c.Requisites, &c.Sitemaps, &c.Unfollowed); err != nil {
		return LinkCounts{}, fmt.Errorf("link counts %.40q: %w", text, err)
	}
	for _, n := range c.all() {
		if *n < 0 {
			return LinkCounts{}, fmt.Errorf("link counts %.40q: must not be negative", text)
		}
	}
	return c, nil
}

// Original is the record of a known body.
type Original struct {
	URL, RecordID string    // RecordID is urn:uuid:...
	Date          time.Time // of the record
}

// ErrUnarchivable is wrapped by errors of an Archive that concern one exchange and not the disk:
// the URL is reported without a record.
var ErrUnarchivable = errors.New("exchange cannot be archived")

// Archive stores fetched pages. Save is safe for concurrent use and encodes on the caller's
// goroutine. Saved pages are on disk when a later Sync has returned nil. An error of either ends
// the worker, unless it is ErrUnarchivable.
type Archive interface {
	// Save returns the ID of the response record, urn:uuid:...
	Save(x *Exchange) (recordID string, err error)
	Sync() error // returns when all earlier saves are on disk
}

// Verdict is a content owner's answer about a body.
type Verdict uint8

// The verdicts.
const (
	// Fresh: no archived copy is known; the requester archives it.
	Fresh Verdict = iota
	// Known: it is archived.
	Known
	// Wait: another peer is about to archive it.
	Wait
)

// Question claims a body by its digest, fetched from a URL.
type Question struct {
	Digest [32]byte // SHA-256 of the body
	URL    string   // it was fetched from
	Body   []byte   // valid during the call only
}

// Answer to a Question. Original is that of a known body.
type Answer struct {
	Verdict  Verdict  // what to do with the body
	Original Original // of a known body
	// Assumed marks an unconfirmed Fresh: the content owner did not answer, or the holder did not
	// prove that it has the body.
	Assumed bool
}

// Content sends claims and confirmations to the owners of bodies.
type Content interface {
	// Claim answers questions in their order, within bounded time. An error counts as Fresh for all.
	Claim(ctx context.Context, q []Question) ([]Answer, error)
	// Confirm announces archived bodies. Undeliverable confirmations are dropped: a body is then
	// stored twice.
	Confirm(ctx context.Context, c []reports.Confirmation) error
}
