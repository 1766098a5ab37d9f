package dashboard

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/control"
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
