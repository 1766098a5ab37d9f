package owner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// simulation is a ring of owners and workers with faults, in made-up time.
type simulation struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	peers   []*peer
	workers []*workerSim
	site    site
	answer  func(id job.ID, task task) *wire.Fetched
	// registries stand for the owners of the jobs.
	draw func(from string, d owner.Draw) *wire.JobReply

	faults  bool
	fetches map[string]int
	tries   map[string]uint32
	mail    map[*peer][]owner.OutLink
	moves   moves
	// steady workers speak to each owner at least every second, and nobody sleeps: no lease lapses.
	steady bool
}

func newSimulation(t *testing.T, seed uint64, peers, workers int, jobs jobTable, s site, cfg func(*owner.Config)) *simulation {
	sim := &simulation{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: epochStart, site: s, fetches: make(map[string]int), tries: make(map[string]uint32),
		mail: make(map[*peer][]owner.OutLink), moves: moves{where: make(map[ring.Key]int), transit: make(map[ring.Key]transit)},
	}
	sim.answer = func(id job.ID, k task) *wire.Fetched {
		try := sim.tries[id.String()+k.url]
		sim.tries[id.String()+k.url]++
		return s.answer(id, k.url, try)
	}
	for i := range workers {
		sim.workers = append(sim.workers, newWorker(fmt.Sprintf("worker%d", i)))
	}
	for i := range peers {
		d := &district{share{i, peers}, &sim.moves}
		c := owner.Config{
			Self: fmt.Sprintf("worker%d", i%max(workers, 1)), Window: 8, MaxHosts: 6, MaxOutbox: 40, MaxKnown: 50, Settled: d.Settled,
		}
		if cfg != nil {
			cfg(&c)
		}
		sim.peers = append(sim.peers, newPeer(t, c, d, jobs, sim.now))
	}
	return sim
}

func (s *simulation) ownerOf(host string) *peer {
	key := ring.HostKey(host)
	for _, p := range s.peers {
		if p.ring.Mine(key) {
			return p
		}
	}
	return nil
}

// post sends seeds to the owners of their hosts.
func (s *simulation) post(id job.ID, seeds ...string) {
	for _, seed := range seeds {
		p := s.ownerOf(link.Host(seed))
		s.effects(p, p.step(s.now, func(o *owner.Owner) { o.Links(links(id, 0, seed)) }))
	}
}

// effects does what a step asks for. It is called once the step's wait has returned.
func (s *simulation) effects(p *peer, ready owner.Ready) {
	for _, place := range ready.Places {
		w := s.workers[s.rng.IntN(len(s.workers))]
		s.effects(p, p.step(s.now, func(o *owner.Owner) {
			o.Placed(place.Host, owner.Placement{Worker: w.name, URLs: max(s.rng.IntN(24)-16, 0), Why: "drawn"})
		}))
	}
	for _, offer := range ready.Offers {
		i := slices.IndexFunc(s.workers, func(w *workerSim) bool { return w.name == offer.Worker })
		if s.faults && s.rng.IntN(8) == 0 {
			continue // lost
		}
		l := s.workers[i].link(p)
		l.offers = append(l.offers, offer.Hosts...)
	}
	for _, d := range ready.Draws {
		if s.faults && s.rng.IntN(4) == 0 {
			s.effects(p, p.step(s.now, func(o *owner.Owner) { o.Drawn(d, nil) }))
			continue
		}
		reply := s.draw(p.name, d)
		if s.faults && s.rng.IntN(4) == 0 {
			reply = nil // the answer is lost
		}
		s.effects(p, p.step(s.now, func(o *owner.Owner) { o.Drawn(d, reply) }))
	}
}

// turn lets a worker talk to an owner.
func (s *simulation) turn(w *workerSim, p *peer) {
	m := w.session(p, uint32(1+s.rng.IntN(8)))
	sent := s.now
	w.link(p).spoke = s.now
	if s.faults && s.rng.IntN(12) == 0 {
		return // the request is lost
	}
	var reply *wire.SessionReply
	ready := p.stepNoWait(s.now, func(o *owner.Owner) { reply = o.Session(w.name, m) })
	if s.faults && s.rng.IntN(40) == 0 {
		p.crash(s.now, s.rng) // before anything left
		s.ownWorkerDies(p)
		return
	}
	if err := ready.Wait(); err != nil {
		s.t.Fatal(err)
	}
	if !s.faults || s.rng.IntN(12) != 0 {
		w.receive(p, sent, m, reply, s.ownerOf)
	}
	s.effects(p, ready)
}

// ownWorkerDies: a peer's worker is in its process.
func (s *simulation) ownWorkerDies(p *peer) {
	for _, w := range s.workers {
		if w.name == p.name {
			w.crash()
		}
	}
	s.mail[p] = nil
}

// work lets workers fetch what they believe to hold, and checks that nobody else believes so.
func (s *simulation) work() {
	holders := make(map[string]string)
	for _, w := range s.workers {
		for _, p := range s.peers {
			for _, host := range sortedKeys(w.link(p).leases) {
				lease := w.link(p).leases[host]
				if lease.gone || !s.now.Before(lease.until) {
					continue
				}
				if other, ok := holders[host]; ok && other != w.name {
					s.t.Fatalf("%s and %s both hold %s", other, w.name, host)
				}
				holders[host] = w.name
				for n := s.rng.IntN(4); n > 0 && len(lease.queue) > 0; n-- {
					s.fetches[lease.queue[0].job.String()+lease.queue[0].url]++
					w.fetch(p, host, s.now, func(k task) *wire.Fetched { return s.answer(k.job, k) })
				}
			}
		}
	}
}

// heartbeats has steady workers speak that have not for a second.
func (s *simulation) heartbeats() {
	if !s.steady || s.faults {
		return
	}
	for _, w := range s.workers {
		for _, p := range s.peers {
			if l := w.link(p); len(l.leases)+len(l.reports) > 0 && s.now.Sub(l.spoke) > time.Second {
				s.turn(w, p)
			}
		}
	}
}

// deliver carries outbox links.
func (s *simulation) deliver(p *peer) {
	s.mail[p] = append(s.mail[p], p.owner.Outbox(5)...)
	if len(s.mail[p]) == 0 {
		return
	}
	s.rng.Shuffle(len(s.mail[p]), func(i, j int) { s.mail[p][i], s.mail[p][j] = s.mail[p][j], s.mail[p][i] })
	k := s.mail[p][0]
	to := s.ownerOf(k.Host)
	if s.faults && s.rng.IntN(8) == 0 {
		return
	}
	m := links(k.Job, k.Depth, k.URL)
	m.Hops, m.Kind = []byte{k.Hops}, []byte{byte(k.Kind)}
	var reply *wire.LinksReply
	s.effects(to, to.step(s.now, func(o *owner.Owner) { reply = o.Links(m) }))
	if len(reply.GetMoved())+len(reply.GetBusy()) > 0 || s.faults && s.rng.IntN(8) == 0 {
		return // not taken, or the answer is lost
	}
	s.mail[p] = s.mail[p][1:]
	s.effects(p, p.step(s.now, func(o *owner.Owner) { o.Sent([]uint64{k.ID}) }))
}

// round makes some random moves and lets time pass.
func (s *simulation) round() {
	for range 1 + s.rng.IntN(4) {
		w, p := s.workers[s.rng.IntN(len(s.workers))], s.peers[s.rng.IntN(len(s.peers))]
		switch s.rng.IntN(10) {
		case 0, 1, 2, 3, 4:
			s.turn(w, p)
		case 5, 6:
			s.deliver(p)
			s.deliver(p)
		case 7:
			if s.faults && s.rng.IntN(30) == 0 {
				w.crash()
			}
		case 8:
			if s.faults && s.rng.IntN(30) == 0 {
				p.crash(s.now, s.rng)
				s.ownWorkerDies(p)
			}
		case 9:
			if s.faults && s.rng.IntN(40) == 0 {
				s.now = s.now.Add(7 * time.Second) // everybody sleeps
			}
		}
	}
	s.moveSome()
	s.heartbeats()
	s.work()
	s.now = s.now.Add(time.Duration(1+s.rng.IntN(300)) * time.Millisecond)
	for _, p := range s.peers {
		s.effects(p, p.step(s.now, nil))
	}
}

func (s *simulation) outstanding(ids ...job.ID) (n int64) {
	for _, p := range s.peers {
		for _, id := range ids {
			c := p.owner.Counts(id)
			n += c.Outstanding()
		}
	}
	return n
}

// run goes on until nothing is outstanding; faults end after some rounds.
func (s *simulation) run(faulty int, ids ...job.ID) {
	s.t.Helper()
	for i := range 60_000 {
		s.faults = i < faulty
		s.round()
		if i%16 == 0 && !s.faults && s.outstanding(ids...) == 0 && len(s.moves.transit) == 0 {
			return
		}
		if i%200 == 199 && !s.faults && !s.steady && len(s.moves.transit) == 0 {
			s.now = s.now.Add(time.Minute) // nobody wants to wait for retries
		}
	}
	for _, p := range s.peers {
		for _, id := range ids {
			s.t.Logf("%s: %+v", p.name, p.owner.Counts(id))
		}
	}
	s.t.Fatal("the crawl does not end")
}

// TestNothingLostOnCrash crawls under lost messages, crashes of owners at any write and of workers,
// and comes to the set of the naive model. Every step on the way passes Check, so it is also the
// test that the URLs seen add up and that a host has one lease; and in every round no two workers
// believe to hold one host.
func TestNothingLostOnCrash(t *testing.T) {
	for seed := range draws(8) {
		for _, peers := range []int{1, 3} {
			t.Run(fmt.Sprintf("seed %d, %d peers", seed, peers), func(t *testing.T) {
				jobs := jobTable{}
				s := site{hosts: 9, pages: 12, links: 4, flaky: true}
				seeds := []string{s.url(0, 0), s.url(1, 1)}
				all := []string{"*.example"}
				shallow := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(seeds[0])}, Scope: all, HasMaxDepth: true, MaxDepth: 3})
				deep := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(seeds[1])}, Scope: all})
				sim := newSimulation(t, seed, peers, 3, jobs, s, nil)
				sim.post(shallow, seeds[0])
				sim.post(deep, seeds[1])
				sim.run(400, shallow, deep)
				got := found(t, shallow, sim.peers...)
				s.compare(t, shallow, got, seeds[:1], 3)
				got = found(t, deep, sim.peers...)
				want := s.reach(deep, seeds[1:], 1000, quarantined(got))
				for url := range got {
					if _, ok := want[url]; !ok {
						t.Errorf("%s is too many", url)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d URLs, want %d", len(got), len(want))
				}
			})
		}
	}
}

// TestOnceWithoutFaults: where nothing fails every URL is fetched once, but for those whose first
// answer is an error worth another try.
func TestOnceWithoutFaults(t *testing.T) {
	jobs := jobTable{}
	s := site{hosts: 6, pages: 20, links: 5}
	id := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(s.url(0, 0))}, Scope: []string{"*.example"}})
	sim := newSimulation(t, 1, 2, 2, jobs, s, nil)
	sim.post(id, s.url(0, 0))
	sim.run(0, id)
	for url, n := range sim.fetches {
		if n != 1 {
			t.Errorf("%s was fetched %d times", url, n)
		}
	}
	var refetched int64
	for _, p := range sim.peers {
		refetched += p.owner.Totals().Refetched
	}
	if refetched != 0 || len(sim.fetches) == 0 {
		t.Errorf("%d fetched, %d refetched", len(sim.fetches), refetched)
	}
}
