package frontier

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestRanked: whatever Next would let be visited is listed, by score, and nothing else; what is
// visited by rank keeps all bounds.
func TestRanked(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := &model{
			t: t, seed: seed, r: r, hosts: make(map[string]*modelHost), ips: make(map[netip.Addr]*modelIP), groups: make(map[string]*modelGroup),
			cfg: Config{Delay: time.Duration(1+r.IntN(1000)) * time.Millisecond, PerIP: r.IntN(4) - 1, IPDelay: time.Duration(r.IntN(300)-1) * time.Millisecond},
		}
		m.cfg.fill()
		if seed%2 == 1 {
			m.cfg.Group = func(host string) string { return fmt.Sprint(host[1] % 3) }
			m.cfg.GroupDelay = time.Duration(1+r.IntN(1500)) * time.Millisecond
		}
		m.f = New[int](m.cfg)
		now := epoch
		for range 400 {
			now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			m.step(now)
			if r.IntN(2) == 0 {
				m.ranked(now)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// score of an item is anything but its age.
func score(item int) uint64 { return uint64(item) * 7 % 10 }

func (m *model) ranked(now time.Time) {
	names, due := m.f.Ranked(now, 5, score)
	var may []string
	for name, h := range m.hosts {
		if m.may(now, name, h) {
			may = append(may, name)
		}
	}
	if len(names) != min(len(may), 5) {
		m.t.Errorf("seed %d: ranked %v of %v", m.seed, names, may)
		return
	}
	if !due.IsZero() && !due.After(now) {
		m.t.Errorf("seed %d: to be asked again at %v, now is %v", m.seed, due, now)
	}
	for i, name := range names {
		if !slices.Contains(may, name) || i > 0 && score(m.hosts[names[i-1]].items[0]) > score(m.hosts[name].items[0]) {
			m.t.Errorf("seed %d: ranked %v of %v", m.seed, names, may)
		}
	}
	if len(names) == 0 {
		if len(may) == 0 && m.f.Visit(now, "nobody") {
			m.t.Errorf("seed %d: an unknown host is visited", m.seed)
		}
		return
	}
	name := names[m.r.IntN(len(names))]
	h := m.hosts[name]
	if item, ok := m.f.Peek(name); !ok || item != h.items[0] {
		m.t.Errorf("seed %d: peeked %d of %s, want %d", m.seed, item, name, h.items[0])
	}
	if !m.f.Visit(now, name) || m.f.Visit(now, name) {
		m.t.Errorf("seed %d: %s is not visited once", m.seed, name)
	}
	m.visit(now, name, h)
}

func BenchmarkRanked(b *testing.B) {
	f := New[int](Config{Delay: time.Second})
	for i := range 1000 {
		f.Push(fmt.Sprint("host", i), i)
	}
	for b.Loop() {
		f.Ranked(epoch, 6, score)
	}
}

// TestRankedEmptied: a host whose items were all taken while it waited, as a pause does, is not
// listed, and is again when it has others.
func TestRankedEmptied(t *testing.T) {
	f := New[int](Config{})
	for _, name := range []string{"a", "b"} {
		f.Push(name, 1, 2)
	}
	for range 2 {
		if _, ok := f.Take("a"); !ok {
			t.Fatal("nothing to take")
		}
	}
	if names, _ := f.Ranked(epoch, 5, score); !slices.Equal(names, []string{"b"}) {
		t.Errorf("ranked %v, want b alone", names)
	}
	f.Push("a", 3)
	if names, _ := f.Ranked(epoch, 5, score); len(names) != 2 {
		t.Errorf("ranked %v, want both", names)
	}
}
