package placer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// ServiceCoordinates is the gossip of network coordinates.
const ServiceCoordinates = "coordinates"

// coordinateMethod sends this peer's coordinate to a neighbor, and returns the neighbor's.
var coordinateMethod = rpc.Method[*wire.Coordinate, *wire.Coordinate]{Service: ServiceCoordinates, Within: gossipTimeout}

const (
	// gossipTimeout bounds a request to a neighbor, after which it counts as down.
	gossipTimeout = 5 * time.Second
	// gossipEvery is the interval of requests. That of the paper (3.2: 10 s) would delay placing by
	// coordinates for minutes; its runs take hours and begin with known coordinates.
	gossipEvery = time.Second
	// gossipMin is the number of a neighbor's samples needed for a move: the smaller of two is used,
	// so that the first, which may have opened a connection, is not.
	gossipMin = 2
)

// gossip maintains the network coordinates of this peer and of its neighbors (papers 3.2) by
// requests to one after another. Its methods are safe for concurrent use.
type gossip struct {
	self peer.ID
	log  *slog.Logger
	net  rpc.Caller
	// neighbours returns the gossip peers; backlog is the number of URLs waiting here.
	neighbours func() []peer.ID
	backlog    func() int

	mu    sync.Mutex // guards what follows; never held during network calls
	state *coordinates.Gossip
}

var _ coordinates.Peers = (*gossip)(nil)

// located is the strategy with its coordinates.
type located struct {
	*coordinates.Strategy
	gossip *gossip
}

var _ placement.Observer = (*located)(nil)

// newLocated returns the strategy for a peer.
func newLocated(d *Deps) *located {
	seed := rand.Uint64() // not secret
	g := &gossip{
		self: d.Self, log: d.Log, net: d.Net, neighbours: func() []peer.ID { return near(d.Ring) },
		backlog: func() int { return d.Worker.Backlog() }, state: coordinates.NewGossip(gossipConfig(), seed),
	}
	return &located{coordinates.New(coordinates.DefaultConfig(), g, seed), g}
}

// Observe implements placement.Observer.
func (l *located) Observe(f *placement.Fetch) {
	f.At = within(f.At, time.Now())
	l.Strategy.Observe(f)
}

// within returns the time given by a worker, or now if that is implausible: a report arrives within
// minutes of the fetch, and an untrusted clock may be wrong by years.
func within(at, now time.Time) time.Time {
	const most = 10 * time.Minute
	if at.After(now) || now.Sub(at) > most {
		return now
	}
	return at
}

func gossipConfig() coordinates.GossipConfig {
	c := coordinates.DefaultGossipConfig()
	c.Every, c.Timeout, c.Filter.Min, c.PerURL = gossipEvery, gossipTimeout, gossipMin, coordinates.DefaultConfig().PerURL
	return c
}

// near returns the peers that may crawl for this one, or for which it crawls: the leaf set and
// attached peers.
func near(r Ring) []peer.ID {
	preds, succs := r.Leaves()
	return member.IDs(succs, preds, r.Attached(), r.Attachments())
}

// run sends requests to neighbors until ctx ends.
func (g *gossip) run(ctx context.Context) error {
	for {
		g.ask(ctx)
		if err := loop.Sleep(ctx, gossipEvery); err != nil {
			return loop.UnlessCanceled(err)
		}
	}
}

// ask sends a request to one neighbor, if any.
func (g *gossip) ask(ctx context.Context) {
	list := g.neighbours()
	names := make([]string, len(list))
	for i, id := range list {
		names[i] = string(id)
	}
	g.mu.Lock()
	g.state.Meet(names)
	to, ok := g.state.Tick(time.Now())
	mine := g.own()
	g.mu.Unlock()
	if !ok {
		return
	}
	// Measured in user space, so that load of this process is part of the distance.
	begun := time.Now()
	m, err := coordinateMethod.Call(ctx, g.net, peer.ID(to), mine)
	rtt := time.Since(begun)
	var at coordinates.Coordinate
	if err == nil {
		at, err = m.Place()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.state.Failed(to)
		g.log.Debug("no coordinate", "peer", peer.ID(to), "err", err)
		return
	}
	g.state.Reply(to, rtt, &at)
}

// own returns this peer's coordinate, with the height of its backlog. The caller holds mu.
func (g *gossip) own() *wire.Coordinate {
	g.state.SetBacklog(g.backlog())
	at := g.state.At()
	return wire.NewCoordinate(&at)
}

// service replies to neighbors; a peer without a coordinate rejects the request.
func (g *gossip) service() rpc.Service {
	if g == nil {
		return rpc.Refusing("Coordinate", coordinateCallers, "no coordinate: this peer uses another placement strategy")
	}
	return coordinateMethod.Handle(coordinateCallers, g.answer)
}

var coordinateCallers = rpc.Anyone("the coordinate is stored only if the caller is a neighbor")

func (g *gossip) answer(_ context.Context, from peer.ID, m *wire.Coordinate) (*wire.Coordinate, error) {
	at, err := m.Place()
	if err != nil {
		return nil, rpc.Refuse("%v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Heard(string(from), &at)
	return g.own(), nil
}

// Of implements coordinates.Peers: this peer and its neighbors, except those that are still at the
// origin, where all begin.
func (g *gossip) Of(id string) (coordinates.Coordinate, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var at coordinates.Coordinate
	ok := id == string(g.self)
	if ok {
		at = g.state.At()
	} else {
		at, ok = g.state.Of(id)
	}
	return at, ok && at.Vec != [coordinates.Dimensions]float64{}
}

// distance returns the expected round trip of gossip with a neighbor in ms, by the coordinates, and
// the larger of both errors; nil if one is unknown.
func (g *gossip) distance(id peer.ID) (ms, relative *float64) {
	if g == nil {
		return nil, nil
	}
	self, ok := g.Of(string(g.self))
	other, known := g.Of(string(id))
	if !ok || !known {
		return nil, nil
	}
	d, e := self.Distance(&other), max(self.Error, other.Error)
	return &d, &e
}

// Coordinate returns the coordinate of a host's server and the peer that found it; nil if unknown
// here.
func (pl *Placer) Coordinate(d *owner.HostDetail, host string, now time.Time) *control.Coordinate {
	if len(d.Addrs) == 0 {
		return nil
	}
	site, ok := netip.AddrFromSlice(d.Addrs[0])
	if !ok {
		return nil
	}
	who := pl.candidates(ring.HostKey(host), nil)
	pl.mu.Lock()
	defer pl.mu.Unlock()
	s, ok := pl.strategy.(*located)
	if !ok {
		return nil
	}
	site = site.Unmap()
	at, ok := s.Servers().At(now, site)
	if !ok {
		return nil
	}
	c := &control.Coordinate{
		Addr: site.String(), VectorMs: at.Vec[:], HeightMs: at.Height, Error: at.Error, Theta: coordinates.DefaultConfig().Theta, Updates: s.Servers().Updates(site),
	}
	for i := range who {
		id := peer.ID(who[i].Peer)
		took, _, known := s.Expected(now, site, who[i].Peer)
		samples := s.Servers().Sampled(site, who[i].Peer)
		if known || samples > 0 {
			c.Estimators = append(c.Estimators, control.Estimator{
				Peer: id.String(), Samples: samples, ExpectedMs: float64(took.Microseconds()) / 1000, Chosen: who[i].Peer == d.Placed,
			})
		}
	}
	return c
}
