package dhtsim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

func TestClock(t *testing.T) {
	var c Clock
	var happened []int
	note := func(i int) func() { return func() { happened = append(happened, i) } }
	c.After(2*time.Second, note(3))
	c.After(time.Second, note(1))
	c.After(time.Second, note(2))
	c.After(-time.Second, note(0))
	steps := 0
	c.OnStep = func() { steps++ }
	if c.RunUntil(time.Minute, func() bool { return len(happened) == 3 }); c.Elapsed() != time.Second {
		t.Errorf("stopped at %v", c.Elapsed())
	}
	c.Run(time.Minute)
	if !slices.Equal(happened, []int{0, 1, 2, 3}) || steps != 4 || c.Now() != Epoch.Add(61*time.Second) {
		t.Errorf("%v in %d steps, now %v", happened, steps, c.Now())
	}
}

// TestNetwork: what becomes of a call whose receiver lives, is dead, is paused, is cut off, cannot
// be dialled.
func TestNetwork(t *testing.T) {
	for name, row := range map[string]struct {
		with func(n *Network, from, to *Host)
		want error
		took time.Duration // beyond the round trip
	}{
		"answered": {func(*Network, *Host, *Host) {}, nil, 0},
		"dead":     {func(_ *Network, _, to *Host) { to.Stop(false) }, ErrRefused, 0},
		"silent":   {func(_ *Network, _, to *Host) { to.Stop(true) }, ErrTimeout, 10 * time.Second},
		"paused":   {func(_ *Network, _, to *Host) { to.Pause(3 * time.Second) }, nil, 3 * time.Second},
		"cut off":  {func(n *Network, _, _ *Host) { n.Partition(func(i, j int) bool { return i != j }) }, ErrTimeout, 10 * time.Second},
		"lost":     {func(n *Network, _, _ *Host) { n.Loss = 1 }, ErrTimeout, 10 * time.Second},
		"behind a NAT": {func(n *Network, _, to *Host) {
			n.NAT = func(i int) bool { return i == to.Index }
		}, ErrTimeout, 10 * time.Second},
		"behind a NAT, and spoke": {func(n *Network, from, to *Host) {
			n.NAT = func(i int) bool { return i == to.Index }
			n.Call(to, from, &Call{Timeout: time.Second, Handle: func(reply func(int, any)) { reply(1, nil) }, Done: func(any, error) {}})
		}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := NewNetwork(new(Clock), Pairs(1), 1)
			from, to := n.NewHost(0), n.NewHost(1)
			from.Start()
			to.Start()
			row.with(n, from, to)
			n.Run(0)
			var got error
			took := time.Duration(-1)
			n.Call(from, to, &Call{
				Purpose: Others, Size: 100, Timeout: 10 * time.Second,
				Handle: func(reply func(int, any)) { reply(20, nil) },
				Done:   func(_ any, err error) { got, took = err, n.Elapsed() },
			})
			n.Run(time.Minute)
			rtt := n.Internet.RTT(0, 1)
			if !errors.Is(got, row.want) || took < row.took || took > row.took+rtt {
				t.Errorf("%v after %v, want %v after %v and at most %v", got, took, row.want, row.took, rtt)
			}
			if sent := n.Sent[Others]; sent.Calls != 1 || sent.Bytes < 100 {
				t.Errorf("counted %+v", sent)
			}
		})
	}
}

func TestNearestOfATableIsThatOfAll(t *testing.T) {
	s := NewSim(World{Seed: 1})
	for range 400 {
		s.insert(s.draw())
	}
	tab := NewTable(s.sorted[0].key)
	tab.fill(s.sorted, s.Rand)
	all := tab.All()
	for range 200 {
		key := s.RandomKey()
		near := tab.Nearest(key, 20)
		if len(near) != 20 {
			t.Fatalf("%d nearest of %d", len(near), len(all))
		}
		farthest := xor(near[19].Key(), key)
		closer := 0
		for _, p := range all {
			if d := xor(p.Key(), key); d.Compare(farthest) < 0 {
				closer++
			}
		}
		if closer != 19 {
			t.Fatalf("%d peers are nearer than the last of 20", closer)
		}
	}
}

func TestCoverageOfTheCircle(t *testing.T) {
	s := NewSim(World{Seed: 1})
	s.Found(20)
	s.Run(time.Minute)
	if err := s.Settled(); err != nil {
		t.Fatal(err)
	}
	if c := s.Coverage(); c.Owned < 1-1e-9 || c.Wrong != 0 {
		t.Errorf("settled, but %+v", c)
	}
	victim := s.Truth(ring.Key{})
	s.KillAs(victim, true)
	if c := s.Coverage(); c.Owned > 1-1e-6 || s.Settled() == nil {
		t.Errorf("after a death %+v, %v", c, s.Settled())
	}
}
