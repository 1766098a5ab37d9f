package coordinates

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// coordRun drives the state machines of a set of peers in virtual time: each gossips, estimates for
// the others, and has its own cycle.
type coordRun struct {
	w      *coordWorld
	clock  clock.Clock
	rnd    *rand.Rand
	gossip []*coordinates.Gossip
	estim  []*estimator
	cycles []*cycle // nil where a peer has none
	tables []*coordinates.Servers
	ids    []string
	index  map[string]int
	// assigned is called for each assignment of a cycle, by the peer that made it; fetched for each
	// download made for an estimate, and how far on it is.
	assigned func(by int, a *assignment)
	fetched  func(by int, u *pageURL, took time.Duration, failed bool)
	// estimates queues the requests of others where a peer has a queue; nil fetches at once.
	estimates func(at int, request *request)
	messages  coordMessages
}

// coordMessages counts the messages between peers.
type coordMessages struct {
	gossip, asks, reports, assignments int
	urls                               int // in requests for estimates and in assignments
	results                            int
}

func (m *coordMessages) bytes() int {
	return (m.gossip*2+m.asks+m.reports+m.assignments)*worlds.MessageBytes + (m.gossip+m.reports)*coordinates.EncodedSize + m.urls*worlds.URLBytes + m.results*worlds.ResultBytes
}

// coordSetup configures the peers.
type coordSetup struct {
	gossip  coordinates.GossipConfig
	servers coordinates.ServersConfig
	cycle   cycleConfig
	// estimator is how results are reported.
	estimator estimatorConfig
	// cyclesAt are the peers that have a cycle; nil means all.
	cyclesAt []int
}

func paperSetup(theta float64) coordSetup {
	s := coordSetup{
		gossip: coordinates.DefaultGossipConfig(), servers: coordinates.DefaultServersConfig(), cycle: paperCycle(theta),
		estimator: estimatorConfig{every: 10 * time.Second, age: 5 * time.Second, most: 500},
	}
	s.servers.Filter = coordinates.LoadFilter
	s.servers.HalfLife, s.servers.ReuseError = 0, 0 // the paper's coordinates live as long as the batch
	return s
}

func newCoordRun(w *coordWorld, setup *coordSetup, seed uint64) *coordRun {
	r := &coordRun{w: w, rnd: rand.New(rand.NewPCG(seed, 0x636f6f7264)), index: make(map[string]int)}
	for i := range w.peers {
		r.ids = append(r.ids, w.peers[i].id)
		r.index[w.peers[i].id] = i
	}
	for i := range w.peers {
		g := coordinates.NewGossip(setup.gossip, seed+uint64(i)*1_000_003)
		g.Meet(slices.DeleteFunc(slices.Clone(r.ids), func(id string) bool { return id == r.ids[i] }))
		r.gossip = append(r.gossip, g)
		r.estim = append(r.estim, &estimator{cfg: setup.estimator})
		var table *coordinates.Servers
		var requester *cycle
		if setup.cyclesAt == nil || slices.Contains(setup.cyclesAt, i) {
			table = coordinates.NewServers(setup.servers, seed+uint64(i)*7_368_787)
			requester = newCycle(&setup.cycle, table, seed+uint64(i)*9_999_991)
		}
		r.tables, r.cycles = append(r.tables, table), append(r.cycles, requester)
	}
	return r
}

// start gives every peer a tick per second, at different offsets.
func (r *coordRun) start() {
	for i := range r.ids {
		r.clock.After(time.Duration(i)*time.Second/time.Duration(len(r.ids)), func() { r.tick(i) })
	}
}

func (r *coordRun) tick(i int) {
	r.clock.After(time.Second, func() { r.tick(i) })
	now := r.clock.Now()
	if to, ok := r.gossip[i].Tick(now); ok {
		r.messages.gossip++
		j := r.index[to]
		rtt := r.w.message(r.rnd, i, j)
		r.clock.After(rtt, func() {
			at := r.gossip[j].At()
			r.gossip[i].Reply(to, rtt, &at)
		})
	}
	for _, set := range r.estim[i].tick(now) {
		r.report(i, set)
	}
	if r.cycles[i] != nil {
		r.request(i, now)
	}
}

// report sends results to their requester.
func (r *coordRun) report(from int, set *resultSet) {
	r.messages.reports++
	r.messages.results += len(set.results)
	to := r.index[set.to]
	at := r.gossip[from].At()
	r.clock.After(r.oneWay(from, to), func() { r.cycles[to].report(r.clock.Now(), r.ids[from], &at, set.results) })
}

func (r *coordRun) oneWay(from, to int) time.Duration {
	if from == to {
		return 0
	}
	return r.w.message(r.rnd, from, to) / 2
}

// request lets a requester send estimation requests and assign.
func (r *coordRun) request(i int, now time.Time) {
	c := r.cycles[i]
	estimators := append(r.gossip[i].Up(), r.ids[i])
	if to, urls := c.tick(now, estimators); len(urls) > 0 {
		r.messages.asks++
		r.messages.urls += len(urls)
		j := r.index[to]
		r.clock.After(r.oneWay(i, j), func() {
			for k := range urls {
				r.estimate(j, r.ids[i], &urls[k])
			}
		})
	}
	if a, ok := c.assign(now, r.places(i)); ok {
		r.messages.assignments++
		r.messages.urls += len(a.urls)
		if r.assigned != nil {
			r.assigned(i, &a)
		}
	}
}

// estimate downloads a page for a requester.
func (r *coordRun) estimate(at int, requester string, u *pageURL) {
	if r.estimates != nil {
		r.estimates(at, &request{pageURL: *u, requester: requester, at: r.clock.Now()})
		return
	}
	bytes := pageSize(r.rnd)
	took, failed := r.w.download(r.rnd, at, serverOf(u.addr), bytes)
	r.clock.After(took, func() {
		if r.fetched != nil {
			r.fetched(at, u, took, failed)
		}
		r.estim[at].finished(r.clock.Now(), requester, &estimate{pageURL: *u, took: took, failed: failed})
	})
}

// seenBy is one peer's view of the others' coordinates, as the node gives it to its strategy.
func (r *coordRun) seenBy(i int) *worlds.Seen { return &worlds.Seen{By: r.ids[i], Gossip: r.gossip[i]} }

// places returns a peer's view of all coordinates, including its own.
func (r *coordRun) places(i int) []place {
	var list []place
	seen := r.seenBy(i)
	for _, id := range r.ids {
		if at, ok := seen.Of(id); ok {
			list = append(list, place{peer: id, at: at})
		}
	}
	return list
}

// bucket returns n URLs of a host of a server, numbered from first.
func (r *coordRun) bucket(server, first, urls int) (all []pageURL) {
	host := fmt.Sprintf("host%d", server)
	for k := range urls {
		all = append(all, pageURL{url: fmt.Sprintf("%s/%d", host, first+k), host: host, addr: r.w.servers[server].addr})
	}
	return all
}
