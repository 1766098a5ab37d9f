package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Peer is the peer that the page shows and controls. All methods are safe for concurrent use and
// return when ctx ends.
type Peer interface {
	// Status and Ring are those of control.Backend.
	Status(ctx context.Context, whole bool) (*control.Status, error)
	Ring(ctx context.Context) (*control.Ring, error)
	// Attached returns the workers attached to this peer, or the peers that it is attached to.
	Attached() []control.PeerLine
	// Watch calls fn for each ring event until ctx ends.
	Watch(ctx context.Context, fn func(control.RingEvent) error) error
	// PeerName returns the name of a peer, empty if unknown.
	PeerName(id string) control.Name
	// Gauges is called once per second and must be cheap.
	Gauges(ctx context.Context) (Gauges, error)
	// Crawled returns the hosts being crawled, at most limit, the busiest first.
	Crawled(ctx context.Context, limit int) (*Crawled, error)

	// Lately returns the outcomes of the last fetches and of the last failures, newest first.
	Lately() (all, failed []Outcome)
	// Refused returns the peers with recently rejected requests, latest first.
	Refused() []Refused
	// Post posts a job and returns when its seeds are on disk at their owners.
	Post(ctx context.Context, spec control.JobSpec) (*control.Job, error)
	// Jobs, SetJob and JobKey are those of control.Backend.
	Jobs(ctx context.Context) ([]control.Job, error)
	SetJob(ctx context.Context, id, action string) (*control.Job, error)
	JobKey(ctx context.Context) (*control.JobKey, error)
	// Pause, Resume, Limits and SetLimits are those of control.Backend.
	Pause(ctx context.Context, d time.Duration) (*control.Limits, error)
	Resume(ctx context.Context) (*control.Limits, error) // ends a pause
	// Limits returns settings, active throttles and usage.
	Limits(ctx context.Context) (*control.Limits, error)
	// SetLimits changes settings by key, all or none.
	SetLimits(ctx context.Context, values map[string]string) (*control.Limits, error)
}

// Refused is a peer with its rejected requests.
type Refused struct {
	Peer string // its ID
	control.Refusals
}

// Gauges are the totals and current values that charts show.
type Gauges struct {
	// Pages and Duplicates were fetched by this peer, for any owner.
	Pages, Duplicates int64
	// SiteBytes is the traffic with sites, PeerBytes with other peers, both directions.
	SiteBytes, PeerBytes int64
	// Queue is the number of pending URLs at this owner.
	Queue int64
	// CapBps is the download limit in bytes per second, 0 if there is none.
	CapBps int64
}

// Crawled lists the hosts of this peer that are being crawled, and those of other owners that this
// peer crawls.
type Crawled struct {
	Hosts []control.HostLine // the busiest first; Pending includes leased URLs
	// Total counts all of them, Here those crawled by this peer.
	Total, Here int
}

// The dimensions of the picture, in its own units around the center.
const (
	circleWidth  = 640.0
	circleHeight = 420.0
	circleRadius = 148.0
)

// circle draws the ring of the last walk; without one, this peer and its leaf set.
func (m *model) circle() template.HTML {
	var r *ringsvg.Ring
	o := ringsvg.Options{Self: m.status.Peer, Latency: true}
	var hosts []control.HostLine
	for i := range m.crawled.Hosts {
		if m.crawled.Hosts[i].Owner == m.status.Peer {
			hosts = append(hosts, m.crawled.Hosts[i])
		}
	}
	if m.whole != nil {
		r = ringsvg.OfRing(m.whole.ring, hosts, o)
	} else {
		r = ringsvg.OfRing(leafRing(m.status), hosts, o)
		r.Count, r.State = words.Thousands(int64(m.status.Ring.Members)), "peers (estimate)"
	}
	r.Radius, r.ArcWidth, r.Height, r.LabelGap, r.MarkRadius = circleRadius, 16, circleHeight-24, 19, 2
	var d bytes.Buffer
	fmt.Fprintf(&d, `<svg class="circle" viewBox="%g %g %g %g" role="img" aria-label="%s">`,
		-circleWidth/2, -circleHeight/2, circleWidth, circleHeight, html.EscapeString("The ring as last seen by this peer: "+r.Count+" "+r.State))
	r.Draw(&d)
	d.WriteString("</svg>")
	return template.HTML(d.String()) // untrusted names are escaped
}

// leafRing returns what the status of a peer shows of the ring: its own arc and its leaf set.
func leafRing(s *control.Status) *control.Ring {
	r := new(control.Ring)
	if s.Ring.Arc[1] != "" {
		share := math.Mod(ringsvg.Turns(s.Ring.Arc[1])-ringsvg.Turns(s.Ring.Arc[0])+1, 1)
		if s.Ring.Arc[0] == s.Ring.Arc[1] {
			share = 1
		}
		r.Members = append(r.Members, control.Member{Status: *s, ArcShare: share})
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		r.Members = append(r.Members, control.Member{Status: control.Status{Peer: p.Peer, Name: p.Name, Position: p.Position}})
	}
	return r
}

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
