package owner_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// moves are hosts of a simulation that change their owner.
type moves struct {
	left    int              // how many are still to be made
	where   map[ring.Key]int // who owns what was moved
	transit map[ring.Key]transit
	stale   [][]kv.Record // copies that turn up later
	made    int
}

// transit is a host that is its new owner's while its records are at the old one.
type transit struct {
	from  int
	since time.Time
}

// district is the ring as one peer of a simulation sees it.
type district struct {
	share
	moves *moves
}

func (d *district) Mine(key ring.Key) bool {
	if at, ok := d.moves.where[key]; ok {
		return at == d.i
	}
	return d.share.Mine(key)
}

// Settled says whether the records of a key are here.
func (d *district) Settled(key ring.Key) bool {
	_, moving := d.moves.transit[key]
	return !moving
}

// pushedWithin is how long a host's records take at most, if nothing fails: less than what is left
// of a lease at its renewal.
const pushedWithin = 2 * time.Second

// moveSome begins and ends moves.
func (s *simulation) moveSome() {
	m := &s.moves
	if m.left > 0 && s.rng.IntN(6) == 0 {
		key := ring.HostKey(link.Host(s.site.url(s.rng.IntN(s.site.hosts), 0)))
		if _, moving := m.transit[key]; !moving {
			from := s.indexOf(key)
			m.where[key] = s.rng.IntN(len(s.peers))
			if m.where[key] != from {
				m.left--
				m.made++
				m.transit[key] = transit{from, s.now}
			}
		}
	}
	for h := range s.site.hosts {
		key := ring.HostKey(link.Host(s.site.url(h, 0)))
		if t, moving := m.transit[key]; moving && (s.rng.IntN(8) == 0 || s.now.Sub(t.since) > pushedWithin/2) {
			s.push(key, t.from)
		}
	}
	if n := len(m.stale); n > 0 && s.faults && s.rng.IntN(4) == 0 {
		kvs := m.stale[s.rng.IntN(n)]
		key := ring.Key{}
		copy(key[:], kvs[0].Key[1:])
		for h := range s.site.hosts {
			if full := ring.HostKey(link.Host(s.site.url(h, 0))); ring.PosOf(full) == ring.PosOf(key) {
				p := s.peers[s.indexOf(full)]
				s.effects(p, p.step(s.now, func(o *owner.Owner) { s.imports(o, kvs) }))
			}
		}
	}
}

func (s *simulation) indexOf(key ring.Key) int {
	for i, p := range s.peers {
		if p.ring.Mine(key) {
			return i
		}
	}
	return -1
}

func (s *simulation) imports(o *owner.Owner, kvs []kv.Record) {
	s.t.Helper()
	if err := o.Import(kvs); err != nil {
		s.t.Fatal(err)
	}
}

// push hands a host over, or fails to and will try again.
func (s *simulation) push(key ring.Key, from int) {
	old, pos := s.peers[from], ring.PosOf(key)
	var kvs []kv.Record
	var note *wire.LeaseNote
	old.step(s.now, func(o *owner.Owner) {
		o.Freeze(pos)
		if err := o.Export(pos, next(pos), func(key, value []byte) bool {
			kvs = append(kvs, kv.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
			return true
		}); err != nil {
			s.t.Fatal(err)
		}
		note, _ = o.Lease(pos)
	})
	if s.faults && s.rng.IntN(4) == 0 {
		return // it is lost
	}
	to := s.peers[s.indexOf(key)]
	take := func(o *owner.Owner) {
		s.imports(o, kvs)
		if note != nil {
			if err := o.Adopt(note); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.effects(to, to.step(s.now, take))
	if s.faults && s.rng.IntN(4) == 0 {
		return // the answer is lost
	}
	old.step(s.now, func(o *owner.Owner) { o.Remove(pos, next(pos)) })
	if len(kvs) > 0 {
		s.moves.stale = append(s.moves.stale, kvs)
	}
	delete(s.moves.transit, key)
	s.effects(to, to.step(s.now, func(o *owner.Owner) { o.SettledChanged() }))
}

// TestMovesLoseNothing: hosts change their owners all the time, with and without faults. What is
// crawled is what the naive model says; in every round no two workers believe to hold one host;
// without faults nothing is fetched twice.
func TestMovesLoseNothing(t *testing.T) {
	for seed := range draws(3) {
		for _, faulty := range []int{0, 400} {
			t.Run(fmt.Sprintf("seed %d, %d rounds with faults", seed, faulty), func(t *testing.T) {
				jobs := jobTable{}
				s := site{hosts: 9, pages: 12, links: 4, flaky: faulty > 0}
				root := s.url(0, 0)
				id := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(root)}, Scope: []string{"*.example"}, HasMaxDepth: true, MaxDepth: 4})
				sim := newSimulation(t, seed, 3, 3, jobs, s, nil)
				sim.moves.left, sim.steady = 60, faulty == 0
				sim.post(id, root)
				sim.run(faulty, id)
				got := found(t, id, sim.peers...)
				s.compare(t, id, got, []string{root}, 4)
				if sim.moves.made < 5 {
					t.Errorf("only %d moves", sim.moves.made)
				}
				for url, n := range sim.fetches {
					if n > 1 && faulty == 0 {
						t.Errorf("%s was fetched %d times", url, n)
					}
				}
			})
		}
	}
}

// TestMovesKeepBudgets: a page is paid for once, by whoever drew it, wherever its host goes: no
// budget is overshot, and none keeps a crawl from its end.
func TestMovesKeepBudgets(t *testing.T) {
	s := site{hosts: 8, pages: 15, links: 5}
	for seed := range draws(3) {
		for _, c := range []struct {
			name   string
			change func(*wire.JobSpec)
			faulty int
		}{
			{"pages", func(m *wire.JobSpec) { m.MaxPages = 60 }, 0},
			{"pages, faults", func(m *wire.JobSpec) { m.MaxPages = 60 }, 250},
			{"bytes, faults", func(m *wire.JobSpec) { m.MaxBytes = 30_000 }, 250},
			{"pages a host", func(m *wire.JobSpec) { m.MaxPagesPerHost = 4 }, 0},
			{"all", func(m *wire.JobSpec) { m.MaxPages, m.MaxBytes, m.MaxPagesPerHost = 50, 40_000, 8 }, 0},
		} {
			t.Run(fmt.Sprintf("%s, seed %d", c.name, seed), func(t *testing.T) {
				jobs := jobTable{}
				m := &wire.JobSpec{Seeds: [][]byte{[]byte(s.url(0, 0))}, Scope: []string{"*.example"}}
				c.change(m)
				id := jobs.add(t, m)
				sim := newSimulation(t, seed, 3, 3, jobs, s, func(cfg *owner.Config) { cfg.DrawPages, cfg.ByteReserve = 5, 1500 })
				sim.moves.left = 60
				registry(t, sim, jobs)
				got := sim.archive(id)
				for i := range 6 {
					sim.post(id, s.url(i, i))
				}
				sim.run(c.faulty, id)
				hosts := make(map[string]uint64)
				for url := range got.pages {
					hosts[link.Host(url)]++
				}
				for host, n := range hosts {
					if m.MaxPagesPerHost > 0 && n > m.MaxPagesPerHost {
						t.Errorf("%d pages of %s were fetched, of %d", n, host, m.MaxPagesPerHost)
					}
				}
				if n := uint64(len(got.pages)); m.MaxPages > 0 && (n > m.MaxPages || c.faulty == 0 && n < m.MaxPages*3/4) {
					t.Errorf("%d pages were fetched, of %d", n, m.MaxPages)
				}
				if m.MaxBytes > 0 && got.bytes > m.MaxBytes {
					t.Errorf("%d bytes were fetched, of %d", got.bytes, m.MaxBytes)
				}
			})
		}
	}
}
