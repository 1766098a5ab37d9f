package coordinates

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/apoidea/apoidea/crawl/placement"
)

// ServersConfig is the configuration of the table of servers.
type ServersConfig struct {
	// Most servers are stored; the least recently used one is evicted.
	Most int
	// Filter of the downloads from a server at each estimator.
	Filter FilterConfig
	// HalfLife is the half-life of the confidence in a coordinate: without samples its error grows to
	// 1. 0: never.
	HalfLife time.Duration
	// ReuseError is the minimum initial error of a new server that takes the coordinate of another of
	// its subnet (3.8 d); 0: it begins at the origin.
	ReuseError float64
	// Subnet returns the range within which servers are assumed to be at the same location; nil is
	// [placement.RangeOf].
	Subnet func(netip.Addr) netip.Prefix
}

// maxEstimators bounds the windows of one server, maxFailed the counted failures of an estimator.
const maxEstimators, maxFailed = 128, 256

// DefaultServersConfig stores 4,096 servers, about 10 MB when ten estimators have full windows of
// each. Their windows count from the first sample, since in a live ring each costs a turn of
// another peer.
func DefaultServersConfig() ServersConfig {
	return ServersConfig{Most: 4096, Filter: FilterConfig{Max: LoadFilter.Max, Min: 1, Percentile: LoadFilter.Percentile}, HalfLife: 12 * time.Hour, ReuseError: 0.5}
}

// Servers are the proxy coordinates of web servers, by address (3.3). Each is a separate Vivaldi
// client whose neighbors are the estimators, so servers never move peers. They are retained, and
// adapt with every download (3.8 e).
type Servers struct {
	cfg     ServersConfig
	rnd     *rand.Rand
	byAddr  *simplelru.LRU[netip.Addr, *server]
	subnets map[netip.Prefix]netip.Addr // the most recently moved server of a subnet
}

type server struct {
	vivaldi *Vivaldi
	windows map[string]*window // by estimator
	heard   time.Time
}

// NewServers returns an empty table.
func NewServers(cfg ServersConfig, seed uint64) *Servers {
	if cfg.Subnet == nil {
		cfg.Subnet = placement.RangeOf
	}
	s := &Servers{cfg: cfg, rnd: rand.New(rand.NewPCG(seed, seedServers)), subnets: make(map[netip.Prefix]netip.Addr)}
	s.byAddr, _ = simplelru.NewLRU(max(cfg.Most, 1), s.evicted) // a positive size has no error
	return s
}

// Observe adds the duration of a page's download at an estimator with a coordinate. It reports
// whether the server's coordinate was moved: not while the estimator's window is short.
func (s *Servers) Observe(now time.Time, addr netip.Addr, estimator string, at *Coordinate, took time.Duration) bool {
	v := s.find(now, addr, true)
	w := v.window(estimator)
	v.vivaldi.at.Error = s.aged(v, now)
	v.heard = now
	usual, ok := w.add(&s.cfg.Filter, clamp(took))
	if !ok {
		return false
	}
	v.vivaldi.Update(at, usual)
	s.subnets[s.cfg.Subnet(addr)] = addr
	return true
}

// At returns the coordinate of a server, its error grown by age; false if it is unknown. A new
// server of a known subnet has that coordinate.
func (s *Servers) At(now time.Time, addr netip.Addr) (Coordinate, bool) {
	v := s.find(now, addr, false)
	if v == nil || v.vivaldi.updates == 0 {
		return s.beside(now, addr)
	}
	c := v.vivaldi.at
	c.Error = s.aged(v, now)
	return c, true
}

// Updates returns the number of samples that moved a server's coordinate.
func (s *Servers) Updates(addr netip.Addr) int {
	if v, ok := s.byAddr.Peek(addr); ok {
		return v.vivaldi.updates
	}
	return 0
}

// Sampled returns the number of samples in an estimator's window of a server.
func (s *Servers) Sampled(addr netip.Addr, estimator string) int {
	if w := s.windowAt(addr, estimator); w != nil {
		return len(w.arrived)
	}
	return 0
}

// turns returns the recent downloads of an estimator from a server: the samples in its window, and
// the failures.
func (s *Servers) turns(addr netip.Addr, estimator string) int {
	if w := s.windowAt(addr, estimator); w != nil {
		return len(w.arrived) + w.failed
	}
	return 0
}

// usual returns the typical duration of downloads at an estimator by its window, in ms; false if
// there is none.
func (s *Servers) usual(addr netip.Addr, estimator string) (float64, bool) {
	if w := s.windowAt(addr, estimator); w != nil {
		return w.value(&s.cfg.Filter)
	}
	return 0, false
}

// missed records that a download failed at an estimator: its turn is over, so that one without
// access does not get all turns. Nothing is recorded for a server that no estimator has reached;
// turns are drawn there.
func (s *Servers) missed(now time.Time, addr netip.Addr, estimator string) {
	if v := s.find(now, addr, false); v != nil {
		w := v.window(estimator)
		w.failed = min(w.failed+1, maxFailed)
	}
}

// windowAt returns an estimator's window of a server, nil if there is none.
func (s *Servers) windowAt(addr netip.Addr, estimator string) *window {
	if v, ok := s.byAddr.Peek(addr); ok {
		return v.windows[estimator]
	}
	return nil
}

func (s *Servers) evicted(addr netip.Addr, _ *server) {
	if sub := s.cfg.Subnet(addr); s.subnets[sub] == addr {
		delete(s.subnets, sub)
	}
}

// aged returns the error of a server, which grows to 1 since its last sample.
func (s *Servers) aged(v *server, now time.Time) float64 {
	e := v.vivaldi.at.Error
	age := now.Sub(v.heard)
	if s.cfg.HalfLife == 0 || age <= 0 || e >= 1 {
		return e
	}
	return 1 - (1-e)*math.Exp2(-age.Seconds()/s.cfg.HalfLife.Seconds())
}

// beside returns the coordinate of another server of the subnet.
func (s *Servers) beside(now time.Time, addr netip.Addr) (Coordinate, bool) {
	if s.cfg.ReuseError == 0 {
		return Coordinate{}, false
	}
	other, ok := s.subnets[s.cfg.Subnet(addr)]
	if !ok {
		return Coordinate{}, false
	}
	v, _ := s.byAddr.Peek(other) // an evicted server is removed from subnets
	c := v.vivaldi.at
	c.Error = max(s.aged(v, now), s.cfg.ReuseError)
	return c, true
}

func (s *Servers) find(now time.Time, addr netip.Addr, create bool) *server {
	v, ok := s.byAddr.Get(addr)
	if ok || !create {
		return v
	}
	v = &server{vivaldi: NewVivaldi(s.rnd), windows: make(map[string]*window), heard: now}
	if c, ok := s.beside(now, addr); ok {
		v.vivaldi.at = c
	}
	s.byAddr.Add(addr, v)
	return v
}

// window returns an estimator's window, and evicts the oldest one if necessary.
func (v *server) window(estimator string) *window {
	if w := v.windows[estimator]; w != nil {
		v.turn(w)
		return w
	}
	if len(v.windows) >= maxEstimators {
		oldest := ""
		for id, w := range v.windows {
			if oldest == "" || w.turn < v.windows[oldest].turn || w.turn == v.windows[oldest].turn && id < oldest {
				oldest = id
			}
		}
		delete(v.windows, oldest)
	}
	w := new(window)
	v.windows[estimator] = w
	v.turn(w)
	return w
}

func (v *server) turn(w *window) { w.turn = v.vivaldi.updates + 1 }
