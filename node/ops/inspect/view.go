// Package inspect is the inspection API of a peer: status, walks of the ring, explanations of hosts
// and URLs, and the results of a crawl. It is read-only.
//
// A [View] serves the control API, and requests of other peers' views (the services status and
// files). It requests the state of a host from its owner. [Offline] reads the results of a peer
// that does not run.
package inspect

import (
	"context"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// View implements the read-only methods of control.Backend.
type View struct {
	deps       Deps
	walker     walker
	reports    *loop.Paces
	desk       loop.Desk // for requests of untrusted peers for lists and files
	reportDesk loop.Desk // for their requests for reports, which wait for the disk
	names      *lru.Cache[string, namedPeer]
}

// Deps are the dependencies of a View by subject.
type Deps struct {
	Self     peer.ID     // this peer
	About    About       // its constants
	Life     Life        // its stage of life
	Ring     RingDeps    // the ring and its members
	Hosts    HostDeps    // the hosts that this peer owns
	Crawl    CrawlDeps   // its fetches, and what delays them
	Placing  PlacingDeps // coordinates and latencies
	Archive  ArchiveDeps // the results
	Watchers *Watchers   // of ring events
}

// About is the constant part of a status.
type About struct {
	Name                                  control.Name    // given by its operator
	Started                               time.Time       // start of the process
	Incarnation                           uint64          // as in control.Status
	Version, Network, Placement, Governor string          // as in node.Config
	Page                                  string          // URL of the dashboard, empty without one
	Patience                              time.Duration   // the wait limit: later retries are deferred
	Budgets                               control.Budgets // limits per host
}

// Life is the stage of a peer's life.
type Life interface {
	Ready(ctx context.Context) error // returns when the peer serves
	Leaving() bool                   // reports a shutdown
}

// RingDeps are the ring as seen by this peer, and access to its members.
type RingDeps struct {
	DHT      Ring           // the ring as seen by this peer
	Net      Net            // the network
	Router   Router         // finds the owners of keys
	WalkFrom func() peer.ID // first and last peer of a walk
	// Known are the known members, clockwise from this peer, which a walk prefetches.
	Known  func() []peer.ID
	Moving func() bool // reports a handoff to or from this peer
	// Refused returns the recently rejected requests by peer.
	Refused func() map[peer.ID]control.Refusals
	// Admission returns the charter, and this peer's certificate; nil in tests.
	Admission func() *control.Admission
}

// HostDeps are the hosts that this peer owns, and their owner loop.
type HostDeps struct {
	Owners
	Records  ondisk.Scanner                                      // the records of hosts
	SeenLoss func(context.Context) (float64, error)              // expected share of URLs lost by filters; nil with exact URL sets
	Unsent   func(ctx context.Context) (map[job.ID]int64, error) // seeds not yet sent to the owners of their hosts
	Now      func() time.Time                                    // the lease clock
}

// CrawlDeps are this peer's fetches, and what delays them.
type CrawlDeps struct {
	Worker Worker      // of this peer
	Limits interface { // what pauses fetching
		Holding() (volunteer.Hold, bool)
		Paused() bool
	}
	OptOuts interface { // this peer's lists: why a host or URL is not fetched
		Host(host string) string
		URL(url string) string
	}
}

// PlacingDeps locate sites and peers.
type PlacingDeps struct {
	Placer  Placer
	SiteRow func(addr netip.Addr) (row int, ok bool) // row of a site in the matrix of emulated latencies; nil without one
}

// ArchiveDeps are the results stored by this peer.
type ArchiveDeps struct {
	Dir   string       // their directory
	Flush func() error // writes buffered records to the file
}

// Ring is the part of dht.DHT that a View uses.
type Ring interface {
	Self() dht.Peer                    // returns this peer
	State() dht.State                  // returns the state of joining or leaving
	Size() int                         // estimates the number of members
	Stable() bool                      // reports that the neighbors have not changed recently
	Arc() (ring.Arc, bool)             // returns the arc of this peer; false: none
	Leaves() (preds, succs []dht.Peer) // returns the leaf set, on each side the nearest first
	Attached() []dht.Peer              // lists the workers attached to this peer
	Attachments() []dht.Peer           // lists the peers that this worker is attached to
	Serves(key ring.Key) bool          // reports whether this peer owns a key now
	// Lookup finds the owner of a key.
	Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error)
}

// Net is the part of p2p.Net that a View uses.
type Net interface {
	// Call calls a service of a peer.
	Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error)
	Addrs() []string                    // lists the multiaddrs at which others dial this peer
	AddrsOf(id peer.ID) []string        // lists the known multiaddrs of a peer
	RelayedAddrsOf(id peer.ID) []string // lists its relay addresses
	Reached() p2p.Reached               // returns the reachability of this peer
	// RoundTrip returns the smoothed round trip time to a peer, 0 if unknown.
	RoundTrip(id peer.ID) time.Duration
	Met(id peer.ID, addrs [][]byte) // records multiaddrs of a peer
}

// Router is the part of rpc.Router that a View uses.
type Router interface {
	// CallOwner calls a service of the owner of a key.
	CallOwner(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error)
	Moved(key ring.Key) error // returns the error for a key that this peer does not own
}

// Owners is the part of hosts.Owners, the owner's loop, that a View uses.
type Owners interface {
	// Look calls fn in the owner's loop; Ask also waits until the state that fn saw is on disk.
	Look(ctx context.Context, fn func(*owner.Owner)) error
	Ask(ctx context.Context, fn func(*owner.Owner)) error // also waits
	// Taken counts what this process has received; it is called within Look or Ask.
	Taken() map[string]uint64
	LongestStep() time.Duration // of the loop
}

// Placer is the part of placer.Placer that a View uses.
type Placer interface {
	// Coordinate returns the coordinate of a host's server, nil if unknown.
	Coordinate(d *owner.HostDetail, host string, now time.Time) *control.Coordinate
	// Distance returns the distance of a peer by its coordinate; nil: unknown.
	Distance(id peer.ID) (ms, relative *float64)
}

// Worker is the part of worker.Worker that a View uses.
type Worker interface {
	Stats() worker.Stats // returns its counters
	Backlog() int        // counts the URLs that it holds
}

var (
	_ Ring   = (*dht.DHT)(nil)
	_ Net    = (*p2p.Net)(nil)
	_ Worker = (*worker.Worker)(nil)
)

// New returns the View of a peer.
func New(d Deps) *View {
	v := &View{deps: d, reports: loop.NewPaces(rate.Every(reportEvery), reportsAtOnce, loop.MaxPeers)}
	v.names, _ = lru.New[string, namedPeer](maxNames) // a positive size has no error
	v.walker = walker{
		self: d.Self, start: d.Ring.WalkFrom, report: v.reportOf, patience: d.About.Patience, known: d.Ring.Known,
		roundTrip: d.Ring.Net.RoundTrip,
		met:       func(id peer.ID, addrs []string) { d.Ring.Net.Met(id, binaryAddrs(addrs)) },
	}
	return v
}

// Here returns the report of this peer without waiting for disk or replicas.
func (v *View) Here(ctx context.Context) (*control.Member, error) {
	r, err := v.member(ctx, v.deps.About.Patience, v.deps.Hosts.Look)
	if err != nil {
		return nil, err
	}
	return &r.Member, nil
}

// WaitIdle returns when a job, or every job if none is given, has no work due within patience; a
// negative value means the peer's default.
func (v *View) WaitIdle(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error {
	w := v.walker
	if patience >= 0 {
		w.patience = patience
	}
	return w.waitIdle(ctx, job, fn)
}
