// Package view is what commands and the page read of a peer, and of the ring through it: status,
// the walk over the ring, why a host or a URL is where it is, and the results. It changes nothing.
//
// A [View] answers the control API, and the questions of other peers' views (the services status
// and files). What only the owner of a host knows is asked of that owner. [Offline] reads the
// results where no peer runs.
package view

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/volunteer"
)

// View is what commands and the page read of a peer, and of the ring through it. It changes nothing. Its methods are those of control.Backend that only read.
type View struct {
	deps   Deps
	walker walker
}

// Deps are what the view reads.
type Deps struct {
	Self peer.ID // this peer
	DHT  Ring    // the ring as this peer sees it
	Net  Net     // reaches the others
	// WalkFrom is where a walk over the ring begins and ends.
	WalkFrom func() peer.ID
	// CallOwner asks the owner of a key, Moved is the answer to a question for a key that this peer does not serve.
	CallOwner func(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error)
	Moved     func(key ring.Key) error // answers a question for a key that this peer does not serve

	// Look puts a question to the owner of hosts; Ask waits until what it saw is on disk.
	Look, Ask Question
	// Taken is what this process took in; it is called within a question.
	Taken func() map[string]uint64
	// Records are the records of hosts.
	Records ondisk.Scanner
	// SeenLoss is how many URLs the filters are expected to have lost; nil where URL sets are exact.
	SeenLoss func() float64
	// Unsent are the seeds that have not left for the owners of their hosts.
	Unsent func(ctx context.Context) (map[job.ID]int64, error)
	Now    func() time.Time // the lease clock
	Worker Worker           // this peer's own

	// Limits: what holds fetching up.
	Limits interface {
		Holding() (volunteer.Hold, bool)
		Paused() bool
	}
	// Stalls: whether nothing moves; OwnerHangs says that the owner's loop does not answer.
	Stalls interface {
		Now() *control.Stalled
		OwnerHangs() bool
	}
	// OptOuts are this peer's own lists: why a host, or a URL, is not fetched.
	OptOuts interface {
		Host(host string) string
		URL(url string) string
	}
	Watchers *Watchers // of events of the ring
	// Coordinate says where a host's server stands, nil if that is not known; Distance how far a peer is by its coordinate.
	Coordinate func(d *owner.HostDetail, host string, now time.Time) *control.Coordinate
	// Distance: how far a peer is by its coordinate; nil: not known.
	Distance func(id peer.ID) (ms, relative *float64)
	// SiteRow is where a site stands in emulated distances; nil without them.
	SiteRow func(addr netip.Addr) (row int, ok bool)

	// Moving says that records are on their way to or from this peer, Leaving that it ends.
	Moving, Leaving func() bool
	// Ready returns when the peer serves.
	Ready func(ctx context.Context) error
	// Page is the address of the page, empty without one.
	Page func() string
	// Archive is the folder of the archive; Flush hands what its writer has gathered to the system.
	Archive string
	Flush   func() error // hands what the archive's writer has gathered to the system

	Started                               time.Time // when the process began
	Incarnation                           uint64    // as in control.Status
	Version, Network, Placement, Governor string    // as in node.Config
	// Patience is how far away a next try may be before a wait does without it.
	Patience time.Duration
	// What a host may take, see control.Budgets.
	MaxRequestsPerHost, PageHosts, DomainHosts, Novelty int
}

// Ring is what the view asks of the ring: dht.DHT.
type Ring interface {
	Self() dht.Peer                    // names this peer
	State() dht.State                  // says how far joining or leaving is
	Size() int                         // estimates the number of members
	Stable() bool                      // says that the neighbours have not changed of late
	Arc() (ring.Arc, bool)             // returns what this peer serves; false: nothing
	Leaves() (preds, succs []dht.Peer) // returns the leaf set, on each side the nearest first
	Attached() []dht.Peer              // lists the workers attached to this peer
	Serves(key ring.Key) bool          // says whether this peer answers for a key now
	// Lookup asks around for the owner of a key.
	Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error)
}

// Net is what the view asks of the network: p2p.Net.
type Net interface {
	// Call asks a service of a peer.
	Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error)
	Addrs() []string                    // lists the multiaddrs under which others dial this peer
	AddrsOf(id peer.ID) []string        // lists the multiaddrs known of a peer
	RelayedAddrsOf(id peer.ID) []string // lists those of them that lead over a relay
	Reached() p2p.Reached               // says how others reach this peer
	// RoundTrip is the smoothed time of exchanges with a peer, 0 if it is not known.
	RoundTrip(id peer.ID) time.Duration
	Met(id peer.ID, addrs [][]byte) // notes multiaddrs of a peer
}

// Worker is what the view asks of the worker: worker.Worker.
type Worker interface {
	Stats() worker.Stats // counts what it did
	Backlog() int        // counts the URLs that it holds
}

var (
	_ Ring   = (*dht.DHT)(nil)
	_ Net    = (*p2p.Net)(nil)
	_ Worker = (*worker.Worker)(nil)
)

// New makes the view of a peer.
func New(d Deps) *View {
	v := &View{deps: d}
	v.walker = walker{
		self: d.Self, start: d.WalkFrom, report: v.reportOf, patience: d.Patience,
		met: func(id peer.ID, addrs []string) { d.Net.Met(id, binaryAddrs(addrs)) },
	}
	return v
}

// Here is what this peer says of itself, without waiting for a disk or a replica.
func (v *View) Here(ctx context.Context) (*control.Member, error) {
	r, err := v.member(ctx, v.deps.Patience, v.deps.Look)
	if err != nil {
		return nil, err
	}
	return &r.Member, nil
}

// ArcOf asks a member what it answers for.
func (v *View) ArcOf(ctx context.Context, id peer.ID) (ring.Arc, error) {
	m, err := v.reportOf(ctx, id, v.deps.Patience)
	if err != nil {
		return ring.Arc{}, err
	}
	from, errFrom := parseHex(m.Ring.Arc[0], ring.KeySize)
	to, errTo := parseHex(m.Ring.Arc[1], ring.KeySize)
	if err := errors.Join(errFrom, errTo); err != nil {
		return ring.Arc{}, err
	}
	return ring.Arc{Start: ring.Key(from), End: ring.Key(to)}, nil
}

// WaitIdle returns when a job, or every one if none is named, has nothing left that is due within the patience; a negative one is that of the peer.
func (v *View) WaitIdle(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error {
	w := v.walker
	if patience >= 0 {
		w.patience = patience
	}
	return w.waitIdle(ctx, job, fn)
}
