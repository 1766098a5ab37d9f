// Package view is what commands and the page read of a peer, and of the ring through it: status,
// the walk over the ring, why a host or a URL is where it is, and the results. It changes nothing.
//
// A [View] answers the control API, and the questions of other peers' views (the services status
// and files). What only the owner of a host knows is asked of that owner. [Offline] reads the
// results where no peer runs.
package view

import (
	"context"
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
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/volunteer"
)

// View is what commands and the page read of a peer, and of the ring through it. It changes
// nothing. Its methods are those of control.Backend that only read.
type View struct {
	deps       Deps
	walker     walker
	reports    pace
	desk       loop.Desk // for the questions of strangers for lists and files
	reportDesk loop.Desk // for their questions for reports, which wait for the disk
	names      names
}

// Deps are what the view reads, by what it is about.
type Deps struct {
	Self     peer.ID     // this peer
	About    About       // what does not change of it
	Life     Life        // how far it is
	Ring     RingDeps    // the ring and the others in it
	Hosts    HostDeps    // the hosts that this peer answers for
	Crawl    CrawlDeps   // what it fetches, and what holds that up
	Placing  PlacingDeps // where sites and peers stand
	Archive  ArchiveDeps // the results
	Watchers *Watchers   // of events of the ring
}

// About is what is fixed when the process begins.
type About struct {
	Name                                  control.Name    // what its operator calls it
	Started                               time.Time       // when the process began
	Incarnation                           uint64          // as in control.Status
	Version, Network, Placement, Governor string          // as in node.Config
	Page                                  string          // address of the page, empty without one
	Patience                              time.Duration   // how far away a next try may be before a wait does without it
	Budgets                               control.Budgets // what a host may take
}

// Life says how far a peer is.
type Life interface {
	Ready(ctx context.Context) error // returns when the peer serves
	Leaving() bool                   // says that it ends
}

// RingDeps are the ring as this peer sees it, and the ways to its members.
type RingDeps struct {
	DHT      Ring           // the ring as this peer sees it
	Net      Net            // reaches the others
	Router   Router         // finds the owners of keys
	WalkFrom func() peer.ID // where a walk over the ring begins and ends
	// Known are members that this peer knows, clockwise from it: a walk asks them ahead.
	Known  func() []peer.ID
	Moving func() bool // says that records are on their way to or from this peer
	// Refused is what this peer refused others lately.
	Refused func() map[peer.ID]control.Refusals
}

// HostDeps are the hosts that this peer answers for, and who drives them.
type HostDeps struct {
	Owners
	Records  ondisk.Scanner                                      // the records of hosts
	SeenLoss func() float64                                      // how many URLs the filters are expected to have lost; nil where URL sets are exact
	Unsent   func(ctx context.Context) (map[job.ID]int64, error) // the seeds that have not left for the owners of their hosts
	Now      func() time.Time                                    // the lease clock
}

// CrawlDeps are what this peer fetches, and what holds that up.
type CrawlDeps struct {
	Worker Worker      // this peer's own
	Limits interface { // what holds fetching up
		Holding() (volunteer.Hold, bool)
		Paused() bool
	}
	Stalls interface { // whether nothing moves; OwnerHangs says that the owner's loop does not answer
		Now() *control.Stalled
		OwnerHangs() bool
	}
	OptOuts interface { // this peer's own lists: why a host, or a URL, is not fetched
		Host(host string) string
		URL(url string) string
	}
}

// PlacingDeps say where sites and peers stand.
type PlacingDeps struct {
	Placer  Placer
	SiteRow func(addr netip.Addr) (row int, ok bool) // where a site stands in emulated distances; nil without them
}

// ArchiveDeps are the results of this peer.
type ArchiveDeps struct {
	Dir   string       // where they are
	Flush func() error // hands what the archive's writer has gathered to the system
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

// Router is what the view asks of the router: rpc.Router.
type Router interface {
	// CallOwner asks the owner of a key, Moved is the answer to a question for a key that this peer
	// does not serve.
	CallOwner(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error)
	Moved(key ring.Key) error // answers a question for a key that this peer does not serve
}

// Owners is what the view asks of the loop that drives hosts: hosts.Owners.
type Owners interface {
	// Look puts a question to the owner of hosts; Ask waits until what it saw is on disk.
	Look(ctx context.Context, fn func(*owner.Owner)) error
	Ask(ctx context.Context, fn func(*owner.Owner)) error // waits as well
	// Taken is what this process took in; it is called within a question.
	Taken() map[string]uint64
	LongestStep() time.Duration // of the loop
}

// Placer is what the view asks of placing: placing.Placer.
type Placer interface {
	// Coordinate says where a host's server stands, nil if that is not known.
	Coordinate(d *owner.HostDetail, host string, now time.Time) *control.Coordinate
	// Distance is how far a peer is by its coordinate; nil: not known.
	Distance(id peer.ID) (ms, relative *float64)
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
		self: d.Self, start: d.Ring.WalkFrom, report: v.reportOf, patience: d.About.Patience, known: d.Ring.Known,
		roundTrip: d.Ring.Net.RoundTrip,
		met:       func(id peer.ID, addrs []string) { d.Ring.Net.Met(id, binaryAddrs(addrs)) },
	}
	return v
}

// Here is what this peer says of itself, without waiting for a disk or a replica.
func (v *View) Here(ctx context.Context) (*control.Member, error) {
	r, err := v.member(ctx, v.deps.About.Patience, v.deps.Hosts.Look)
	if err != nil {
		return nil, err
	}
	return &r.Member, nil
}

// WaitIdle returns when a job, or every one if none is named, has nothing left that is due within
// the patience; a negative one is that of the peer.
func (v *View) WaitIdle(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error {
	w := v.walker
	if patience >= 0 {
		w.patience = patience
	}
	return w.waitIdle(ctx, job, fn)
}
