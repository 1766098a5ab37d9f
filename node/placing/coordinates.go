package placing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

// ServiceCoordinates is the gossip of network coordinates.
const ServiceCoordinates = "coordinates"

// coordinateMethod tells a neighbour one's own coordinate, and brings back the neighbour's.
var coordinateMethod = rpc.Method[*wire.Coordinate, *wire.Coordinate]{Service: ServiceCoordinates, Within: gossipTimeout}

const (
	// gossipTimeout bounds a question to a neighbour, after which it counts as down.
	gossipTimeout = 5 * time.Second
	// LeastGossip is the shortest time between two questions that a peer can be told to leave.
	LeastGossip = 10 * time.Millisecond
	// A new peer asks youngFaster times as often until each neighbour has answered it youngRounds
	// times, so that placing by coordinates begins in the first minute. The paper's runs take hours
	// and begin warm.
	youngFaster = 10
	youngRounds = 4
	// gossipMin samples of a neighbour are enough here to move by: of two the smaller counts, so
	// that the first, which may have opened a connection, does not.
	gossipMin = 2
)

// gossip keeps this peer's network coordinate and what its neighbours told of theirs (papers 3.2):
// it asks one after another, and answers. Its methods are safe for concurrent use.
type gossip struct {
	self  peer.ID
	every time.Duration // between questions
	log   *slog.Logger
	net   rpc.Caller
	// neighbours are whom it asks; backlog is how many URLs wait here.
	neighbours func() []peer.ID
	backlog    func() int

	mu       sync.Mutex // guards what follows; never held over the network
	state    *coordinates.Gossip
	answered int
}

var _ coordinates.Peers = (*gossip)(nil)

// located is the strategy with the coordinates that it places by.
type located struct {
	*coordinates.Strategy
	gossip *gossip
	theta  float64
}

var _ placement.Observer = (*located)(nil)

// newLocated makes the strategy for a peer.
func newLocated(c *Config, d *Deps) (*located, error) {
	cfg := coordinates.DefaultConfig()
	cfg.Theta = cmp.Or(c.Theta, cfg.Theta)
	var err error
	if cfg.Mode, err = coordinates.ParseMode(cmp.Or(c.CoordinatesMode, cfg.Mode.String())); err != nil {
		return nil, fmt.Errorf("placement coordinates: %w", err)
	}
	every := cmp.Or(c.Gossip, coordinates.DefaultGossipConfig().Every)
	talk := gossipConfig(every)
	if err := talk.Validate(); err != nil {
		return nil, fmt.Errorf("placement coordinates: %w", err)
	}
	seed := rand.Uint64() // no secret
	g := &gossip{
		self: d.Self, every: every, log: d.Log, net: d.Net, neighbours: func() []peer.ID { return near(d.Ring) },
		backlog: func() int { return d.Worker.Backlog() }, state: coordinates.NewGossip(talk, seed),
	}
	s, err := coordinates.New(cfg, g, seed)
	if err != nil {
		return nil, fmt.Errorf("placement coordinates: %w", err)
	}
	return &located{s, g, cfg.Theta}, nil
}

// Observe implements placement.Observer.
func (l *located) Observe(f *placement.Fetch) {
	f.At = within(f.At, time.Now())
	l.Strategy.Observe(f)
}

// within is the time that a worker gives, or now if that cannot be true: a report comes minutes
// after the fetch at most, and a stranger's clock may be wrong by years.
func within(at, now time.Time) time.Time {
	const most = 10 * time.Minute
	if at.After(now) || now.Sub(at) > most {
		return now
	}
	return at
}

func gossipConfig(every time.Duration) coordinates.GossipConfig {
	c := coordinates.DefaultGossipConfig()
	c.Every, c.Timeout, c.Filter.Min, c.PerURL = every/youngFaster, gossipTimeout, gossipMin, coordinates.DefaultConfig().PerURL
	return c
}

// near are the peers that may crawl for this one, or for which it crawls: the leaf set and those
// attached.
func near(r Ring) []peer.ID {
	preds, succs := r.Leaves()
	return idsOf(succs, preds, r.Attached(), r.Attachments())
}

// run asks neighbours until ctx ends.
func (g *gossip) run(ctx context.Context) error {
	for {
		if err := loop.Sleep(ctx, g.ask(ctx)); err != nil {
			return loop.UnlessCanceled(err)
		}
	}
}

// ask asks one neighbour, if there is any, and returns how long to wait until the next.
func (g *gossip) ask(ctx context.Context) time.Duration {
	list := g.neighbours()
	names := make([]string, len(list))
	for i, id := range list {
		names[i] = string(id)
	}
	g.mu.Lock()
	g.state.Meet(names)
	wait := g.every
	if g.answered < youngRounds*len(names) {
		wait /= youngFaster
	}
	to, ok := g.state.Tick(time.Now())
	mine := g.tell()
	g.mu.Unlock()
	if !ok {
		return wait
	}
	// Stamped here, in user space, so that a busy process looks as far away as it is slow.
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
		return wait
	}
	g.answered++
	g.state.Reply(to, rtt, &at)
	return wait
}

// tell is this peer's coordinate, with the height of its backlog. The caller holds mu.
func (g *gossip) tell() *wire.Coordinate {
	g.state.SetBacklog(g.backlog())
	at := g.state.At()
	return wire.NewCoordinate(&at)
}

// service answers neighbours; a peer that keeps no coordinate says so, and is none to place by.
func (g *gossip) service() rpc.Service {
	if g == nil {
		return rpc.Refusing("Coordinate", coordinateCallers, "this peer keeps no coordinate: it places hosts otherwise")
	}
	return coordinateMethod.Handle(coordinateCallers, g.answer)
}

var coordinateCallers = rpc.Anyone("that the caller is a neighbour, or what it says of itself is not kept")

func (g *gossip) answer(_ context.Context, from peer.ID, m *wire.Coordinate) (*wire.Coordinate, error) {
	at, err := m.Place()
	if err != nil {
		return nil, rpc.Refuse("%v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Heard(string(from), &at)
	return g.tell(), nil
}

// Of implements coordinates.Peers: this peer and its neighbours, but not one that has not left the
// origin yet, where everybody begins.
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

// distance is the expected round trip of gossip with a neighbour in ms, by the coordinates, and the
// larger of both errors; nil if one is not known.
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

// Coordinate says where a host's server stands, and who found that; nothing if it is not known
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
		Addr: site.String(), VectorMs: at.Vec[:], HeightMs: at.Height, Error: at.Error, Theta: s.theta, Updates: s.Servers().Updates(site),
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
