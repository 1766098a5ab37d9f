package dashboard

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of the list of recent URLs, and of the length of URLs and details, which are untrusted.
const (
	maxRecent    = 10
	maxRecentURL = 2000
	maxDetail    = 200
)

// Outcome is the outcome of one URL.
type Outcome struct {
	At          time.Time
	URL, Result string // the result as shown by `apoidea why`
	Status      int    // HTTP status; 0 without a response
	Detail      string // of a failure, for people
	Failed      bool
}

// Link returns the URL if a browser may open it: http or https, and not truncated.
func (o *Outcome) Link() string {
	if len(o.URL) < maxRecentURL && (strings.HasPrefix(o.URL, "http://") || strings.HasPrefix(o.URL, "https://")) {
		return o.URL
	}
	return ""
}

// Age returns the time since the outcome.
func (o *Outcome) Age() string { return spanText(time.Since(o.At)) }

// Recent stores the outcomes of the last fetches. Its zero value is ready; it is safe for
// concurrent use.
type Recent struct {
	mu          sync.Mutex // guards the fields below
	all, failed []Outcome  // newest last
}

// Note adds an outcome and drops the oldest.
func (r *Recent) Note(o Outcome) {
	o.URL, o.Detail = clip(o.URL, maxRecentURL), clip(o.Detail, maxDetail)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = lastOf(append(r.all, o))
	if o.Failed {
		r.failed = lastOf(append(r.failed, o))
	}
}

// Lately returns the outcomes, newest first.
func (r *Recent) Lately() (all, failed []Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, failed = slices.Clone(r.all), slices.Clone(r.failed)
	slices.Reverse(all)
	slices.Reverse(failed)
	return all, failed
}

func lastOf(list []Outcome) []Outcome { return append(list[:0], list[max(0, len(list)-maxRecent):]...) }

// clip returns a copy of at most most bytes of text.
func clip(text string, most int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
