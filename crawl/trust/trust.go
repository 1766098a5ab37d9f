// Package trust decides which reports of a worker are checked by a second fetch, and judges the
// checks. It is a plain state machine: the owner of the hosts drives it, and a simulation.
//
// A worker reports what it fetched, and no other peer sees the page. Of a new worker the first
// pages are checked, later a small share. Another worker fetches the page again. If the two differ,
// a third one does. A worker loses if two others report nearly the same page, and its own is far
// from both: its pages of unfinished jobs are fetched again, and it gets no lease for a time. If
// all three differ, or two only a little, the page changes with each fetch, and no worker loses.
package trust

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"net/http"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/storage/kv"
)

// First is the number of pages of a new worker, or of one that has lost a check, that are checked.
const First = 10

// Worker holds one owner's counters of a worker.
type Worker struct {
	Since   uint64 // Unix seconds of its first report
	Pages   uint64 // pages that it reported
	Checked uint64 // of them, those chosen for a check
	Agreed  uint64 // checks that another worker confirmed
	Unclear uint64 // checks without a result: no other worker, or the page changes with each fetch
	Lost    uint64 // checks in which two other workers agreed with each other
	Anew    uint64 // pages since it was new, or has lost
	LostAt  uint64 // Unix seconds of the last loss
}

// Sample counts a page, and reports whether to check it: the first pages always, others with
// probability rate, doubled with each loss. random is in [0, 1), and no worker can predict it.
func (w *Worker) Sample(rate, random float64) bool {
	w.Pages++
	w.Anew++
	rate *= float64(uint64(1) << min(w.Lost, 32))
	if rate == 0 || w.Anew > First && random >= rate {
		return false
	}
	w.Checked++
	return true
}

// Lose counts a lost check: the worker starts anew.
func (w *Worker) Lose(now uint64) { w.Lost, w.Anew, w.LostAt = w.Lost+1, 0, now }

// suspension is the time in seconds without leases after the first loss; each further doubles it.
const suspension = 3600

// Suspended reports whether a worker that has lost gets no lease yet. Otherwise a strategy that
// prefers it would place the same hosts at it again, and their pages were fetched again without
// end.
func (w *Worker) Suspended(now uint64) bool {
	return w.Lost > 0 && now < w.LostAt+suspension<<min(w.Lost-1, 7)
}

// format is the version of the stored form.
const format = 1

// ErrFormat is returned for bytes that are not a stored Worker.
var ErrFormat = errors.New("record of a worker: invalid")

func (w *Worker) fields() []*uint64 {
	return []*uint64{&w.Since, &w.Pages, &w.Checked, &w.Agreed, &w.Unclear, &w.Lost, &w.Anew, &w.LostAt}
}

// Encode returns the stored form: a version and unsigned varints.
func (w *Worker) Encode() []byte {
	b := []byte{format}
	for _, v := range w.fields() {
		b = binary.AppendUvarint(b, *v)
	}
	return b
}

// Decode reads the result of Encode; fields that are missing at its end are zero.
func Decode(b []byte) (*Worker, error) {
	f, w := kv.Fields{Rest: b}, new(Worker)
	if f.Byte() != format {
		return nil, ErrFormat
	}
	for _, v := range w.fields() {
		if len(f.Rest) > 0 {
			*v = f.Uint(math.MaxUint64)
		}
	}
	if f.Bad {
		return nil, ErrFormat
	}
	return w, nil
}

// Opinion is what one worker reported of a page.
type Opinion struct {
	Worker  string
	Outcome link.Outcome
	Status  int    // HTTP status
	Target  string // of a redirect
	Digest  []byte // SHA-256 of the body; empty without one
	Content uint64 // digest of the text and the links; 0: unknown
	Words   uint64 // SimHash of the words, see extract.SimHash; 0: too few
	Links   uint64 // SimHash of the links; 0: none
}

func (o *Opinion) isPage() bool {
	return o.Outcome.Fetched() || o.Outcome == link.OutcomeNoIndex || o.Outcome == link.OutcomeTooLarge
}

// Conclusive reports whether another fetch can confirm an outcome: no failure of the network or of
// the server, nor a site's refusal.
func (o *Opinion) Conclusive() bool {
	return o.isPage() || o.Outcome == link.OutcomeRedirect ||
		o.Outcome == link.OutcomeHTTPError && (o.Status == http.StatusNotFound || o.Status == http.StatusGone)
}

// Bits in which the SimHashes of two fetches differ. Those of unrelated pages differ in 32 on
// average, with a standard deviation of 4; 16 bits are a cosine similarity of 0.71. Up to nearBits
// the second worker confirms the first. A worker loses only if the two others differ in at most
// closeBits, and it differs from both in more than farBits: a page that changes accuses no worker.
const (
	closeBits = 12
	nearBits  = 16
	farBits   = 24
	unrelated = 64
)

// Same reports whether two workers report the same page: the same body or the same text and links,
// or nearly so.
func (o *Opinion) Same(p *Opinion) bool { return o.distance(p) <= nearBits }

// distance returns the number of bits in which two reports differ: 0 for the same page, unrelated
// for those that cannot be compared.
func (o *Opinion) distance(p *Opinion) int {
	same := false
	switch {
	case o.isPage() && p.isPage():
		same = len(o.Digest) > 0 && bytes.Equal(o.Digest, p.Digest) || o.Content != 0 && o.Content == p.Content
		if !same && o.Words != 0 && p.Words != 0 {
			return max(bits.OnesCount64(o.Words^p.Words), bits.OnesCount64(o.Links^p.Links))
		}
	case o.Outcome == link.OutcomeRedirect:
		same = p.Outcome == o.Outcome && o.Target == p.Target
	default:
		same = o.Outcome == p.Outcome && o.Status == p.Status
	}
	if same {
		return 0
	}
	return unrelated
}

// Result is the result of a check.
type Result uint8

const (
	// Open checks need another opinion.
	Open Result = iota
	// Agreed: the second worker confirmed the first.
	Agreed
	// Lost: two workers contradict a third, the loser.
	Lost
	// Unclear: all differ, or the difference is small.
	Unclear
)

// Check is a page under check: the opinion of the worker that is checked, then those of others.
type Check struct{ Opinions []Opinion }

// Add takes another opinion, and returns the result with the loser, if there is one.
func (c *Check) Add(o Opinion) (r Result, loser string) {
	c.Opinions = append(c.Opinions, o)
	checked, second := &c.Opinions[0], &c.Opinions[1]
	between := checked.distance(second)
	if len(c.Opinions) == 2 {
		if between <= nearBits {
			return Agreed, ""
		}
		return Open, ""
	}
	switch first, other := checked.distance(&o), second.distance(&o); {
	case first <= closeBits && min(between, other) > farBits:
		return Lost, second.Worker
	case other <= closeBits && min(between, first) > farBits:
		return Lost, checked.Worker
	default:
		return Unclear, ""
	}
}
