package coordinates

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Mode is the duration of a cycle (3.4).
type Mode uint8

// The modes.
const (
	ModeCycle      Mode = iota // batch after batch
	ModePersistent             // one batch, estimated permanently and assigned repeatedly
	ModeSingle                 // one batch, then nothing
	ModeNone                   // nothing is placed
)

// modeNames are the names of the modes, in their order.
var modeNames = []string{"cycle", "persistent", "single", "none"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Modes returns the names of the modes.
func Modes() []string { return slices.Clone(modeNames) }

// ParseMode returns the mode of that name. The error lists the valid names.
func ParseMode(name string) (Mode, error) {
	if i := slices.Index(modeNames, name); i >= 0 {
		return Mode(i), nil // one of four
	}
	return 0, fmt.Errorf("mode %q: must be one of %s", name, strings.Join(modeNames, ", "))
}

// Rest is the rule for servers whose coordinate did not converge.
type Rest uint8

// The rules for the rest.
const (
	RestAsTheyStand Rest = iota // nearest by the current coordinate
	RestRandom
	RestGeo // peer returned by CycleConfig.Geo
)

// CycleConfig is the configuration of a cycle.
type CycleConfig struct {
	Mode Mode // duration of the cycle (3.4)
	// Hosts is the size of a batch (delta).
	Hosts int
	// Theta is the median error over a batch at which it is assigned, MaxUpdates the number of updates
	// of each server after which it is assigned in any case (pi).
	Theta      float64
	MaxUpdates int  // bound on the updates of a server
	Rest       Rest // rule for servers that did not converge
	// Geo returns the peer for a server under RestGeo, "" if unknown.
	Geo func(netip.Addr) string
	// Every is the interval at which the next URL of each server is sent to an estimator.
	Every time.Duration
	// Gather is how long a set waits for the answers to the previous one, so that one message contains
	// all servers; 0: requests for free servers are sent at once.
	Gather time.Duration
	// Timeout of an estimate: then the server's turn is over and the URL is requested again.
	Timeout time.Duration
	// Message bounds the URLs of an assignment, MessageEvery is the interval of assignments.
	Message      int
	MessageEvery time.Duration // interval of assignments
	// Round is how many URLs of each host a persistent batch assigns at a time, and Outgoing how many
	// assignments may wait before it assigns no more.
	Round, Outgoing int
	// Blacklisted reports whether a server must not be sent any more requests.
	Blacklisted func(*URL) bool
}

// DefaultCycleConfig returns the paper's configuration.
func DefaultCycleConfig() CycleConfig {
	return CycleConfig{
		Hosts: 100, Theta: 0.25, MaxUpdates: 300, Every: 10 * time.Second, Timeout: 2 * time.Minute, Message: 500, MessageEvery: 5 * time.Second,
		Round: 20, Outgoing: 30,
	}
}

// Result is the result of a download by an estimator.
type Result struct {
	URL    URL           // the downloaded URL
	Took   time.Duration // from the request to the last byte
	Bytes  int64         // received
	Failed bool          // no answer
}

// Place is a peer with its coordinate.
type Place struct {
	Peer string     // its ID
	At   Coordinate // its coordinate
}

// Assignment assigns URLs to a peer.
type Assignment struct {
	To   string // the peer that fetches them
	URLs []URL  // at most CycleConfig.Message of them
}

// Cycle is the requester's side of estimation (3.4). It collects hosts until they make a batch and
// sends one URL of each server at a time to a random estimator. The results move the servers'
// coordinates; the remaining URLs are assigned by them. At most one URL of a server is out: so
// estimators alternate, and it gets one request at a time (beyond the paper: papers 5).
type Cycle struct {
	cfg      CycleConfig
	servers  *Servers
	rnd      *rand.Rand
	ready    []Bucket
	batch    *batch
	next     time.Time
	asked    time.Time // of the last set
	outgoing []Assignment
	sendAt   time.Time
	stopped  bool
	stats    CycleStats
}

// Bucket is a host that is worth placing.
type Bucket struct {
	Host string // its name
	URLs []URL  // of one server
}

// CycleStats are the counters of a cycle.
type CycleStats struct {
	Batches, Requests, Assignments int // batches assigned, sets of estimates requested, messages with assignments
	Asked, Failed, TimedOut        int // URLs sent to estimators; failed downloads among them; estimates that did not arrive
	Converged, AtBound             int // servers assigned with an error below theta, batches that ended at the limit of updates
	// Updates of each server that was assigned, Took and Medians of each batch: its time to assignment
	// and its median error then.
	Updates []int
	Took    []time.Duration // from the beginning of a batch to its assignment
	Medians []float64       // of the relative errors at the end of a batch
}

// batch has the servers that are estimated together.
type batch struct {
	begun   time.Time
	order   []netip.Addr
	servers map[netip.Addr]*estimated
}

// estimated is a server of the batch.
type estimated struct {
	urls    fifo[URL]
	out     *URL // the URL that an estimator has
	to      string
	since   time.Time
	updates int
}

// NewCycle returns a cycle without hosts that stores its coordinates in a table of servers. The
// configuration must be valid.
func NewCycle(cfg CycleConfig, servers *Servers, seed uint64) *Cycle {
	return &Cycle{cfg: cfg, servers: servers, rnd: rand.New(rand.NewPCG(seed, seedCycle))}
}

// Add adds a host that is ready. The cycle holds its URLs until it assigns them.
func (c *Cycle) Add(b Bucket) {
	if len(b.URLs) > 0 {
		c.ready = append(c.ready, b)
	}
}

// Estimating reports whether a batch is being estimated, during which the local crawl should be
// slow.
func (c *Cycle) Estimating() bool { return c.batch != nil }

// Stopped reports whether a single batch is done.
func (c *Cycle) Stopped() bool { return c.stopped && len(c.outgoing) == 0 }

// Stats returns the counters; the slices are the cycle's own.
func (c *Cycle) Stats() *CycleStats { return &c.stats }

// Tick begins a batch if enough hosts are ready, and returns the URLs to be sent to an estimator
// now; none if nothing is due.
func (c *Cycle) Tick(now time.Time, estimators []string) (to string, urls []URL) {
	if c.stopped || c.cfg.Mode == ModeNone || now.Before(c.next) {
		return "", nil
	}
	c.next = now.Add(c.cfg.Every)
	if c.batch == nil && len(c.ready) >= c.cfg.Hosts {
		c.begin(now)
	} else if c.batch != nil && c.cfg.Mode == ModePersistent {
		c.refill()
	}
	if c.batch == nil || len(estimators) == 0 {
		return "", nil
	}
	if now.Sub(c.asked) < c.cfg.Gather && c.batch.waits() {
		return "", nil
	}
	to = estimators[c.rnd.IntN(len(estimators))]
	for _, addr := range slices.Clone(c.batch.order) {
		if u := c.turn(now, addr, to); u != nil {
			urls = append(urls, *u)
		}
	}
	if len(urls) > 0 {
		c.asked = now
		c.stats.Requests++
		c.stats.Asked += len(urls)
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

func (c *Cycle) begin(now time.Time) {
	c.batch = &batch{begun: now, servers: make(map[netip.Addr]*estimated)}
	for _, b := range c.ready[:c.cfg.Hosts] {
		c.join(&b)
	}
	c.ready = slices.Clone(c.ready[c.cfg.Hosts:])
}

// join adds a host's URLs to the queue of its server.
func (c *Cycle) join(b *Bucket) {
	addr := b.URLs[0].Addr
	s := c.batch.servers[addr]
	if s == nil {
		s = new(estimated)
		c.batch.servers[addr] = s
		c.batch.order = append(c.batch.order, addr)
	}
	s.urls.push(b.URLs...)
}

// refill adds ready URLs of a persistent batch's servers to it.
func (c *Cycle) refill() {
	c.ready = slices.DeleteFunc(c.ready, func(b Bucket) bool {
		if c.batch.servers[b.URLs[0].Addr] == nil {
			return false
		}
		c.join(&b)
		return true
	})
}

// turn takes the next URL of a server for an estimator, nil if it has none, has one out, or has had
// its updates.
func (c *Cycle) turn(now time.Time, addr netip.Addr, to string) *URL {
	s := c.batch.servers[addr]
	if s.out != nil {
		if now.Sub(s.since) < c.cfg.Timeout {
			return nil
		}
		s.urls.push(*s.out)
		s.out = nil
		c.stats.TimedOut++
	}
	if s.urls.len() == 0 || s.updates >= c.cfg.MaxUpdates && c.cfg.Mode != ModePersistent {
		return nil
	}
	u := s.urls.pop()
	if c.cfg.Blacklisted != nil && c.cfg.Blacklisted(&u) {
		c.remove(addr)
		return nil
	}
	s.out, s.to, s.since = &u, to, now
	return &u
}

// remove drops a server that must not be sent requests.
func (c *Cycle) remove(addr netip.Addr) {
	delete(c.batch.servers, addr)
	c.batch.order = slices.DeleteFunc(c.batch.order, func(a netip.Addr) bool { return a == addr })
	c.servers.Drop(addr)
}

// Report processes the results of an estimator at a coordinate. It ignores unrequested ones.
func (c *Cycle) Report(now time.Time, from string, at *Coordinate, results []Result) {
	if c.batch == nil {
		return
	}
	for i := range results {
		r := &results[i]
		s := c.batch.servers[r.URL.Addr]
		if s == nil || s.out == nil || s.to != from || s.out.URL != r.URL.URL {
			continue
		}
		s.out = nil
		s.updates++
		if r.Failed {
			c.stats.Failed++
			continue
		}
		c.servers.Observe(now, r.URL.Addr, from, at, r.Took)
	}
}

// MedianError returns that of the batch; 1 without one. Unknown servers count as 1.
func (c *Cycle) MedianError(now time.Time) float64 {
	if c.batch == nil || len(c.batch.order) == 0 {
		return 1
	}
	errs := make([]float64, 0, len(c.batch.order))
	for _, addr := range c.batch.order {
		errs = append(errs, c.errorOf(now, addr))
	}
	slices.Sort(errs)
	return errs[len(errs)/2]
}

func (c *Cycle) errorOf(now time.Time, addr netip.Addr) float64 {
	if at, ok := c.servers.At(now, addr); ok {
		return at.Error
	}
	return 1
}
