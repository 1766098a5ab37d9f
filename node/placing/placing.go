// Package placing chooses which worker crawls a host, for the hosts that this peer owns, by the
// strategy that its operator named (crawl/placement and the packages below it), and measures sites
// for the owners of other hosts.
//
// A [Placer] asks this peer, its leaf set and the workers attached to it, and by the strategy
// adaptive also peers beyond that are likely to be nearer; strategies say whom to ask, and the
// Placer asks, within bounds: a site sees one probe by each peer in half a minute, whoever asks,
// and a request only where robots.txt is known and allows it. What a strategy needs of the ring is
// here as well: subnets are delegated by records on it (package node/subnets), neighbours tell each
// other their network coordinates, or samples of what placing came to.
//
// It promises: no lock is held over the network; a search ends, however the candidates answer; what
// is remembered of strangers is bounded.
package placing

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/rpc"
)

// Config is what an operator chooses.
type Config struct {
	// Strategy is one of [Names].
	Strategy string
	// Probe is how candidates measure the way to a site: [ProbeConnect] or [ProbeHead].
	Probe string
	// GeoIP is a database of positions or countries, Hierarchy a file of networks with their
	// organisations; empty: there is none.
	GeoIP, Hierarchy string
	// Theta is the relative error under which a server's network coordinate is good enough to place
	// by, CoordinatesMode how long placing by them goes on, Gossip how often a neighbour is asked
	// for its own. Zero: as in the papers.
	Theta           float64
	CoordinatesMode string        // as coordinates.Mode has it
	Gossip          time.Duration // pause between two questions
	// Threshold is the largest round trip to a site that ends the search for the worker of a
	// subnet.
	Threshold time.Duration
	// Delay is the least gap between requests to a host, Agent how robots.txt names this crawler:
	// requests that measure keep to both.
	Delay time.Duration
	Agent string // product token
}

// CheckFiles reads the files that are named.
func (c *Config) CheckFiles() error {
	_, err := newAtlas(c)
	return err
}

// Ring is what placing asks of the ring: dht.DHT.
type Ring interface {
	// Leaves is the leaf set, each side nearest first.
	Leaves() (preds, succs []dht.Peer)
	// Members are all ring peers that are known, these among them.
	Members() []dht.Peer
	// Candidates are attached workers for a key, Attached all of them; Attachments are those to
	// whom this peer is attached.
	Candidates(key ring.Key) []dht.Peer
	Attached() []dht.Peer    // lists all attached workers
	Attachments() []dht.Peer // lists those to whom this peer is attached
	// Suspect says that a peer does not answer at present.
	Suspect(id peer.ID) bool
}

// Worker is what placing asks of this peer's worker.
type Worker interface {
	// Backlog is how many URLs wait here, Capacity how many the worker takes.
	Backlog() int
	Capacity() int // how many URLs the worker takes
	// Visit waits until a request may be made to an address beside the worker's, and counts it
	// there; leave ends it.
	Visit(ctx context.Context, addr netip.Addr) (leave func(), err error)
}

// Deps is what placing uses of the peer.
type Deps struct {
	// Self is this peer, Incarnation that of its process.
	Self        peer.ID
	Incarnation uint64 // of the process
	// Now is the lease clock.
	Now    func() time.Time
	Ring   Ring   // who is near
	Worker Worker // this peer's own
	Sites  Sites  // measures sites
	// Records are those of subnets, on the ring.
	Records Records
	// Net calls peers, also those that are attached as workers.
	Net rpc.Caller
	// Addrs are the multiaddrs of a peer, of this one too. Where is this peer's address among
	// sites; the zero value: it is not known.
	Addrs func(id peer.ID) []string
	Where func() netip.Addr // this peer's address among sites
	// Paused says that this peer fetches nothing at present.
	Paused func() bool
	// OptedOut says why a host is not to be asked; empty: it may be.
	OptedOut func(host string) string
	// Robots is what the record of an own host keeps of its robots.txt; nil: nothing.
	Robots func(ctx context.Context, host, scheme string) []byte
	// Spawn runs something beside what calls it, until the peer ends.
	Spawn func(fn func(ctx context.Context))
	Log   *slog.Logger // hears what could not be had
}
