package control

import "time"

// Status is what one peer says of itself; with Ring asked for, the counters are sums over all ring
// members and Peers lists them. The JSON names are a contract: fields are only ever added.
type Status struct {
	Peer    string   `json:"peer"`           // ID of the peer
	Name    Name     `json:"name,omitempty"` // what its operator calls it
	Addrs   []string `json:"addrs"`          // multiaddrs under which others dial it
	Version string   `json:"version"`        // of the program
	Network string   `json:"network"`        // name of the network it belongs to
	// Time is the peer's clock when it said this.
	Time time.Time `json:"time"`
	// State is joining, crawling, idle, paused or leaving.
	State   string  `json:"state"`
	UptimeS float64 `json:"uptime_s"` // seconds since its start
	// Role is ring or worker: one that others cannot dial, which owns nothing.
	Role string `json:"role,omitempty"`

	Counters

	// OwnPages are the pages that this peer fetched since its start, whichever member owns their
	// hosts.
	OwnPages int64 `json:"own_pages"`
	OwnBytes int64 `json:"own_bytes"` // of their bodies
	// Waits are the hosts that are left alone for a while, by reason.
	Waits []Wait `json:"waits,omitempty"`

	Ring  RingSummary `json:"ring"`  // the ring as it sees it
	Peers []PeerLine  `json:"peers"` // its neighbours; with ring all members and workers

	// Incarnation changes with every start of the process.
	Incarnation uint64 `json:"incarnation"`
	// Reached is how others reach the peer: direct, mapped (at a port that its router forwards),
	// relayed, not, or unknown.
	Reached string `json:"reached,omitempty"`
	// Position is the peer's place on the ring in hex.
	Position string `json:"position"`
	// Holding says why fetching is held up at present, empty if it is not; HoldingUntil is when
	// that ends, nil where no clock tells.
	Holding      string     `json:"holding,omitempty"`
	HoldingUntil *time.Time `json:"holding_until,omitempty"` // nil where no clock tells
	// Stalled is there while nothing moves in the peer although there is work.
	Stalled *Stalled `json:"stalled,omitempty"`
	// SeenLoss is the share of URLs the paper's filter is expected to lose; only with --seen bloom.
	SeenLoss float64 `json:"seen_loss,omitempty"`
	RSSBytes int64   `json:"rss_bytes"` // memory resident in the process
	// LongestStepMS is how long the longest step of the owner of hosts took since the start, the
	// disk left out: for so long a worker, a link or a question may have waited.
	LongestStepMS float64 `json:"longest_step_ms,omitempty"`
	// Dashboard is the URL of the peer's web page, empty if it serves none.
	Dashboard string `json:"dashboard,omitempty"`
	// Governor says what became of fetches under a cap on bandwidth; nil if there was none since
	// the start.
	Governor *Governor `json:"governor,omitempty"`
}

// WhyWorker says why a peer owns nothing.
func (s *Status) WhyWorker() string {
	switch s.Reached {
	case "unknown":
		return "it is not known yet whether others can dial this peer"
	case "direct", "mapped":
		return "others have dialled this peer of late, and it joins soon"
	case "relayed":
		return "others reach this peer through relays only"
	default:
		return "others cannot dial this peer"
	}
}

// Stalled is a peer in which nothing moves.
type Stalled struct {
	// Since is when something moved last.
	Since time.Time `json:"since"`
	// Work is what there is to do.
	Work string `json:"work"`
	// Stacks is the file on that peer's machine in which the stacks of its goroutines are, empty if
	// it could not be written.
	Stacks string `json:"stacks,omitempty"`
}

// Governor is what the governor of bandwidth did since the start.
type Governor struct {
	Name string `json:"name"` // ours, paper, start-stop or none
	// Admitted counts the fetches that it let begin, Passed those of them that began while a higher
	// score waited, Known those from servers whose rate was known.
	Admitted int64 `json:"admitted"`
	Passed   int64 `json:"passed"` // began while a higher score waited
	Known    int64 `json:"known"`  // from servers whose rate was known
}

// Dashboard is where a peer's web page is.
type Dashboard struct {
	URL string `json:"url"` // address of the page
	// Login is a link that works once, for a few minutes: who opens it may use the page's buttons.
	// It is not to be logged.
	Login string `json:"login"`
}

// Counters are the sums that status reports.
type Counters struct {
	// Pages counts fetched documents with a 2xx answer that were new content, Duplicates those
	// whose content was known.
	Pages        int64 `json:"pages"`
	Bytes        int64 `json:"bytes"`         // of bodies fetched
	Duplicates   int64 `json:"duplicates"`    // pages whose content was known
	NoIndex      int64 `json:"noindex"`       // pages that ask not to be indexed: not archived
	Redirects    int64 `json:"redirects"`     // answers that led elsewhere
	Errors       int64 `json:"errors"`        // URLs that ended in a failure
	RobotsDenied int64 `json:"robots_denied"` // URLs that robots.txt forbids
	// Traps are URLs that were left unasked, as their sites make up pages without end, OutOfBudget
	// those beyond a budget, LinksCut links to more new hosts than a page may bring.
	Traps       int64 `json:"traps"`
	OutOfBudget int64 `json:"out_of_budget"` // URLs beyond a budget
	LinksCut    int64 `json:"links_cut"`     // links to more new hosts than a page may bring
	Refetched   int64 `json:"refetched"`     // fetched more than once
	// LinksLeftOut are links of pages beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out"`
	URLsSeen     int64 `json:"urls_seen"`    // accepted into URL sets
	URLsPending  int64 `json:"urls_pending"` // accepted, neither out nor done
	URLsLeased   int64 `json:"urls_leased"`  // given to workers, not yet reported
	// URLsWaiting are the pending URLs that wait for another try; NextRetryS says when the first of
	// them is due.
	URLsWaiting int64   `json:"urls_waiting"`
	NextRetryS  float64 `json:"next_retry_s,omitempty"` // seconds until the first of them is due
	// Outbox counts links not yet acknowledged by their owners.
	Outbox      int64 `json:"outbox"`
	HostsOwned  int64 `json:"hosts_owned"`  // hosts of which a URL was accepted
	HostsLeased int64 `json:"hosts_leased"` // of them, those with a worker
	// URLsPutOff are the pending URLs whose next try is further away than the patience, HostsPutOff
	// their hosts: a crawl of which nothing else is left has ended for now.
	URLsPutOff  int64 `json:"urls_put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"` // hosts with such URLs
}

// Add sums o into c.
func (c *Counters) Add(o *Counters) {
	c.Pages += o.Pages
	c.Bytes += o.Bytes
	c.Duplicates += o.Duplicates
	c.NoIndex += o.NoIndex
	c.Redirects += o.Redirects
	c.Errors += o.Errors
	c.RobotsDenied += o.RobotsDenied
	c.Traps += o.Traps
	c.OutOfBudget += o.OutOfBudget
	c.LinksCut += o.LinksCut
	c.Refetched += o.Refetched
	c.LinksLeftOut += o.LinksLeftOut
	c.URLsSeen += o.URLsSeen
	c.URLsPending += o.URLsPending
	c.URLsLeased += o.URLsLeased
	c.URLsWaiting += o.URLsWaiting
	c.Outbox += o.Outbox
	c.HostsOwned += o.HostsOwned
	c.HostsLeased += o.HostsLeased
	c.URLsPutOff += o.URLsPutOff
	c.HostsPutOff += o.HostsPutOff
	if o.NextRetryS > 0 && (c.NextRetryS == 0 || o.NextRetryS < c.NextRetryS) {
		c.NextRetryS = o.NextRetryS
	}
}

// Outstanding is the work that is not finished: a crawl is idle when it is zero on the whole ring.
func (c *Counters) Outstanding() int64 { return c.URLsPending + c.URLsLeased + c.Outbox }

// Due is the work that is not finished and not put off: a wait for the end of a crawl is over when
// it is zero on the whole ring.
func (c *Counters) Due() int64 { return c.Outstanding() - min(c.URLsPutOff, c.URLsPending) }

// RingSummary is the ring as one peer sees it.
type RingSummary struct {
	// Members: estimated by one peer; counted where the ring was walked.
	Members     int      `json:"members"`
	Predecessor string   `json:"predecessor"` // its ID; empty where the peer is alone
	Successors  []string `json:"successors"`  // IDs, the nearest first
	// Arc: start (not in it) and end (in it), in hex; empty without an arc.
	Arc [2]string `json:"arc"`
	// State is the state of the ring, as of a walk of this moment; empty where nobody walked, as
	// one peer alone cannot tell.
	State string `json:"state,omitempty"`
	// Neighbours is settled or changing: what a peer has noticed of its own neighbours, which is no
	// word on the ring. Empty where the ring was walked.
	Neighbours string `json:"neighbours,omitempty"`
	// Stable says that Neighbours is settled; of a walk, that State is closed.
	Stable bool `json:"stable"`
}

// The states of a ring, which a walk over all members finds.
const (
	RingClosed = "closed" // every member answered, and serves from its predecessor to itself, all the way round
	RingOpen   = "open"   // anything else
)

// What a peer says of its own neighbours.
const (
	NeighboursSettled  = "settled"  // the same for two rounds, as far as it has noticed
	NeighboursChanging = "changing" // one came, went, or does not answer
)

// NeighboursWord names what a peer says of its own neighbours.
func NeighboursWord(settled bool) string {
	if settled {
		return NeighboursSettled
	}
	return NeighboursChanging
}

// PeerLine is one peer in a list.
type PeerLine struct {
	Peer  string  `json:"peer"`           // its ID
	Name  Name    `json:"name,omitempty"` // as far as it is known
	Addr  string  `json:"addr"`           // the first of its multiaddrs, empty if none is known
	RTTMs float64 `json:"rtt_ms"`         // round trip to it in milliseconds, 0 if it is not known
	// Role is ring or worker; stranger of one who is listed for what it was refused alone.
	Role  string `json:"role"`
	Pages int64  `json:"pages"` // as in Counters
	// The rest is filled in by walks over the ring.
	State    string  `json:"state,omitempty"`
	Position string  `json:"position,omitempty"`  // place on the ring in hex
	ArcShare float64 `json:"arc_share,omitempty"` // part of the circle it answers for, 0 to 1
	Hosts    int64   `json:"hosts,omitempty"`     // hosts that it owns
	// Leased: hosts of its own with a worker; of a worker: hosts that it holds.
	Leased int64  `json:"leased,omitempty"`
	Error  string `json:"error,omitempty"` // why nothing more is known
	// ClockMs is how far the peer's clock is ahead of ours, to within half of RTTMs; nil where it
	// was not asked.
	ClockMs *float64 `json:"clock_ms,omitempty"`
	// CoordinateMs is how far the peer is by network coordinates, CoordinateError the larger
	// relative error of the two; nil where that is not known.
	CoordinateMs *float64 `json:"coordinate_ms,omitempty"`
	// CoordinateError: the larger relative error of the two.
	CoordinateError *float64 `json:"coordinate_error,omitempty"`
	// Refused is what this peer refused the other lately; nil: nothing.
	Refused *Refusals `json:"refused,omitempty"`
}

// Refusals are what a peer refused another: requests that it may not make, or that break a bound.
type Refusals struct {
	Requests int64 `json:"requests"` // how many
	Later    int64 `json:"later"`    // of them, those that it may make again: the other's place was not known
	// Request is what the last asked for, and Why it was refused.
	Request string `json:"request"`
	Why     string `json:"why"`
	AgoMS   int64  `json:"ago_ms"` // since the last, in milliseconds
}

// Member is one stop of a walk round the ring.
type Member struct {
	Status
	Jobs      []JobCounts `json:"jobs,omitempty"` // counts of each job it has met
	Successor string      `json:"successor"`      // where the walk goes on: ID of the next peer
	// SuccessorAddrs are the addresses under which this peer knows its successor.
	SuccessorAddrs []string `json:"successor_addrs,omitempty"`
	ArcShare       float64  `json:"arc_share"` // part of the circle it answers for, 0 to 1
	// RTTMs is the least round trip of late from the peer that walks, in milliseconds; 0 of itself.
	RTTMs float64 `json:"rtt_ms"`
	// Leaves are the peers of the leaf set.
	Leaves []string `json:"leaves,omitempty"`
	// Delegated counts, per worker, the hosts of this peer it holds at present.
	Delegated map[string]int `json:"delegated,omitempty"`
	// Attached are the workers that are attached to this peer, as others cannot dial them.
	Attached []string `json:"attached,omitempty"`
	// AttachedAddrs are, of those that have one, their addresses at relays.
	AttachedAddrs map[string][]string `json:"attached_addrs,omitempty"`
	// Moving says that records are on their way to or from this peer, as its arc, or a neighbour's,
	// has changed.
	Moving bool `json:"moving,omitempty"`
}

// Ring is the whole circle as walked from one peer, in ring order beginning with that peer.
type Ring struct {
	Members []Member `json:"members"` // those that answered
	// Closed says that the arcs of the members tile the whole circle.
	Closed bool   `json:"closed"`
	Error  string `json:"error,omitempty"` // why the circle is not closed, in words
}

// State names the state of the ring: RingClosed or RingOpen. Whatever speaks of a ring takes its
// word from here.
func (r *Ring) State() string {
	if r.Closed {
		return RingClosed
	}
	return RingOpen
}

// RingEvent is one line of ring --watch.
type RingEvent struct {
	Time time.Time `json:"time"` // when this peer noticed
	// Event is join, leave, suspect, dead, arc, state.
	Event string `json:"event"`
	Peer  string `json:"peer,omitempty"` // whom it is about; empty: this peer
	Name  Name   `json:"name,omitempty"` // what that peer is called, as far as it is known
	Text  string `json:"text"`           // a sentence for people
}

// Lookup is the answer of ring lookup.
type Lookup struct {
	Query string      `json:"query"`                // as it was asked
	Host  string      `json:"host"`                 // host of the query, in canonical form
	Key   string      `json:"key"`                  // key of the host in hex
	Owner string      `json:"owner"`                // ID of the peer that answers for the key
	Addr  string      `json:"addr"`                 // one of the owner's multiaddrs, empty if none is known
	Arc   [2]string   `json:"arc"`                  // the owner's arc: start (not in it) and end (in it), in hex
	Name  Name        `json:"owner_name,omitempty"` // what the owner is called, as far as it is known
	Calls int         `json:"calls"`                // peers asked
	Trace []LookupHop `json:"trace,omitempty"`      // one line a call
}

// LookupHop is one call of a lookup.
type LookupHop struct {
	Peer      string  `json:"peer"`       // who was asked
	LatencyMs float64 `json:"latency_ms"` // how long the answer took
	Answer    string  `json:"answer"`     // in words: owner, whom to ask next, or the error
}

// JobSpec is what a poster asks for.
type JobSpec struct {
	URLs []string `json:"urls"` // the seeds; one without a scheme is taken as http
	// MoreSeeds: how many URLs the list has that AddSeeds is given part by part, which is too long
	// for URLs; SeedsDigest: the SHA-256 of it, base64.
	MoreSeeds   uint64 `json:"more_seeds,omitempty"`
	SeedsDigest []byte `json:"seeds_digest,omitempty"` // see MoreSeeds
	// Scope: globs of hosts; empty: the hosts of the seeds.
	Scope    []string `json:"scope,omitempty"`
	MaxDepth *uint32  `json:"max_depth,omitempty"` // links from a seed; nil: no bound
	// HostDepths hold in place of MaxDepth for the hosts that they name; the first that matches.
	HostDepths []HostDepth `json:"host_depths,omitempty"`
	// Include and Exclude are patterns of URLs: [HOST]/PATH as in robots.txt, or re:EXPRESSION.
	// Links to pages are followed that match one to include, if there is any; nothing is fetched
	// that matches one to exclude.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // see Include
	// First are such patterns as well: URLs that match one go before others, and their hosts too.
	First []string `json:"first,omitempty"`
	// MaxPages: fetched by all peers together; 0: no bound.
	MaxPages uint64 `json:"max_pages,omitempty"`
	// MaxBytes: fetched by all peers together; 0: no bound.
	MaxBytes uint64 `json:"max_bytes,omitempty"`
	// MaxPagesPerHost: fetched of one host; 0: no bound.
	MaxPagesPerHost uint64 `json:"max_pages_per_host,omitempty"`
	// Requisites: images, scripts and style sheets as well.
	Requisites bool `json:"requisites,omitempty"`
	NoSitemaps bool `json:"no_sitemaps,omitempty"` // do not read sitemaps
	// Retries is the number of tries after the first; nil means the default of three.
	Retries *uint32 `json:"retries,omitempty"`
	// Continue takes up an unfinished job with the same words instead of posting another.
	Continue bool `json:"continue,omitempty"`
	// Once answers with a finished job with the same words, if it fetched anything, instead of
	// posting another.
	Once bool `json:"once,omitempty"`
}

// HostDepth is a bound on how far from a seed URLs of some hosts may be.
type HostDepth struct {
	Host  string `json:"host"`  // glob, as in a scope
	Depth uint32 `json:"depth"` // links from a seed
}

// Job is a job of the ring.
type Job struct {
	ID      string    `json:"id"`      // 32 hexadecimal digits
	State   string    `json:"state"`   // running, paused, canceled or done
	Spec    JobSpec   `json:"spec"`    // what was asked for
	Created time.Time `json:"created"` // by the clock of who posted it
	Owner   string    `json:"owner"`   // ID of the peer that keeps the job's record
	Poster  string    `json:"poster"`  // ID of the key that posted it
	// Signed says that the key did; else it is what whoever posted it said, and anybody can change it.
	Signed bool `json:"signed"`
	// Continued says that Post took up a job that was there.
	Continued bool `json:"continued,omitempty"`
	// Finished is when somebody who waited for the job saw it done; nil if it is not done, or
	// nobody waited.
	Finished *time.Time `json:"finished,omitempty"`
	JobCounts
}

// JobKey is the key that signs what is posted and changed at a peer.
type JobKey struct {
	ID string `json:"id"` // as that of a peer
}

// JobDone is the state of a job of which nothing is left to do.
const JobDone = "done"

// Fetched counts the pages that were fetched.
func (c *JobCounts) Fetched() int64 {
	return c.Outcomes["ok"] + c.Outcomes["duplicate"] + c.Outcomes["noindex"] + c.Outcomes["too_large"]
}

// JobCounts are the counts of one job, of one peer or summed over the ring.
type JobCounts struct {
	// Job: ID; empty where the counts belong to one job anyway.
	Job      string           `json:"job,omitempty"`
	Accepted int64            `json:"accepted"`           // URLs in the URL sets: pending, leased and done
	Done     int64            `json:"done"`               // URLs that have an outcome
	Pending  int64            `json:"pending"`            // URLs neither out nor done
	Leased   int64            `json:"leased"`             // URLs given to workers, not yet reported
	Waiting  int64            `json:"waiting"`            // pending URLs that wait for another try
	Outbox   int64            `json:"outbox"`             // links not yet acknowledged by their owners
	Outcomes map[string]int64 `json:"outcomes,omitempty"` // URLs that are done, by outcome
	Bytes    int64            `json:"bytes"`              // of bodies fetched
	// LinksLeftOut are links of pages beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// NextRetryS is when the first waiting URL is due, 0 if none waits.
	NextRetryS float64 `json:"next_retry_s,omitempty"`
	// PutOff are the pending URLs whose next try is further away than the patience, PutOffHosts
	// their hosts, PutOffNextS when the first of them is due.
	PutOff      int64   `json:"put_off,omitempty"`
	PutOffHosts int64   `json:"put_off_hosts,omitempty"`  // hosts with such URLs
	PutOffNextS float64 `json:"put_off_next_s,omitempty"` // seconds until the first is due
}

// Add sums o into c.
func (c *JobCounts) Add(o *JobCounts) {
	c.Accepted += o.Accepted
	c.Done += o.Done
	c.Pending += o.Pending
	c.Leased += o.Leased
	c.Waiting += o.Waiting
	c.Outbox += o.Outbox
	c.Bytes += o.Bytes
	c.LinksLeftOut += o.LinksLeftOut
	c.PutOff += o.PutOff
	c.PutOffHosts += o.PutOffHosts
	c.PutOffNextS = sooner(c.PutOffNextS, o.PutOffNextS)
	for k, v := range o.Outcomes {
		if c.Outcomes == nil {
			c.Outcomes = make(map[string]int64)
		}
		c.Outcomes[k] += v
	}
	if o.NextRetryS > 0 && (c.NextRetryS == 0 || o.NextRetryS < c.NextRetryS) {
		c.NextRetryS = o.NextRetryS
	}
}

// Outstanding is the job's unfinished work.
func (c *JobCounts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox }

// Due is what of it is not put off.
func (c *JobCounts) Due() int64 { return c.Outstanding() - min(c.PutOff, c.Pending) }

// HostLine is one host in a list.
type HostLine struct {
	Host  string `json:"host"`  // name, with the port if it is not the usual one
	Key   string `json:"key"`   // in hex
	Owner string `json:"owner"` // ID of the peer that keeps the host
	// Worker: ID of the peer that holds its lease, empty if nobody does.
	Worker string `json:"worker,omitempty"`
	// PlacedAt is the worker chosen last, also when its lease is over.
	PlacedAt string `json:"placed_at,omitempty"`
	// RTTMs is the round trip to the host in milliseconds that PlacedAt measured, or is remembered
	// to have, LeastRTTMs the least of all that were measured when it was chosen.
	RTTMs      float64 `json:"rtt_ms,omitempty"`
	LeastRTTMs float64 `json:"least_rtt_ms,omitempty"`
	// LatencyRow is as in Host.
	LatencyRow *int  `json:"latency_row,omitempty"`
	Seen       int64 `json:"urls_seen"`    // as Accepted in JobCounts, of all jobs
	Pending    int64 `json:"urls_pending"` // of all jobs
	Pages      int64 `json:"pages"`        // new content, of all jobs
	Left       int64 `json:"urls_left"`    // left as traps or beyond a budget, of all jobs
}

// Behind is by how many milliseconds a round trip is longer than the least one: 0 where it is
// within 1 ms, or 5 %, which nobody need care for.
func Behind(ms, least float64) float64 {
	if behind := ms - least; behind > max(1, least/20) {
		return behind
	}
	return 0
}

// Host is all that is known of a host.
type Host struct {
	Host   string `json:"host"`             // name, with the port if it is not the usual one
	Key    string `json:"key"`              // in hex
	Owner  string `json:"owner"`            // ID of the peer that keeps the host
	Known  bool   `json:"known"`            // the owner has a record of it; without one the rest is empty
	Worker string `json:"worker,omitempty"` // ID of the peer that holds its lease
	Epoch  string `json:"epoch,omitempty"`  // of the lease: counter@peer
	// LeaseS: seconds until the lease ends, unless it is renewed.
	LeaseS float64  `json:"lease_s,omitempty"`
	Addrs  []string `json:"addrs,omitempty"` // IP addresses
	// NotBeforeS is the politeness or back-off still owed; Backoff says why.
	NotBeforeS float64 `json:"not_before_s,omitempty"`
	Backoff    string  `json:"backoff,omitempty"` // why, in words
	// Fails counts the failures in a row, FailOutcome is what the last one was.
	Fails       uint32 `json:"fails,omitempty"`
	FailOutcome string `json:"fail_outcome,omitempty"` // what the last failure was
	// PutOff says that the next request is further away than the peer's patience.
	PutOff bool         `json:"put_off,omitempty"`
	Robots []RobotsLine `json:"robots,omitempty"` // robots.txt by origin
	// OptedOut says why nothing of the host is fetched, OptedOutS since when by its record.
	OptedOut string `json:"opted_out,omitempty"`
	// OptedOutS: seconds since it opted out; 0 where no record tells.
	OptedOutS float64   `json:"opted_out_s,omitempty"`
	Jobs      []HostJob `json:"jobs,omitempty"` // counts of each job that has URLs of it
	// Budgets are those of the host's owner.
	Budgets *Budgets `json:"budgets,omitempty"`
	// Placement is who was asked to measure the host for its last placement, and what each found,
	// with those of whom it was known already.
	Placement []Measurement `json:"placement,omitempty"`
	// PlacedAt is the worker chosen then, PlacedBy the strategy, PlacedWhy its reason, PlacedS how
	// long ago that was.
	PlacedAt  string  `json:"placed_at,omitempty"`
	PlacedBy  string  `json:"placed_by,omitempty"`  // the strategy that chose
	PlacedWhy string  `json:"placed_why,omitempty"` // its reason, in words
	PlacedS   float64 `json:"placed_s,omitempty"`   // seconds since then
	// Coordinate is where the host's server stands, if its owner places by network coordinates and
	// knows.
	Coordinate *Coordinate `json:"coordinate,omitempty"`
	// LatencyRow is the host's row in the matrix of emulated distances, if its owner has one and
	// its address is known.
	LatencyRow *int `json:"latency_row,omitempty"`
	// Names are what the peers above are called, by their IDs, as far as it is known.
	Names map[string]Name `json:"names,omitempty"`
}

// HostJob are the counts of a job on a host.
type HostJob struct {
	JobCounts
	// Requests are those made to the host, LinksCut links of its pages and to it that were not
	// taken, as they led to too many new hosts, or as too much of it waits.
	Requests int64  `json:"requests"`
	LinksCut int64  `json:"links_cut,omitempty"` // links to too many new hosts, or URLs too many, not taken
	Spent    string `json:"spent,omitempty"`     // which share of the host the job has used up, in words; empty: none
	// Novelty is how far the host, or some part of it, has come on the way to a trap, 0 to 1; Trap
	// says why, if the host or a part of it is one.
	Novelty float64 `json:"novelty"`
	Trap    string  `json:"trap,omitempty"` // why the host, or a part of it, is a trap; empty if none is
}

// Budgets bound what a site can make of a crawl; 0 is no bound.
type Budgets struct {
	MaxRequestsPerHost int `json:"max_requests_per_host"` // requests to one host for one job
	// MaxBytesPerHost: bytes of bodies of one host for one job, about.
	MaxBytesPerHost int64 `json:"max_bytes_per_host"`
	// PageHosts: hosts unknown to a page's owner that the links of that page may lead to.
	PageHosts int `json:"page_hosts"`
	// DomainHosts: hosts of one registrable domain that one job may have.
	DomainHosts int `json:"domain_hosts"`
	// Novelty: pages in a row without anything new after which a part of a site is left.
	Novelty int `json:"novelty"`
}

// RobotsLine is what is known of one origin's robots.txt.
type RobotsLine struct {
	Origin  string `json:"origin"`  // scheme, host and port
	Verdict string `json:"verdict"` // unknown, obey, allow_all or disallow_all
	// AgeS is how long ago it, or that there is none, was had; 0: it never was.
	AgeS  float64 `json:"age_s"`
	Bytes int     `json:"bytes"` // size of the file as it is kept
	// Failures are the tries in a row at which it could not be had, NextS is when it is asked for
	// again, 0 if it is to be asked for now.
	Failures int     `json:"failures,omitempty"`
	NextS    float64 `json:"next_s,omitempty"` // seconds until it is asked for again; 0: now
}

// Measurement is what one candidate measured to a site.
type Measurement struct {
	Peer string `json:"peer"` // ID of the candidate
	// Addr is where the owner reaches the peer.
	Addr   string  `json:"addr,omitempty"`
	RTTMs  float64 `json:"rtt_ms"`           // round trip to the site in milliseconds, 0 if it failed
	Error  string  `json:"error,omitempty"`  // why it failed
	Chosen bool    `json:"chosen,omitempty"` // the host went to this candidate
}

// Coordinate is the network coordinate of a host's server.
type Coordinate struct {
	Addr     string    `json:"addr"`      // IP address of the server
	VectorMs []float64 `json:"vector_ms"` // its place, in milliseconds
	HeightMs float64   `json:"height_ms"` // what its own link adds to each distance
	// Error is the relative error of distances, Theta that under which it is good enough to place
	// by, Updates the downloads that moved it.
	Error   float64 `json:"error"`
	Theta   float64 `json:"theta"`   // bound of Error below which hosts are placed by it
	Updates int     `json:"updates"` // downloads that moved it
	// Estimators are the candidates, with what each downloaded of late and what a page is expected
	// to take there.
	Estimators []Estimator `json:"estimators"`
}

// Estimator is a candidate as a server's coordinate knows it.
type Estimator struct {
	Peer string `json:"peer"` // its ID
	// Samples are the downloads of its own that count at present.
	Samples int `json:"samples"`
	// ExpectedMs is what a page should take there, 0 if that peer's own coordinate is not known.
	ExpectedMs float64 `json:"expected_ms,omitempty"`
	Chosen     bool    `json:"chosen,omitempty"` // the host went to it
}

// Why explains what became of a URL, job by job.
type Why struct {
	Input     string    `json:"input"`     // as it was asked
	URL       string    `json:"url"`       // canonical form of the input
	Canonical bool      `json:"canonical"` // the input was canonical already
	Host      string    `json:"host"`      // host of the URL
	Owner     string    `json:"owner"`     // ID of the peer that keeps the host
	Jobs      []WhyLine `json:"jobs"`      // its fate, job by job
	// Text: what holds for all jobs, in words; empty where the jobs tell all.
	Text string `json:"text"`
}

// WhyLine is the fate of a URL in one job.
type WhyLine struct {
	Job     string `json:"job"`               // its ID
	State   string `json:"state"`             // unknown, pending, leased, waiting, done, out_of_scope, ...
	Outcome string `json:"outcome,omitempty"` // once done
	Status  int    `json:"status,omitempty"`  // of HTTP, once done; 0 without an answer
	Depth   uint32 `json:"depth"`             // links from a seed
	Tries   int    `json:"tries,omitempty"`   // failed so far
	// LinksLeftOut are links of the page, or where nobody has heard of it of all pages of the job,
	// beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// DueS is when the next try is due, at the earliest, of a URL that waits or whose host is left
	// alone; PutOff that this is further away than the peer's patience.
	DueS   float64 `json:"due_s,omitempty"`
	PutOff bool    `json:"put_off,omitempty"` // DueS is further away than the patience
	Text   string  `json:"text"`              // a sentence for people
}

// Progress is one line of a wait for idleness.
type Progress struct {
	Counters
	Members int     `json:"members"`   // peers that the walk met
	Idle    bool    `json:"idle"`      // nothing is left that is due; the last line of a wait
	ElapseS float64 `json:"elapsed_s"` // seconds since the wait began
	// Waits are the hosts that are left alone for a while, by reason.
	Waits []Wait `json:"waits,omitempty"`
	// Note says what the wait is held up by, where that is not plain work (a walk that met a dead
	// peer, say).
	Note string `json:"note,omitempty"`
}

// URLLine is one line of export urls.
type URLLine struct {
	URL     string `json:"url"`              // canonical
	Job     string `json:"job"`              // its ID
	Outcome string `json:"outcome"`          // how it ended
	Status  int    `json:"status,omitempty"` // of HTTP; 0 without an answer
	// Redirect is where a redirect leads; empty if that is longer than 1,024 bytes.
	Redirect string `json:"redirect,omitempty"`
	Detail   string `json:"detail,omitempty"` // of a failure, in words
	Depth    uint32 `json:"depth"`            // links from a seed
	Hops     uint8  `json:"hops,omitempty"`   // redirects followed to come here
	Kind     string `json:"kind"`             // what it was found as: page, sitemap, requisite or robots
	Tries    uint8  `json:"tries,omitempty"`  // that failed before
	Digest   string `json:"digest,omitempty"` // of the body: sha256: and hex
	Size     uint64 `json:"size,omitempty"`   // bytes of the body
	MIME     string `json:"mime,omitempty"`   // type of the body, without parameters
	// ETag and LastModified are header fields of the answer, as the site wrote them.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"` // see ETag
	DurationMs   uint32 `json:"duration_ms,omitempty"`   // of the exchange
	// LinksLeftOut are links of the page beyond the bounds of what is taken of one.
	LinksLeftOut uint32 `json:"links_left_out,omitempty"`
	// Fetched: time in UTC, to the millisecond; empty if it was never fetched.
	Fetched string `json:"fetched,omitempty"`
	Record  string `json:"record,omitempty"` // ID of the WARC record, as urn:uuid
	Holder  string `json:"holder,omitempty"` // ID of the peer whose archive has the record
}

// OptOutCheck says whether a URL is left alone because those who run its site wish so, and what the
// site would have to show to opt out.
type OptOutCheck struct {
	URL      string `json:"url"`       // canonical
	Host     string `json:"host"`      // host of the URL
	OptedOut bool   `json:"opted_out"` // there is at least one reason
	// Reasons are those of this peer's lists, and that of the host's record.
	Reasons []string `json:"reasons,omitempty"`
	Addrs   []string `json:"addrs,omitempty"` // IP addresses of the host
	// Token is the line that the host puts at WellKnown, or into a TXT record, to opt out;
	// WithdrawToken that to withdraw it.
	Token         string `json:"token"`
	WithdrawToken string `json:"withdraw_token"` // the line that withdraws the opt-out
	WellKnown     string `json:"well_known"`     // path on the host at which the line is looked for
}

// OptOuts are the opt-outs that a peer knows of: its own lists, and what it keeps for the ring.
type OptOuts struct {
	Lists   []OptOutList `json:"lists"`   // files and URLs that this peer was given
	Domains []string     `json:"domains"` // registrable domains whose records this peer keeps
	Hosts   []string     `json:"hosts"`   // hosts whose records this peer keeps
}

// OptOutList is one list of a peer with its first rules.
type OptOutList struct {
	From  string   `json:"from"`            // file or URL
	Rules int      `json:"rules"`           // how many it has
	First []string `json:"first,omitempty"` // the first of them
}

// OptOut is what became of a site's wish.
type OptOut struct {
	Subject string `json:"subject"` // host or domain, and its name
	Action  string `json:"action"`  // opt-out or withdraw
	// Changed says that it was otherwise before.
	Changed bool `json:"changed"`
}
