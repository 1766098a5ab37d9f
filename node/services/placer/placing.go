// Package placer chooses the worker of each host that this peer owns, by the configured strategy
// (crawl/placement and the packages below it), and measures sites for the owners of other hosts.
//
// The candidates of a [Placer] are this peer, its leaf set and the workers attached to it, and for
// the strategy adaptive also peers beyond that are likely to be nearer. Strategies choose the
// candidates to probe, and the Placer probes within limits: a site gets one probe from each peer in
// half a minute, and a request only where robots.txt is known and allows it. The ring state of
// strategies is here as well: subnets are delegated by records on the ring (package
// node/services/subnets), neighbors exchange network coordinates or placement samples.
//
// Invariants: no lock is held during network calls; a search ends, however the candidates answer;
// the state of untrusted peers is bounded.
package placer

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/geoip"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// Config is the operator's configuration.
type Config struct {
	// Strategy is one of [Names].
	Strategy string
	// Probe is the method to measure a site: [ProbeConnect] or [ProbeHead].
	Probe string
	// GeoIP is a database of positions or countries, Hierarchy a file of networks with their
	// organizations; empty: none.
	GeoIP, Hierarchy string
	// Delay is the minimum delay between requests to a host: measuring requests comply with it.
	Delay time.Duration
}

// Ring is the interface to the ring: dht.DHT.
type Ring interface {
	// Leaves returns the leaf set, each side nearest first.
	Leaves() (preds, succs []dht.Peer)
	// Members returns all known ring peers, including the leaf set.
	Members() []dht.Peer
	// Candidates returns attached workers for a key, Attached all of them; Attachments returns the
	// peers to which this peer is attached.
	Candidates(key ring.Key) []dht.Peer
	Attached() []dht.Peer    // lists all attached workers
	Attachments() []dht.Peer // lists peers to which this peer is attached
	// Suspect reports whether a peer does not answer at present.
	Suspect(id peer.ID) bool
}

// Worker is the interface to this peer's worker.
type Worker interface {
	// Backlog returns the number of waiting URLs, Capacity the worker's maximum.
	Backlog() int
	Capacity() int // maximum of URLs
	// Visit waits until a request to an address is permitted in addition to the worker's, and counts
	// it there; leave ends it.
	Visit(ctx context.Context, addr netip.Addr) (leave func(), err error)
}

// Deps are the dependencies of a Placer.
type Deps struct {
	// Self is this peer, Incarnation that of its process.
	Self        peer.ID
	Incarnation uint64 // of the process
	// Now is the lease clock.
	Now    func() time.Time
	Ring   Ring   // peers of the ring
	Worker Worker // this peer's own
	Sites  Sites  // measures sites
	// Records are those of subnets, on the ring.
	Records Records
	// Net calls peers, including attached workers.
	Net rpc.Caller
	// Addrs returns the multiaddrs of a peer, including this one. Where returns this peer's public
	// address; the zero value: unknown.
	Addrs func(id peer.ID) []string
	// Origin returns the network that a peer is connected from; empty if unknown, as in a private one.
	Origin func(id peer.ID) string
	Where  func() netip.Addr // this peer's public address
	// Paused reports whether this peer has paused fetching.
	Paused func() bool
	// OptedOut returns the reason why a host must not be measured; empty: it may be.
	OptedOut func(host string) string
	// Robots returns the recorded robots.txt state of an own host; the zero State: none.
	Robots func(ctx context.Context, host, scheme string) robots.State
	Log    *slog.Logger // reports unavailable data
}

// strategies maps the name of each strategy to its setup in a placer: its machine, and its ring
// state. A further one that only chooses needs a line with plain here; see CONTRIBUTING.md for its
// other parts.
var strategies = map[string]func(pl *Placer) error{
	"adaptive":    (*Placer).adapt,
	"coordinates": (*Placer).byCoordinates,
	"geo":         (*Placer).byCountry,
	"ipmicra":     (*Placer).delegate,
	"owner":       plain(placement.Owner{}),
	"random":      plain(placement.Random{}),
	"rtt":         plain(placement.RTT{}),
}

// Names returns the names of the strategies.
func Names() []string { return slices.Sorted(maps.Keys(strategies)) }

// plain sets up a strategy that needs only the measurements of candidates.
func plain(s placement.Strategy) func(pl *Placer) error {
	return func(pl *Placer) error {
		pl.strategy = s
		return nil
	}
}

// setUp sets up the configured strategy.
func (pl *Placer) setUp() error {
	set, ok := strategies[pl.cfg.Strategy]
	if !ok {
		return fmt.Errorf("placement %q: want one of %s", pl.cfg.Strategy, strings.Join(Names(), ", "))
	}
	return set(pl)
}

// byCountry places by the positions of addresses.
func (pl *Placer) byCountry() error {
	geo := new(placement.Geo)
	pl.strategy = geo
	if pl.cfg.GeoIP == "" {
		return nil
	}
	var err error
	geo.Locator, err = geoip.Open(pl.cfg.GeoIP)
	return err
}

// adapt places by the strategy adaptive, whose samples neighbors exchange.
func (pl *Placer) adapt() error {
	seed := fnv.New64a()
	seed.Write([]byte(pl.deps.Self)) // so that peers do not explore the same sites
	s := adaptive.New(seed.Sum64())
	pl.strategy, pl.samples = s, newSampleGossip(s, &pl.mu, &pl.deps)
	return nil
}

// byCoordinates places by network coordinates, which neighbors exchange.
func (pl *Placer) byCoordinates() error {
	s := newLocated(&pl.deps)
	pl.strategy, pl.gossip = s, s.gossip
	return nil
}

// delegate places by records of subnets on the ring.
func (pl *Placer) delegate() error {
	tree, err := loadTree(pl.cfg.Hierarchy)
	if err != nil {
		return err
	}
	pl.delegations = newDelegations(tree, string(pl.deps.Self), pl.deps.Records, pl.deps.Log)
	return nil
}
