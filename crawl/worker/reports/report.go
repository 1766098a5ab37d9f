// Package reports builds a worker's reports on URLs: an outcome, with those links of its page that
// their owner has not received yet.
//
// A page's links are filtered by the job's patterns and scope, and by what owners are known to have
// on disk. Links beyond the limit of one message are sent ahead in pieces.
package reports

import (
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Item is one URL of a host's window.
type Item struct {
	// Job is the job that it was granted for.
	Job *Job
	// URL is canonical.
	URL string
	// Depth is the number of links from a seed.
	Depth uint32
	// Hops is the number of consecutive redirects.
	Hops uint8
	// Kind selects how its answer is parsed.
	Kind link.Kind
	// Tries is the number of earlier attempts.
	Tries uint8
	// Repeated: a redirect set a cookie, and the URL is requested again with it.
	Repeated bool
	// MaxBytes limits its body by a job's budget; zero: no budget.
	MaxBytes int64
	// Source is the page that led to it; nil: none, or unknown.
	Source *link.Source
	// Revisit is what its owner has stored of the last visit; nil: it was not fetched before.
	Revisit *wire.Revisit
	// Weight is its size in memory with that of its source, unless another URL has it.
	Weight int
	// Serial increases with each URL granted: its age.
	Serial uint64
	// Rank is its rank in the order of its job (job.Spec.Rank).
	Rank uint32
}

// Conditions are the fields that make the request of a Revisit conditional (RFC 9110, section
// 13.1), without values that no field may have; nil if there are none.
func (it *Item) Conditions() (fields http.Header) {
	for name, value := range map[string]string{"If-None-Match": it.Revisit.GetEtag(), "If-Modified-Since": it.Revisit.GetLastModified()} {
		if value != "" && httpguts.ValidHeaderFieldValue(value) {
			if fields == nil {
				fields = make(http.Header, 2)
			}
			fields.Set(name, value)
		}
	}
	return fields
}

// Report is an outcome in transit to its owner.
type Report struct {
	// Report is the part that a session carries.
	session.Report
	// Ahead are pieces with the first links of a page that has very many, to be sent before it.
	Ahead []*Report
	// Archived is the confirmation for the content owner, sent once the body is on disk; nil: none.
	Archived *Confirmation

	hashes []uint64 // of links to be remembered once it is acknowledged
}

// Confirmation states that a body is archived here and on disk.
type Confirmation struct {
	// Digest is the SHA-256 of the body.
	Digest [32]byte
	// URL is the URL it was fetched from.
	URL string
	// RecordID is the ID of its record.
	RecordID string
	// Date is when the exchange began.
	Date time.Time
}

// Of returns a report of f.
func Of(l *session.Lease, f *wire.Fetched) *Report {
	r := &Report{Report: session.Report{Lease: l, Fetched: f}}
	r.Note = r
	return r
}

// New returns the report of an outcome.
func New(l *session.Lease, it *Item, outcome link.Outcome) *Report {
	return Of(l, &wire.Fetched{
		Job: it.Job.ID[:], Url: []byte(it.URL), Depth: it.Depth, Hops: uint32(it.Hops), Kind: uint32(it.Kind), Outcome: uint32(outcome),
		Again: it.Revisit != nil,
	})
}

// attach adds the links of a page to its report. If they exceed the limit of one outcome, the first
// are sent ahead in pieces, as links without an outcome.
func (r *Report) attach(t selection) {
	m := r.Fetched
	r.hashes = append(make([]uint64, 0, len(t.hashes)), t.hashes...)
	for {
		n := piece(t.urls)
		if n == len(t.urls) {
			m.Links, m.LinkKind = t.urls, t.kinds
			return
		}
		more := &wire.Fetched{Job: m.GetJob(), Url: m.GetUrl(), Depth: m.GetDepth(), Hops: m.GetHops(), Kind: m.GetKind()}
		more.Links, t.urls = t.urls[:n], t.urls[n:]
		if t.kinds != nil {
			more.LinkKind, t.kinds = t.kinds[:n], t.kinds[n:]
		}
		one := Of(r.Lease, more)
		one.Piece = true
		r.Ahead = append(r.Ahead, one)
	}
}

// piece returns how many links one outcome holds.
func piece(urls [][]byte) int {
	size := 0
	for i, url := range urls {
		if size += len(url) + wire.LinkBytes; i == wire.PieceLinks || size > wire.PieceBytes {
			return i
		}
	}
	return len(urls)
}

// Clip truncates a text for human readers to the limit of a message, and removes invalid UTF-8,
// which no message may contain.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), wire.MaxText)], "") }
