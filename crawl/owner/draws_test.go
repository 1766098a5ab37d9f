package owner_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// registry puts a real registry of jobs behind the draws of a simulation.
func registry(t *testing.T, sim *simulation, jobs jobTable) {
	r := job.NewRegistry(crawltest.NewStore())
	for _, e := range jobs {
		if _, _, err := r.Post(0, e.spec); err != nil {
			t.Fatal(err)
		}
	}
	sim.draw = func(from string, d owner.Draw) *wire.JobReply {
		reply, _, err := r.Draw(sim.now.UnixMilli(), d.Job, []byte(from), d.Draw)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
}

// archived are the URLs whose bodies a simulation's workers have fetched, and the bytes of the
// first fetch of each.
type archived struct {
	pages map[string]bool
	bytes uint64
	cut   int // requests for bodies that were larger than their promise
}

func (s *simulation) archive(id job.ID) *archived {
	a := &archived{pages: make(map[string]bool)}
	inner := s.answer
	s.answer = func(of job.ID, k task) *wire.Fetched {
		f := inner(of, k)
		if of != id {
			return f
		}
		if k.maxBytes > 0 && f.GetSize() > k.maxBytes {
			f = &wire.Fetched{Job: id[:], Url: []byte(k.url), Outcome: uint32(link.OutcomeTooLarge)}
			a.cut++
		}
		if link.Outcome(f.GetOutcome()).Fetched() && !a.pages[k.url] {
			a.pages[k.url] = true
			a.bytes += f.GetSize()
		}
		return f
	}
	return a
}

// TestBudgetNeverOvershoots crawls under budgets with and without faults, on one and on several
// owners. What workers ever fetched stays within; without faults, all of it is used.
func TestBudgetNeverOvershoots(t *testing.T) {
	s := site{hosts: 8, pages: 15, links: 5}
	for seed := range draws(8) {
		for _, c := range []struct {
			name   string
			change func(*wire.JobSpec)
			faulty int
			peers  int
		}{
			{"pages", func(m *wire.JobSpec) { m.MaxPages = 40 }, 0, 1},
			{"pages, three owners", func(m *wire.JobSpec) { m.MaxPages = 40 }, 0, 3},
			{"pages, faults", func(m *wire.JobSpec) { m.MaxPages = 40 }, 250, 3},
			{"bytes", func(m *wire.JobSpec) { m.MaxBytes = 20_000 }, 0, 2},
			{"bytes, faults", func(m *wire.JobSpec) { m.MaxBytes = 20_000 }, 250, 2},
			{"pages a host", func(m *wire.JobSpec) { m.MaxPagesPerHost = 4 }, 0, 2},
			{"all", func(m *wire.JobSpec) { m.MaxPages, m.MaxBytes, m.MaxPagesPerHost = 30, 20_000, 5 }, 100, 2},
		} {
			t.Run(fmt.Sprintf("%s, seed %d", c.name, seed), func(t *testing.T) {
				jobs := jobTable{}
				m := &wire.JobSpec{Seeds: [][]byte{[]byte(s.url(0, 0))}, Scope: []string{"*.example"}}
				c.change(m)
				id := jobs.add(t, m)
				sim := newSimulation(t, seed, c.peers, 3, jobs, s, func(cfg *owner.Config) {
					cfg.DrawPages, cfg.ByteReserve = 5, 1500
				})
				registry(t, sim, jobs)
				got := sim.archive(id)
				for i := range 6 {
					sim.post(id, s.url(i, i))
				}
				sim.run(c.faulty, id)
				if m.MaxPages > 0 && uint64(len(got.pages)) > m.MaxPages {
					t.Errorf("%d pages were fetched, of %d", len(got.pages), m.MaxPages)
				}
				if m.MaxBytes > 0 && got.bytes > m.MaxBytes {
					t.Errorf("%d bytes were fetched, of %d", got.bytes, m.MaxBytes)
				}
				hosts := make(map[string]uint64)
				for url := range got.pages {
					hosts[link.Host(url)]++
				}
				for host, n := range hosts {
					if m.MaxPagesPerHost > 0 && c.faulty == 0 && n > m.MaxPagesPerHost {
						t.Errorf("%d pages of %s were fetched, of %d", n, host, m.MaxPagesPerHost)
					}
				}
				if c.faulty == 0 && m.MaxPages > 0 && uint64(len(got.pages)) != m.MaxPages {
					t.Errorf("%d pages were fetched, want %d", len(got.pages), m.MaxPages)
				}
				if c.faulty == 0 && m.MaxBytes > 0 && got.bytes < m.MaxBytes*3/4 {
					t.Errorf("%d bytes were fetched, of %d", got.bytes, m.MaxBytes)
				}
			})
		}
	}
}

// TestBudgetBesideALiar: a member of a ring of five draws as much as it gets of a budget of 300
// pages, before each draw of the others, and then is silent; they fetch 250, and the rest once it
// has left.
func TestBudgetBesideALiar(t *testing.T) {
	jobs, s := jobTable{}, site{hosts: 12, pages: 60, links: 6}
	id := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(s.url(0, 0))}, Scope: []string{"*.example"}, MaxPages: 300})
	for _, leaves := range []bool{false, true} {
		sim := newSimulation(t, 1, 4, 4, jobs, s, nil)
		r := job.NewRegistry(crawltest.NewStore())
		if _, _, err := r.Post(0, jobs[id].spec); err != nil {
			t.Fatal(err)
		}
		draw := func(from string, d *wire.Draw) *wire.JobReply {
			reply, _, err := r.Draw(sim.now.UnixMilli(), id, []byte(from), d)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		held, draws := uint64(0), 0
		sim.draw = func(from string, d owner.Draw) *wire.JobReply {
			if draws++; draws < 30 {
				held = draw("liar", &wire.Draw{Pages: 256, DrawnPages: held}).GetPages()
			} else if !leaves {
				// silent
			} else if err := r.Reclaim(id, "liar"); err != nil {
				t.Fatal(err)
			}
			return draw(from, d.Draw)
		}
		got := sim.archive(id)
		for i := range 12 {
			sim.post(id, s.url(i, i))
		}
		sim.run(0, id)
		want := 250
		if leaves {
			want = 300
		}
		if len(got.pages) != want || held != 50 {
			t.Errorf("leaves %v: %d pages are fetched, want %d; the liar drew %d in %d draws", leaves, len(got.pages), want, held, draws)
		}
	}
}

// TestBytesLeftSmallerThanPage: when the rest of a byte budget is smaller than a page, a few
// requests use it up, and the URLs left are out_of_budget.
func TestBytesLeftSmallerThanPage(t *testing.T) {
	jobs, s := jobTable{}, site{hosts: 8, pages: 15, links: 5}
	id := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(s.url(0, 0))}, Scope: []string{"*.example"}, MaxBytes: 5000})
	sim := newSimulation(t, 1, 1, 3, jobs, s, func(*owner.Config) {})
	registry(t, sim, jobs)
	page := sim.answer
	sim.answer = func(of job.ID, k task) *wire.Fetched {
		f := page(of, k)
		if f.GetSize() > 0 {
			f.Size = 900
		}
		return f
	}
	got := sim.archive(id)
	for i := range 6 {
		sim.post(id, s.url(i, i))
	}
	sim.run(0, id)
	if got.cut == 0 || got.cut > 7 || got.bytes < 4500 {
		t.Errorf("%d requests were cut, %d bytes fetched", got.cut, got.bytes)
	}
}

// draws is the number of seeds of a simulation: all of them with --full, a quarter in the default
// tier.
func draws(all uint64) uint64 {
	if os.Getenv("APOIDEA_FULL") == "" {
		return (all + 3) / 4
	}
	return all
}

// TestDrawsForRetry: a URL whose next try is due draws from the budget, though nothing was left of
// what was drawn while it waited.
func TestDrawsForRetry(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, cfg *owner.Config) { m.MaxPages, cfg.DrawPages = 10, 1 })
	draw := func(r owner.Ready) (n uint64) {
		for _, d := range r.Draws {
			n += d.Draw.GetPages()
			s.do(func(o *owner.Owner) { o.Drawn(d, &wire.JobReply{Pages: d.Draw.GetDrawnPages() + d.Draw.GetPages()}) })
		}
		return n
	}
	draw(s.post(0, "http://a.example/1"))
	g := s.lease("w", "a.example", 1)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeTimeout))
	s.post(0, "http://a.example/2")
	more := s.ask("w", "a.example", g.GetEpoch(), 1)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(more)[0], link.OutcomeOK))
	s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
	drawn := uint64(0)
	for range 30 {
		drawn += draw(s.wait(time.Second))
	}
	if drawn == 0 {
		t.Errorf("no page was drawn for %+v", s.fate("http://a.example/1"))
	}
}
