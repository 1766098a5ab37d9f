// Package reports makes what a worker tells the owners of hosts of URLs: an outcome, with those
// links of its page that the owner does not know yet.
//
// A page's links pass the job's wishes and scope, and what owners are known to have on disk
// already. Those that one message has no room for go ahead in pieces.
package reports

import (
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Item is one URL of a host's window.
type Item struct {
	// Job is the one that it was granted for.
	Job *Job
	// URL is canonical.
	URL string
	// Depth is the number of links from a seed.
	Depth uint32
	// Hops is the number of redirects one behind another.
	Hops uint8
	// Kind says how its answer is read.
	Kind link.Kind
	// Tries is how often it was tried before.
	Tries uint8
	// Repeated: a redirect of it set a cookie, and it is requested again with that.
	Repeated bool
	// MaxBytes is how much of its body a budget lets be taken; zero: there is none.
	MaxBytes int64
	// Serial grows with each URL granted: its age.
	Serial uint64
}

// Report is an outcome on its way to its owner.
type Report struct {
	// Report is what the session carries.
	session.Report
	// Ahead are the first links of a page that has very many, to be told before it.
	Ahead []*Report
	// Archived is to be told to the owner of the body once this is on disk; nil: nothing.
	Archived *Confirmation

	hashes []uint64 // of links to be known once it is acknowledged
}

// Confirmation says that a body is archived here and on disk.
type Confirmation struct {
	// Digest is the SHA-256 of the body.
	Digest [32]byte
	// URL is where it was found.
	URL string
	// RecordID is that of its record.
	RecordID string
	// Date is when the exchange began.
	Date time.Time
}

// Of makes the report of what is to be told.
func Of(l *session.Lease, f *wire.Fetched) *Report {
	r := &Report{Report: session.Report{Lease: l, Fetched: f}}
	r.Note = r
	return r
}

// New makes the report of an outcome.
func New(l *session.Lease, it *Item, outcome link.Outcome) *Report {
	return Of(l, &wire.Fetched{
		Job: it.Job.ID[:], Url: []byte(it.URL), Depth: it.Depth, Hops: uint32(it.Hops), Kind: uint32(it.Kind), Outcome: uint32(outcome),
	})
}

// attach adds the links of a page to its report. Where they are more than one outcome may hold, the
// first go ahead of it in pieces, as links without an outcome.
func (r *Report) attach(t told) {
	m := r.Fetched
	r.hashes = append(make([]uint64, 0, len(t.hashes)), t.hashes...)
	for {
		n := piece(t.urls)
		if n == len(t.urls) {
			m.Links, m.LinkKind = t.urls, t.kinds
			return
		}
		more := &wire.Fetched{Job: m.GetJob(), Url: m.GetUrl(), Depth: m.GetDepth(), Hops: m.GetHops(), Kind: m.GetKind(), TextPrint: m.GetTextPrint()}
		more.Links, t.urls = t.urls[:n], t.urls[n:]
		if t.kinds != nil {
			more.LinkKind, t.kinds = t.kinds[:n], t.kinds[n:]
		}
		one := Of(r.Lease, more)
		one.Piece = true
		r.Ahead = append(r.Ahead, one)
	}
}

// piece is how many links one outcome holds.
func piece(urls [][]byte) int {
	size := 0
	for i, url := range urls {
		if size += len(url) + wire.LinkBytes; i == wire.PieceLinks || size > wire.PieceBytes {
			return i
		}
	}
	return len(urls)
}

// Clip cuts what is told for people to what a message may hold, which is text: one with other bytes
// in it cannot be sent.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), wire.MaxText)], "") }
