package coordinates

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// GossipConfig is the configuration of peer coordinates.
type GossipConfig struct {
	// Every is the interval of requests to a neighbor (3.2: 10 s).
	Every time.Duration
	// Timeout of a request, after which it counts as failed.
	Timeout time.Duration
	// Down is the probability that a failed neighbor is probed, so that its return is detected; the
	// paper has no value.
	Down float64
	// Filter of the round trips of each neighbor.
	Filter FilterConfig
	// PerURL is the addition of each waiting URL to the published height, in ms; 0 disables it (3.8
	// b).
	PerURL float64
	// MaxNeighbours bounds the stored neighbors.
	MaxNeighbours int
}

// DefaultGossipConfig returns the paper's configuration, with 64 neighbors.
func DefaultGossipConfig() GossipConfig {
	return GossipConfig{Every: 10 * time.Second, Timeout: 10 * time.Second, Down: 0.05, Filter: LoadFilter, MaxNeighbours: 64}
}

// Gossip maintains the coordinate of a peer and the last reported ones of its neighbors (3.2).
// [Gossip.Tick] returns the next neighbor to contact; [Gossip.Reply] takes the round trip of the
// message, measured by the program and not by the kernel, so that a busy process appears far away.
type Gossip struct {
	cfg        GossipConfig
	rnd        *rand.Rand
	vivaldi    *Vivaldi
	neighbours map[string]*neighbour
	up, down   []string // in ascending order, so that selection is deterministic
	next       time.Time
	asked      map[string]time.Time
	backlog    int
}

type neighbour struct {
	at     Coordinate
	known  bool // at was reported
	filter filter
}

// NewGossip returns the coordinate of a peer without neighbors.
func NewGossip(cfg GossipConfig, seed uint64) *Gossip {
	rnd := rand.New(rand.NewPCG(seed, seedGossip))
	return &Gossip{cfg: cfg, rnd: rnd, vivaldi: NewVivaldi(rnd), neighbours: make(map[string]*neighbour), asked: make(map[string]time.Time)}
}

// Seeds differ by a word each, so that the parts of one peer do not draw the same numbers.
const (
	seedGossip   = 1
	seedServers  = 2
	seedStrategy = 4 // 3 is that of the cycle in the experiments
)

// Meet sets the neighbors: new ones begin as up, missing ones are removed. Beyond the limit the
// first count.
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

// Tick returns the neighbor to contact now, false if none. Unanswered requests count as failed
// after the timeout.
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

// Reply processes a neighbor's answer: its coordinate, and the round trip of the message. It
// ignores unknown peers.
func (g *Gossip) Reply(id string, rtt time.Duration, at *Coordinate) {
	n := g.neighbours[id]
	if n == nil {
		return
	}
	delete(g.asked, id)
	g.down, g.up = without(g.down, id), with(g.up, id)
	n.at, n.known = *at, true
	if ms, ok := n.filter.add(&g.cfg.Filter, clamp(rtt)); ok {
		g.vivaldi.Update(at, ms)
	}
}

// Failed records that a message to a neighbor failed.
func (g *Gossip) Failed(id string) {
	delete(g.asked, id)
	if g.neighbours[id] != nil {
		g.up, g.down = without(g.up, id), with(g.down, id)
	}
}

// Heard stores a neighbor's coordinate that arrived with another message, such as an estimator's
// report.
func (g *Gossip) Heard(id string, at *Coordinate) {
	if n := g.neighbours[id]; n != nil {
		n.at, n.known = *at, true
	}
}

// SetBacklog sets the number of waiting URLs, which increases the height.
func (g *Gossip) SetBacklog(urls int) { g.backlog = urls }

// At returns the peer's own coordinate, as published.
func (g *Gossip) At() Coordinate {
	c := g.vivaldi.At()
	c.Queue = min(float64(g.backlog)*g.cfg.PerURL, MaxMillis)
	return c
}

// Of returns a neighbor's last reported coordinate, false if there is none or it is down.
func (g *Gossip) Of(id string) (Coordinate, bool) {
	n := g.neighbours[id]
	if n == nil || !n.known || slices.Contains(g.down, id) {
		return Coordinate{}, false
	}
	return n.at, true
}

// Up returns the neighbors that answered the last request or have had none yet.
func (g *Gossip) Up() []string { return slices.Clone(g.up) }

// with and without maintain a sorted list of distinct names.
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

// A server that moves away from every estimator at once is overloaded itself: no peer is nearer,
// and its delay should be increased (3.8 a).
const (
	// paceQuorum is the number of estimators that must have a history of a server before it is judged,
	// and paceShare the share of them that must find it slower.
	paceQuorum = 3
	paceShare  = 2.0 / 3
	// paceHistory is the number of samples that make a history.
	paceHistory = 4
	// paceFactor is how much slower than usual the last download must have been to count: noise stays
	// below.
	paceFactor = 2
	// maxPace bounds the increase of a server's delay.
	maxPace = 16
)

// window has one estimator's samples of a server.
type window struct {
	filter
	last float64 // the latest sample, ms
	was  float64 // value of the window before it
	turn int     // the server's updates when it was last used
	// failed counts failed downloads
	failed int
}

func (w *window) add(cfg *FilterConfig, ms float64) (float64, bool) {
	if len(w.ordered) > 0 {
		w.was = float64(w.ordered[len(w.ordered)/2])
	}
	w.last = ms
	return w.filter.add(cfg, ms)
}

// slower returns the ratio of the latest download to the usual duration, 0 without a history.
func (w *window) slower() float64 {
	if len(w.arrived) < paceHistory || w.was <= 0 {
		return 0
	}
	return w.last / w.was
}

// Pace returns the factor by which a server's delay should be increased: 1 if it is as fast as
// ever. It is slow when at least two thirds of the estimators that have a history find it at least
// twice as slow as before, and the most recent one is among them. Then it is the median of their
// ratios, at most 16.
func (s *Servers) Pace(addr netip.Addr) float64 {
	v, ok := s.byAddr.Peek(addr)
	if !ok {
		return 1
	}
	var ratios []float64
	slower := 0
	newest, now := 0, 0.0
	for _, w := range v.windows {
		ratio := w.slower()
		if ratio == 0 {
			continue
		}
		ratios = append(ratios, ratio)
		if ratio >= paceFactor {
			slower++
		}
		if w.turn > newest || w.turn == newest && ratio < now { // the smaller of two at one time, independent of order
			newest, now = w.turn, ratio
		}
	}
	if len(ratios) < paceQuorum || now < paceFactor || float64(slower) < paceShare*float64(len(ratios)) {
		return 1
	}
	slices.Sort(ratios)
	return min(ratios[len(ratios)/2], maxPace)
}

// unsure reports whether this estimator should measure next, to distinguish a slow server from a
// slow path: it has a history and did not find the server slow, and another one has since.
func (s *Servers) unsure(addr netip.Addr, estimator string) bool {
	v, ok := s.byAddr.Peek(addr)
	if !ok {
		return false
	}
	w := v.windows[estimator]
	if w == nil || w.slower() == 0 || w.slower() >= paceFactor {
		return false
	}
	for id, other := range v.windows {
		if id != estimator && other.slower() >= paceFactor && other.turn > w.turn {
			return true
		}
	}
	return false
}
