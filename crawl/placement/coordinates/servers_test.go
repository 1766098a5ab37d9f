package coordinates

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// place is a peer with its coordinate.
type place struct {
	Peer string
	At   Coordinate
}

// estimators are peers at the corners of a square.
func estimators() []place {
	at := func(x, y float64) Coordinate {
		return Coordinate{Vec: [Dimensions]float64{x, y}, Height: 5, Error: 0.1}
	}
	return []place{{"a", at(0, 0)}, {"b", at(200, 0)}, {"c", at(0, 200)}, {"d", at(200, 200)}}
}

// nearest returns the peer with the lowest cost.
func nearest(to *Coordinate, peers []place) string {
	return slices.MinFunc(peers, func(a, b place) int { return cmp.Compare(to.Cost(&a.At), to.Cost(&b.At)) }).Peer
}

var site = netip.MustParseAddr("192.0.2.7")

func hostAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i), 1}) }

// teach lets estimators download from a server in turn.
func teach(s *Servers, now time.Time, addr netip.Addr, truth *Coordinate, rounds int) {
	for range rounds {
		for _, e := range estimators() {
			s.Observe(now, addr, e.Peer, &e.At, time.Duration(truth.Distance(&e.At)*float64(time.Millisecond)))
		}
	}
}

func TestServersFindTheNearestEstimator(t *testing.T) {
	s := NewServers(DefaultServersConfig(), 1)
	teach(s, start, site, &Coordinate{Vec: [Dimensions]float64{180, 30}, Height: 100}, 20)
	at, ok := s.At(start, site)
	if !ok || at.Error > 0.15 {
		t.Fatalf("%+v, %v after 80 downloads", at, ok)
	}
	if got := nearest(&at, estimators()); got != "b" {
		t.Errorf("nearest is %s, want b", got)
	}
	if s.Updates(site) != 80 || s.Sampled(site, "a") != 20 || s.Sampled(site, "x") != 0 {
		t.Errorf("%d updates, %d samples of a", s.Updates(site), s.Sampled(site, "a"))
	}
}

func TestServersAge(t *testing.T) {
	cfg := DefaultServersConfig()
	cfg.HalfLife = time.Hour
	s := NewServers(cfg, 1)
	teach(s, start, site, &Coordinate{Vec: [Dimensions]float64{100, 100}, Height: 100}, 20)
	now, _ := s.At(start, site)
	later, _ := s.At(start.Add(time.Hour), site)
	if want := 1 - (1-now.Error)/2; math.Abs(later.Error-want) > 1e-9 {
		t.Errorf("error %v after its half-life, want %v", later.Error, want)
	}
	if later.Vec != now.Vec {
		t.Error("the place ages, want only its error to")
	}
}

func TestServersAreBounded(t *testing.T) {
	cfg := DefaultServersConfig()
	cfg.Most = 10
	s := NewServers(cfg, 1)
	truth := Coordinate{Height: 50}
	for i := range 30 {
		teach(s, start, netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), &truth, 1)
		teach(s, start, site, &truth, 1)
	}
	if s.byAddr.Len() != 10 || len(s.subnets) != 10 {
		t.Errorf("%d servers and %d subnets, want 10", s.byAddr.Len(), len(s.subnets))
	}
	if s.Updates(site) != 120 {
		t.Errorf("the server used all the time has %d updates, want 120", s.Updates(site))
	}
	at := Coordinate{Height: 5}
	for i := range 3 * maxEstimators {
		s.Observe(start, site, fmt.Sprint(i), &at, time.Second)
	}
	if n := len(s.find(start, site, false).windows); n != maxEstimators {
		t.Errorf("%d windows, want %d", n, maxEstimators)
	}
}

func TestServersOfASubnetShareAPlace(t *testing.T) {
	beside, far := netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("198.51.100.1")
	s := NewServers(DefaultServersConfig(), 1)
	teach(s, start, site, &Coordinate{Vec: [Dimensions]float64{180, 30}, Height: 100}, 20)
	of, _ := s.At(start, site)
	got, ok := s.At(start, beside)
	if !ok || got.Vec != of.Vec || got.Error != 0.5 {
		t.Errorf("a neighbour: %+v, %v; want the place of the other with an error of 0.5", got, ok)
	}
	if _, ok := s.At(start, far); ok {
		t.Error("a stranger has a place")
	}
	cfg := DefaultServersConfig()
	cfg.ReuseError = 0
	s = NewServers(cfg, 1)
	teach(s, start, site, &Coordinate{Height: 100}, 1)
	if _, ok := s.At(start, beside); ok {
		t.Error("shared though it is turned off")
	}
}

func TestPace(t *testing.T) {
	truth := Coordinate{Vec: [Dimensions]float64{100, 100}, Height: 100}
	slow := Coordinate{Vec: truth.Vec, Height: 1000}
	rnd := rand.New(rand.NewPCG(1, 1))
	tests := map[string]struct {
		then func(s *Servers)
		slow bool
	}{
		"as before":      {func(s *Servers) { teach(s, start, site, &truth, 1) }, false},
		"slower for all": {func(s *Servers) { teach(s, start, site, &slow, 1) }, true},
		"and as before":  {func(s *Servers) { teach(s, start, site, &slow, 3); teach(s, start, site, &truth, 1) }, false},
		"new ground":     {func(s *Servers) { teach(s, start, site, &slow, 20) }, false},
		"slower for one": {func(s *Servers) { e := estimators()[rnd.IntN(4)]; s.Observe(start, site, e.Peer, &e.At, time.Minute) }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewServers(DefaultServersConfig(), 1)
			teach(s, start, site, &truth, 10)
			tt.then(s)
			if pace := s.Pace(netip.MustParseAddr("203.0.113.1")); pace != 1 {
				t.Errorf("pace %v of an unknown server, want 1", pace)
			}
			if pace := s.Pace(site); pace > 1 != tt.slow || pace < 1 || pace > maxPace {
				t.Errorf("pace %v, want slower %v", pace, tt.slow)
			}
		})
	}
}
