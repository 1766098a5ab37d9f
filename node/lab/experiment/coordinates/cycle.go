package coordinates

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/coordinates"
)

// cycleMode is the duration of a cycle (3.4).
type cycleMode uint8

const (
	modeCycle      cycleMode = iota // batch after batch
	modePersistent                  // one batch, estimated permanently and assigned repeatedly
	modeSingle                      // one batch, then nothing
)

// cycleConfig is the configuration of a cycle.
type cycleConfig struct {
	mode cycleMode
	// hosts is the size of a batch (delta).
	hosts int
	// theta is the median error over a batch at which it is assigned, maxUpdates the number of updates
	// of each server after which it is assigned in any case (pi).
	theta      float64
	maxUpdates int
	// every is the interval at which the next URL of each server is sent to an estimator.
	every time.Duration
	// gather is how long a set waits for the answers to the previous one, so that one message contains
	// all servers; 0: requests for free servers are sent at once.
	gather time.Duration
	// timeout of an estimate: then the server's turn is over and the URL is requested again.
	timeout time.Duration
	// outgoing is how many assignments may wait before a persistent batch assigns no more, and round
	// how many URLs of each host it assigns at a time.
	outgoing, round int
}

// paperCycle returns the thesis' configuration.
func paperCycle(theta float64) cycleConfig {
	return cycleConfig{
		mode: modeSingle, hosts: 100, theta: theta, maxUpdates: 300, every: 10 * time.Second, timeout: 2 * time.Minute,
		outgoing: 30, round: 20,
	}
}

const (
	// assignedURLs bounds the URLs of an assignment, assignEvery is the interval of assignments.
	assignedURLs = 500
	assignEvery  = 5 * time.Second
	// seedCycle differs from the seeds of the peer's other state machines.
	seedCycle = 3
)

// pageURL is one page that is due.
type pageURL struct {
	url  string     // canonical
	host string     // of the URL
	addr netip.Addr // of its server, as the requester resolved it
}

// estimate is the result of a download by an estimator.
type estimate struct {
	pageURL
	took   time.Duration // from the request to the last byte
	failed bool          // no answer
}

// place is a peer with its coordinate.
type place struct {
	peer string
	at   coordinates.Coordinate
}

// assignment assigns URLs to a peer.
type assignment struct {
	to   string
	urls []pageURL // at most assignedURLs
}

// cycle is the requester's side of estimation (3.4). It collects hosts until they make a batch and
// sends one URL of each server at a time to a random estimator. The results move the servers'
// coordinates; the remaining URLs are assigned by them. At most one URL of a server is out: so
// estimators alternate, and it gets one request at a time (beyond the paper: papers 5).
type cycle struct {
	cfg     cycleConfig
	servers *coordinates.Servers
	rnd     *rand.Rand
	ready   [][]pageURL // by host
	batch   *batch
	next    time.Time
	asked   time.Time // of the last set
	waiting []assignment
	sendAt  time.Time
	stopped bool
	stats   cycleStats
}

// cycleStats are the counters of a cycle.
type cycleStats struct {
	batches, requests, assignments int // batches assigned, sets of estimates requested, messages with assignments
	asked                          int // URLs sent to estimators
	atBound                        int // batches that ended at the limit of updates
	// updates of each server that was assigned, took of each batch: its time to assignment.
	updates []int
	took    []time.Duration
}

// batch has the servers that are estimated together.
type batch struct {
	begun   time.Time
	order   []netip.Addr
	servers map[netip.Addr]*estimated
}

// estimated is a server of the batch.
type estimated struct {
	urls    fifo[pageURL]
	out     *pageURL // the URL that an estimator has
	to      string
	since   time.Time
	updates int
}

// newCycle returns a cycle without hosts that stores its coordinates in a table of servers.
func newCycle(cfg *cycleConfig, servers *coordinates.Servers, seed uint64) *cycle {
	return &cycle{cfg: *cfg, servers: servers, rnd: rand.New(rand.NewPCG(seed, seedCycle))}
}

// add adds a host that is ready: URLs of one server. The cycle holds them until it assigns them.
func (c *cycle) add(urls []pageURL) { c.ready = append(c.ready, urls) }

// estimating reports whether a batch is being estimated, during which the local crawl should be
// slow.
func (c *cycle) estimating() bool { return c.batch != nil }

// done reports whether a single batch is assigned and sent.
func (c *cycle) done() bool { return c.stopped && len(c.waiting) == 0 }

// tick begins a batch if enough hosts are ready, and returns the URLs to be sent to an estimator
// now; none if nothing is due.
func (c *cycle) tick(now time.Time, estimators []string) (to string, urls []pageURL) {
	if c.stopped || now.Before(c.next) {
		return "", nil
	}
	c.next = now.Add(c.cfg.every)
	if c.batch == nil && len(c.ready) >= c.cfg.hosts {
		c.begin(now)
	}
	if c.batch == nil || len(estimators) == 0 {
		return "", nil
	}
	if now.Sub(c.asked) < c.cfg.gather && c.batch.waits() {
		return "", nil
	}
	to = estimators[c.rnd.IntN(len(estimators))]
	for _, addr := range c.batch.order {
		if u := c.turn(now, addr, to); u != nil {
			urls = append(urls, *u)
		}
	}
	if len(urls) > 0 {
		c.asked = now
		c.stats.requests++
		c.stats.asked += len(urls)
	}
	return to, urls
}

// waits reports whether an answer is awaited.
func (b *batch) waits() bool {
	for _, s := range b.servers {
		if s.out != nil {
			return true
		}
	}
	return false
}

// begin starts a batch of the hosts that are ready. Hosts of one server share its queue.
func (c *cycle) begin(now time.Time) {
	c.batch = &batch{begun: now, servers: make(map[netip.Addr]*estimated)}
	for _, urls := range c.ready[:c.cfg.hosts] {
		addr := urls[0].addr
		s := c.batch.servers[addr]
		if s == nil {
			s = new(estimated)
			c.batch.servers[addr] = s
			c.batch.order = append(c.batch.order, addr)
		}
		s.urls.push(urls...)
	}
	c.ready = slices.Clone(c.ready[c.cfg.hosts:])
}

// turn takes the next URL of a server for an estimator, nil if it has none, has one out, or has had
// its updates.
func (c *cycle) turn(now time.Time, addr netip.Addr, to string) *pageURL {
	s := c.batch.servers[addr]
	if s.out != nil {
		if now.Sub(s.since) < c.cfg.timeout {
			return nil
		}
		s.urls.push(*s.out)
		s.out = nil
	}
	if s.urls.len() == 0 || s.updates >= c.cfg.maxUpdates && c.cfg.mode != modePersistent {
		return nil
	}
	u := s.urls.pop()
	s.out, s.to, s.since = &u, to, now
	return &u
}

// report processes the results of an estimator at a coordinate. It ignores unrequested ones.
func (c *cycle) report(now time.Time, from string, at *coordinates.Coordinate, results []estimate) {
	if c.batch == nil {
		return
	}
	for i := range results {
		r := &results[i]
		s := c.batch.servers[r.addr]
		if s == nil || s.out == nil || s.to != from || s.out.url != r.url {
			continue
		}
		s.out = nil
		s.updates++
		if !r.failed {
			c.servers.Observe(now, r.addr, from, at, r.took)
		}
	}
}

// medianError returns that of the batch; 1 without one. Unknown servers count as 1.
func (c *cycle) medianError(now time.Time) float64 {
	if c.batch == nil || len(c.batch.order) == 0 {
		return 1
	}
	errs := make([]float64, 0, len(c.batch.order))
	for _, addr := range c.batch.order {
		e := 1.0
		if at, ok := c.servers.At(now, addr); ok {
			e = at.Error
		}
		errs = append(errs, e)
	}
	slices.Sort(errs)
	return errs[len(errs)/2]
}

// assign returns the next assignment to be sent; false if there is none yet. Peers are those that
// may be given work.
func (c *cycle) assign(now time.Time, peers []place) (assignment, bool) {
	if c.batch != nil && len(peers) > 0 && c.decided(now) {
		c.assignBatch(now, peers)
	}
	if len(c.waiting) == 0 || now.Before(c.sendAt) {
		return assignment{}, false
	}
	c.sendAt = now.Add(assignEvery)
	a := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	c.stats.assignments++
	return a, true
}

// decided reports whether the batch can be assigned: its median error is below theta, or no server
// has updates left; a persistent batch, whose servers continue to be updated, must also have space
// in its outgoing queue.
func (c *cycle) decided(now time.Time) bool {
	if c.cfg.mode == modePersistent && len(c.waiting) >= c.cfg.outgoing {
		return false
	}
	return c.medianError(now) < c.cfg.theta || c.exhausted()
}

// exhausted reports whether every server has had its updates. One of a batch that ends must have
// its URLs back, and is exhausted without URLs for more updates as well.
func (c *cycle) exhausted() bool {
	persistent := c.cfg.mode == modePersistent
	for _, s := range c.batch.servers {
		switch {
		case !persistent && s.out != nil:
			return false
		case s.updates < c.cfg.maxUpdates && (persistent || s.urls.len() > 0):
			return false
		}
	}
	return true
}

func (c *cycle) assignBatch(now time.Time, peers []place) {
	to := make(map[string][]pageURL)
	var order []string
	for _, addr := range c.batch.order {
		s := c.batch.servers[addr]
		urls := c.remaining(s)
		if c.cfg.mode != modePersistent {
			c.stats.updates = append(c.stats.updates, s.updates)
		}
		if len(urls) == 0 {
			continue
		}
		peer := c.choose(now, addr, peers)
		if to[peer] == nil {
			order = append(order, peer)
		}
		to[peer] = append(to[peer], urls...)
	}
	for _, peer := range order {
		for part := range slices.Chunk(to[peer], assignedURLs) {
			c.waiting = append(c.waiting, assignment{to: peer, urls: part})
		}
	}
	c.end(now)
}

// remaining removes and returns the URLs of a server that are to be assigned now. One that an
// estimator has is not among them: no other peer gets it.
func (c *cycle) remaining(s *estimated) []pageURL {
	if c.cfg.mode != modePersistent {
		return slices.Clone(s.urls.all())
	}
	var urls []pageURL
	for s.urls.len() > 1 && len(urls) < c.cfg.round { // one is reserved for estimation
		urls = append(urls, s.urls.pop())
	}
	return urls
}

// end counts the batch, and drops it unless it is persistent.
func (c *cycle) end(now time.Time) {
	c.stats.batches++
	if c.cfg.mode == modePersistent {
		return
	}
	c.stats.took = append(c.stats.took, now.Sub(c.batch.begun))
	if c.medianError(now) >= c.cfg.theta {
		c.stats.atBound++
	}
	c.batch = nil
	c.stopped = c.cfg.mode == modeSingle
}

// choose returns the peer nearest to a server by its current coordinate, a random one without any.
func (c *cycle) choose(now time.Time, addr netip.Addr, peers []place) string {
	at, ok := c.servers.At(now, addr)
	if !ok {
		return peers[c.rnd.IntN(len(peers))].peer
	}
	best, least := "", 0.0
	for i := range peers {
		if cost := at.Cost(&peers[i].at); best == "" || cost < least {
			best, least = peers[i].peer, cost
		}
	}
	return best
}

// estimatorConfig is the configuration of the estimator's side.
type estimatorConfig struct {
	// every is the interval at which sets of at least age are sent. The paper has 10 s and 20 s; since
	// a server has one estimate at a time here and waits for it that long, the default age is shorter,
	// so that the duration of an update equals the paper's.
	every, age time.Duration
	// most results make a set; a full one is sent at once.
	most int
}

// estimator collects the downloads that a peer makes for others (3.4, step 6). The URLs themselves
// wait in its ordinary [queue].
type estimator struct {
	cfg  estimatorConfig
	sets []*resultSet // the oldest first
	next time.Time
}

// resultSet is a set of results for the peer that requested them.
type resultSet struct {
	to      string
	results []estimate
	begun   time.Time
}

// finished adds a download that was made for a requester.
func (e *estimator) finished(now time.Time, requester string, r *estimate) {
	for _, s := range e.sets {
		if s.to == requester && len(s.results) < e.cfg.most {
			s.results = append(s.results, *r)
			return
		}
	}
	e.sets = append(e.sets, &resultSet{requester, []estimate{*r}, now})
}

// tick returns the sets that are to be sent now; later results go into new ones.
func (e *estimator) tick(now time.Time) (due []*resultSet) {
	if now.Before(e.next) {
		return nil
	}
	e.next = now.Add(e.cfg.every)
	e.sets = slices.DeleteFunc(e.sets, func(s *resultSet) bool {
		ready := now.Sub(s.begun) >= e.cfg.age || len(s.results) >= e.cfg.most
		if ready {
			due = append(due, s)
		}
		return ready
	})
	return due
}
