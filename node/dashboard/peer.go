package dashboard

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// Peer is what the page shows, and whom its buttons tell. All methods are safe for concurrent use
// and return when ctx ends.
type Peer interface {
	// Status is what `apoidea status` prints.
	Status(ctx context.Context, ring bool) (*control.Status, error)
	// Watch calls fn for what happens on the ring until ctx ends.
	Watch(ctx context.Context, fn func(control.RingEvent) error) error
	// PeerName is what a peer is called, empty where that is not known.
	PeerName(id string) control.Name
	// Gauges is asked once a second, page or no page, and so is cheap.
	Gauges(ctx context.Context) (Gauges, error)
	// Circle is the ring as this peer knows it.
	Circle(ctx context.Context) (*Circle, error)
	// Crawled lists hosts being crawled now, the limit busiest of them.
	Crawled(ctx context.Context, limit int) (*Crawled, error)

	// Lately lists what became of the last URLs that this peer asked for, and of the last that
	// failed, the newest first.
	Lately() (all, failed []Outcome)
	// Refused lists whose requests this peer refused lately, the latest first.
	Refused() []Refused
	// Post posts a job and returns when its seeds are on disk at their owners.
	Post(ctx context.Context, spec control.JobSpec) (*control.Job, error)
	// Jobs, SetJob and JobKey are those of control.Backend.
	Jobs(ctx context.Context) ([]control.Job, error)
	SetJob(ctx context.Context, id, action string) (*control.Job, error)
	JobKey(ctx context.Context) (*control.JobKey, error)
	// Pause, Resume, Limits and SetLimits are those of control.Backend.
	Pause(ctx context.Context, d time.Duration) (*control.Limits, error)
	Resume(ctx context.Context) (*control.Limits, error) // ends such a pause
	// Limits tells what is set, what holds and what is used.
	Limits(ctx context.Context) (*control.Limits, error)
	// SetLimits changes settings by their keys, all or none.
	SetLimits(ctx context.Context, values map[string]string) (*control.Limits, error)
}

// Refused is a peer with what it was refused.
type Refused struct {
	Peer string // its ID
	control.Refusals
}

// Gauges are the sums since the process began, and what is in hand now, that charts are drawn from.
type Gauges struct {
	// Pages and Duplicates are what this peer fetched, whoever owns the hosts.
	Pages, Duplicates int64
	// SiteBytes came from and went to sites, PeerBytes to and from other peers.
	SiteBytes, PeerBytes int64
	// Queue is the number of URLs that this peer has pending as an owner.
	Queue int64
	// CapBps is the cap on bandwidth in bytes a second, 0 if there is none.
	CapBps int64
}

// Circle is a ring as one peer sees it.
type Circle struct {
	Self Place // this peer
	// Others are the peers known, clockwise from this one.
	Others []Place
	// Size is how many peers the ring has: counted in a small one, estimated in a large one.
	Size int
	// Attached are the workers that hang on to this peer.
	Attached []Place
}

// Place is a peer on the circle.
type Place struct {
	Peer, Addr string // its ID, and the first of its addresses
	Name       control.Name
	// At is the position, from 0 at the top clockwise to below 1.
	At float64
	// Leaf says that it is in this peer's leaf set, so that what it serves is known; Side is
	// predecessor or successor for the nearest.
	Leaf    bool
	Side    string // self, predecessor, successor, the last two together, attached (this worker, to it), or empty
	Suspect bool   // it did not answer of late
	// Serves says that it answers for the part of the circle from ArcFrom to At; Whole that this is
	// all of it.
	Serves, Whole bool
	ArcFrom       float64 // where its arc begins, as At
	RTTMs         float64 // round trip in milliseconds, 0 if it is not known
	// Crawls counts the hosts that it crawls for this peer.
	Crawls int
	// drawn is where its dot is: beside At where that of another would lie on it.
	drawn float64
}

// Crawled is the hosts that are being crawled.
type Crawled struct {
	Hosts []Host // the busiest first
	// Total counts those that are not listed too, Here those that this peer crawls.
	Total, Here int
}

// Host is a host of this peer that some worker crawls, or one that this peer crawls for another
// owner.
type Host struct {
	Name, Worker string // of the host, and the ID of the peer that crawls it
	// Owner is empty for hosts of this peer.
	Owner string
	// At is where its key lies on the circle.
	At float64
	// RTT is the round trip that the worker measured, Least the least that was measured when it was
	// chosen; 0 if they are not known.
	RTT, Least time.Duration
	// Pending counts the URLs that wait (for another owner's hosts: those in hand), Pages those
	// fetched with new content.
	Pending, Pages int64
}

// Behind is by how many milliseconds the worker is farther than the nearest peer that measured the
// host, 0 if it is not or nobody knows.
func (h *Host) Behind() float64 {
	if h.Least == 0 {
		return 0
	}
	return control.Behind(h.RTT.Seconds()*1000, h.Least.Seconds()*1000)
}
