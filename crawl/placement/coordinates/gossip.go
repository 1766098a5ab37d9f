package coordinates

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// GossipConfig are the knobs of peer coordinates.
type GossipConfig struct {
	// Every so often one neighbour is asked (3.2: 10 s).
	Every time.Duration
	// Timeout of a question, after which it counts as failed.
	Timeout time.Duration
	// Down is the probability that a neighbour that failed is asked, so that it is found again; the
	// paper names no value.
	Down float64
	// Filter of the round trips of each neighbour.
	Filter FilterConfig
	// PerURL is what each waiting URL adds to the height that is shown, in ms; 0 turns it off (3.8
	// b).
	PerURL float64
	// MaxNeighbours bounds how many are kept.
	MaxNeighbours int
}

// DefaultGossipConfig is the paper's, and 64 neighbours.
func DefaultGossipConfig() GossipConfig {
	return GossipConfig{Every: 10 * time.Second, Timeout: 10 * time.Second, Down: 0.05, Filter: LoadFilter, MaxNeighbours: 64}
}

// Validate names the field that makes no sense.
func (c *GossipConfig) Validate() error {
	switch {
	case c.Every <= 0:
		return fmt.Errorf("gossip: Every %v, want more than 0", c.Every)
	case c.Timeout <= 0:
		return fmt.Errorf("gossip: Timeout %v, want more than 0", c.Timeout)
	case !(c.Down >= 0 && c.Down < 1):
		return fmt.Errorf("gossip: Down %v, want 0 to 1", c.Down)
	case !(c.PerURL >= 0 && c.PerURL <= MaxMillis):
		return fmt.Errorf("gossip: PerURL %v, want 0 to %d ms", c.PerURL, MaxMillis)
	case c.MaxNeighbours < 1:
		return fmt.Errorf("gossip: MaxNeighbours %d, want 1 or more", c.MaxNeighbours)
	}
	return c.Filter.Validate()
}

// Gossip keeps the coordinate of a peer and what its neighbours told of theirs (3.2). It is asked
// by [Gossip.Tick] whom to send a message to; the round trip of the message, stamped by the program
// and not by the kernel, so that a busy process looks far away, comes back by [Gossip.Reply].
type Gossip struct {
	cfg        GossipConfig
	rnd        *rand.Rand
	vivaldi    *Vivaldi
	neighbours map[string]*neighbour
	up, down   []string // in ascending order, so that the same seed picks the same
	next       time.Time
	asked      map[string]time.Time
	backlog    int
}

type neighbour struct {
	at     Coordinate
	known  bool // at is what it told
	filter filter
}

// NewGossip returns the coordinate of a peer without neighbours. The configuration must be valid.
func NewGossip(cfg GossipConfig, seed uint64) *Gossip {
	rnd := rand.New(rand.NewPCG(seed, seedGossip))
	return &Gossip{cfg: cfg, rnd: rnd, vivaldi: NewVivaldi(rnd), neighbours: make(map[string]*neighbour), asked: make(map[string]time.Time)}
}

// Seeds are told apart by a word each, so that parts of one peer do not draw the same.
const (
	seedGossip uint64 = iota + 1
	seedServers
	seedCycle
	seedStrategy
)

// Meet says who the neighbours are: new ones begin as up, those not named are forgotten. Beyond the
// bound the first count.
func (g *Gossip) Meet(peers []string) {
	peers = peers[:min(len(peers), g.cfg.MaxNeighbours)]
	for id := range g.neighbours {
		if !slices.Contains(peers, id) {
			delete(g.neighbours, id)
			delete(g.asked, id)
			g.up, g.down = without(g.up, id), without(g.down, id)
		}
	}
	for _, id := range peers {
		if g.neighbours[id] == nil {
			g.neighbours[id] = new(neighbour)
			g.up = with(g.up, id)
		}
	}
}

// Tick says whom to send a message now, false if nobody. Questions that were not answered in time
// count as failed.
func (g *Gossip) Tick(now time.Time) (string, bool) {
	var late []string
	for id, at := range g.asked {
		if now.Sub(at) >= g.cfg.Timeout {
			late = append(late, id)
		}
	}
	for _, id := range late {
		g.Failed(id)
	}
	if now.Before(g.next) || len(g.neighbours) == 0 {
		return "", false
	}
	g.next = now.Add(g.cfg.Every)
	from := g.up
	if len(g.up) == 0 || len(g.down) > 0 && g.rnd.Float64() < g.cfg.Down {
		from = g.down
	}
	id := from[g.rnd.IntN(len(from))]
	g.asked[id] = now
	return id, true
}

// Reply is a neighbour's answer: its coordinate, and the round trip of the message. One of a
// stranger is ignored.
func (g *Gossip) Reply(id string, rtt time.Duration, at *Coordinate) {
	n := g.neighbours[id]
	if n == nil {
		return
	}
	delete(g.asked, id)
	g.down, g.up = without(g.down, id), with(g.up, id)
	n.at, n.known = *at, true
	if ms, ok := n.filter.add(&g.cfg.Filter, g.vivaldi.clamp(rtt)); ok {
		g.vivaldi.Update(at, ms)
	}
}

// Failed says that a message to a neighbour failed.
func (g *Gossip) Failed(id string) {
	delete(g.asked, id)
	if g.neighbours[id] != nil {
		g.up, g.down = without(g.up, id), with(g.down, id)
	}
}

// Heard notes a neighbour's coordinate that came with another message, such as an estimator's
// report.
func (g *Gossip) Heard(id string, at *Coordinate) {
	if n := g.neighbours[id]; n != nil {
		n.at, n.known = *at, true
	}
}

// SetBacklog tells how many URLs wait here; they show as height.
func (g *Gossip) SetBacklog(urls int) { g.backlog = urls }

// At is the peer's own coordinate, as it is shown to others.
func (g *Gossip) At() Coordinate {
	c := g.vivaldi.At()
	c.Queue = min(float64(g.backlog)*g.cfg.PerURL, MaxMillis)
	return c
}

// Of returns a neighbour's coordinate as it told last, false if it told none or is down.
func (g *Gossip) Of(id string) (Coordinate, bool) {
	n := g.neighbours[id]
	if n == nil || !n.known || slices.Contains(g.down, id) {
		return Coordinate{}, false
	}
	return n.at, true
}

// Up lists the neighbours that answered last time or were not asked yet.
func (g *Gossip) Up() []string { return slices.Clone(g.up) }

// Clamped counts round trips that were brought into bounds.
func (g *Gossip) Clamped() int { return g.vivaldi.Clamped() }

// with and without keep a sorted list of distinct names.
func with(list []string, id string) []string {
	at, ok := slices.BinarySearch(list, id)
	if ok {
		return list
	}
	return slices.Insert(list, at, id)
}

func without(list []string, id string) []string {
	if at, ok := slices.BinarySearch(list, id); ok {
		return slices.Delete(list, at, at+1)
	}
	return list
}
