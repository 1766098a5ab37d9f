package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Config holds the knobs of a pipeline. worker.Config says more of each, and has the defaults.
type Config struct {
	// Agent is the crawler's product token, by which robots directives name it.
	Agent string
	// Processors is the number of pages worked on at once.
	Processors int
	// MaxMemory bounds the bytes of bodies in memory.
	MaxMemory int64
	// MaxSpilled is how many bytes wait on disk at most before no further exchange begins.
	MaxSpilled int64
	// ClaimLinger is how long a claim waits for others, unless ClaimBatch of them wait.
	ClaimLinger time.Duration
	// ClaimBatch is the number of claims that are put at once.
	ClaimBatch int
	// WaitFor bounds how long a body waits that somebody else is archiving.
	WaitFor time.Duration
	// MaxParked bounds the bytes of bodies that wait so.
	MaxParked int64
	// ArchiveNoIndex archives pages that ask not to be indexed.
	ArchiveNoIndex bool
	// DuplicatesDrop leaves the links of known bodies unreported.
	DuplicatesDrop bool
}

// Deps is what a pipeline needs of others.
type Deps struct {
	// Archive keeps the pages.
	Archive Archive
	// Content reaches the owners of bodies.
	Content Content
	// Spill may be nil: then exchanges wait while memory is full.
	Spill Spill
	// Known are the links that need not be told again.
	Known *reports.Known
	// Log is required.
	Log *slog.Logger
}

// Worker is who fetches. Its methods are called without any lock held, but for Laden.
type Worker interface {
	// Report takes what is to be told of a page, with the number of links on it, and Leave one of
	// which nothing is said: it is to be fetched again. Either ends the page.
	Report(r *reports.Report, links int)
	Leave(l *session.Lease, it *reports.Item) // ends a page of which nothing is said
	// Laden says that so much is to be told that it is to be acknowledged first; GoOn is called
	// when it ends. It must not block.
	Laden() bool
	// Resting says that no exchange is under way, nor will be while a claim would wait for company.
	Resting() bool
	// Begin has exchanges begin again, which Full has put off.
	Begin()
	// Broken ends the run because the archive failed.
	Broken(err error)
}

// Exchange is one exchange to be archived. What it points to is lent for the call.
type Exchange struct {
	URL      string    // canonical
	Date     time.Time // when the request was written
	IP       string    // address that answered, empty if it is not known
	Protocol string    // as WARC-Protocol names it: "http/1.1", "h2"
	// Request and Response are the heads, Body is decoded and ResponseHead fits it.
	RequestHead, ResponseHead, Body []byte
	Digest                          [32]byte // SHA-256 of Body
	// Truncated is why Body is only the beginning of what the site has; empty: it is whole.
	Truncated fetch.Truncation
	// RevisitOf is where the same body is archived; nil archives it here.
	RevisitOf *Original
	// Outlinks are the links of the page, canonical: those of each kind in Links behind those of
	// the one before.
	Outlinks []string
	Links    LinkCounts    // what the outlinks are
	Depth    uint32        // links from a seed
	Hops     uint8         // redirects followed to come here
	Duration time.Duration // from the request to the last byte
}

// LinkCounts says what the links of an archived page are: a repair of the records follows those
// that were followed.
type LinkCounts struct {
	Pages, Requisites, Sitemaps int // how many of each kind
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
	URL, RecordID string    // RecordID is urn:uuid:...
	Date          time.Time // of the record
}

// ErrUnarchivable is what an Archive's error wraps that concerns one exchange and not the disk: the
// URL is reported without a record.
var ErrUnarchivable = errors.New("exchange cannot be archived")

// Archive keeps what was fetched. Save may be called by many goroutines at once; the caller's
// goroutine does the encoding. What was saved is on disk when a later Sync has returned nil. An
// error of either ends the worker, unless it is ErrUnarchivable.
type Archive interface {
	// Save returns the identity of the record of the response, urn:uuid:...
	Save(x *Exchange) (recordID string, err error)
	Sync() error // returns when all that was saved before is on disk
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
	Digest [32]byte // SHA-256 of the body
	URL    string   // at which it was found
	Body   []byte   // lent for the call
}

// Answer to a Question. Original is that of a known body.
type Answer struct {
	Verdict  Verdict  // what to do with the body
	Original Original // of a known body
	// Assumed marks a Fresh that nobody confirmed: the owner of the body did not answer, or its
	// holder did not prove that it has it.
	Assumed bool
}

// Content reaches the owners of bodies.
type Content interface {
	// Claim answers questions in their order, within bounded time. An error counts as Fresh for
	// all.
	Claim(ctx context.Context, q []Question) ([]Answer, error)
	// Confirm tells what was archived. What cannot be told is forgotten: a body is then stored
	// twice.
	Confirm(ctx context.Context, c []reports.Confirmation) error
}

// Spill keeps bodies on disk that memory has no room for, as spill.Dir does. An error of Create, or
// of a write, means that the disk takes none now.
type Spill interface {
	Create() (fetch.Spilled, error) // opens a body to be written
}
