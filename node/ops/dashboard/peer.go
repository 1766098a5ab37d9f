package dashboard

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// Peer is the peer that the page shows and controls. All methods are safe for concurrent use and
// return when ctx ends.
type Peer interface {
	// Status returns the status that `apoidea status` prints.
	Status(ctx context.Context, ring bool) (*control.Status, error)
	// Watch calls fn for each ring event until ctx ends.
	Watch(ctx context.Context, fn func(control.RingEvent) error) error
	// PeerName returns the name of a peer, empty if unknown.
	PeerName(id string) control.Name
	// Gauges is called once per second and must be cheap.
	Gauges(ctx context.Context) (Gauges, error)
	// Circle returns the ring as known to this peer.
	Circle(ctx context.Context) (*Circle, error)
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

// Circle is the ring as seen by one peer.
type Circle struct {
	Self Place // this peer
	// Others are the known peers, clockwise from this one.
	Others []Place
	// Size is the number of members: exact in a small ring, estimated in a large one.
	Size int
	// Attached are the workers attached to this peer.
	Attached []Place
}

// Place is a peer on the ring.
type Place struct {
	Peer, Addr string // its ID, and the first of its addresses
	Name       control.Name
	// At is the position, from 0 at the top clockwise to below 1.
	At float64
	// Leaf reports that the peer is in this peer's leaf set, so that its arc is known.
	Leaf    bool
	Side    string // self, predecessor, successor, the last two together, attached (this worker, to it), or empty
	Suspect bool   // it did not respond recently
	// Serves reports that it owns the arc from ArcFrom to At; Whole that this is the whole ring.
	Serves, Whole bool
	ArcFrom       float64 // begin of its arc, as At
	RTTMs         float64 // round trip time in milliseconds, 0 if unknown
	// Crawls counts the hosts that it crawls for this peer.
	Crawls int
	// drawn is the position of its dot, moved from At to avoid overlap.
	drawn float64
}

// Crawled lists the hosts being crawled.
type Crawled struct {
	Hosts []Host // the busiest first
	// Total counts all of them, Here those crawled by this peer.
	Total, Here int
}

// Host is a host of this peer being crawled, or one that this peer crawls for another owner.
type Host struct {
	Name, Worker string // of the host, and the ID of the peer that crawls it
	// Owner is empty for hosts of this peer.
	Owner string
	// At is the position of its key on the ring.
	At float64
	// RTT is the round trip time measured by the worker, Least the minimum of the candidates at
	// placement; 0 if unknown.
	RTT, Least time.Duration
	// Pending counts pending URLs (leased ones for another owner's host), Pages those fetched with new
	// content.
	Pending, Pages int64
}

// Behind returns how many milliseconds RTT exceeds Least, 0 if it does not or is unknown.
func (h *Host) Behind() float64 {
	if h.Least == 0 {
		return 0
	}
	return control.Behind(h.RTT.Seconds()*1000, h.Least.Seconds()*1000)
}
