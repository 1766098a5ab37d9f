package dashboard

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds on what is kept of the last URLs: so many fetched and so many failed, and of a URL so many
// bytes, as hosts name them.
const (
	maxRecent    = 10
	maxRecentURL = 2000
	maxDetail    = 200
)

// Outcome is what became of one URL.
type Outcome struct {
	At          time.Time
	URL, Result string // the result as `apoidea why` has it
	Status      int    // of HTTP; 0 without an answer
	Detail      string // of a failure, in words
	Failed      bool
}

// Link is the URL, if it is one that a browser may follow: of the web, and whole.
func (o *Outcome) Link() string {
	if len(o.URL) < maxRecentURL && (strings.HasPrefix(o.URL, "http://") || strings.HasPrefix(o.URL, "https://")) {
		return o.URL
	}
	return ""
}

// Age is how long ago that was.
func (o *Outcome) Age() string { return spanText(time.Since(o.At)) }

// Recent keeps what became of the last URLs that this peer asked for. Its zero value is ready; it
// is safe for concurrent use.
type Recent struct {
	mu          sync.Mutex // guards what follows
	all, failed []Outcome  // newest last
}

// Note keeps an outcome in place of the oldest.
func (r *Recent) Note(o Outcome) {
	o.URL, o.Detail = clip(o.URL, maxRecentURL), clip(o.Detail, maxDetail)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = lastOf(append(r.all, o))
	if o.Failed {
		r.failed = lastOf(append(r.failed, o))
	}
}

// Lately lists them, the newest first.
func (r *Recent) Lately() (all, failed []Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, failed = slices.Clone(r.all), slices.Clone(r.failed)
	slices.Reverse(all)
	slices.Reverse(failed)
	return all, failed
}

func lastOf(list []Outcome) []Outcome { return append(list[:0], list[max(0, len(list)-maxRecent):]...) }

// clip keeps the beginning, and nothing else of the memory that it lay in.
func clip(text string, most int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
