package control

import "time"

// Status is what one peer says of itself; with Ring asked for, the counters are sums over all ring members and Peers lists them.
// The JSON names are a contract: fields are only ever added.
type Status struct {
	Peer    string   `json:"peer"`
	Addrs   []string `json:"addrs"`
	Version string   `json:"version"`
	Network string   `json:"network"`
	// Time is the peer's clock when it said this.
	Time time.Time `json:"time"`
	// State is joining, crawling, idle, paused or leaving.
	State   string  `json:"state"`
	UptimeS float64 `json:"uptime_s"`
	// Role is ring or worker: one that others cannot dial, which owns nothing.
	Role string `json:"role,omitempty"`

	Counters

	// Waits are the hosts that are left alone for a while, by reason.
	Waits []Wait `json:"waits,omitempty"`

	Ring  RingSummary `json:"ring"`
	Peers []PeerLine  `json:"peers"`

	// Incarnation changes with every start of the process.
	Incarnation uint64 `json:"incarnation"`
	// Reached is how others reach the peer: direct, mapped (at a port that its router forwards), relayed, not, or unknown.
	Reached string `json:"reached,omitempty"`
	// Position is the peer's place on the ring in hex.
	Position string `json:"position"`
	// Holding says why fetching is held up at present, empty if it is not; HoldingUntil is when that ends, nil where no clock tells.
	Holding      string     `json:"holding,omitempty"`
	HoldingUntil *time.Time `json:"holding_until,omitempty"`
	// Stalled is there while nothing moves in the peer although there is work.
	Stalled *Stalled `json:"stalled,omitempty"`
	// SeenLoss is the share of URLs the paper's filter is expected to lose; only with --seen bloom.
	SeenLoss float64 `json:"seen_loss,omitempty"`
	RSSBytes int64   `json:"rss_bytes"`
	// Dashboard is the URL of the peer's web page, empty if it serves none.
	Dashboard string `json:"dashboard,omitempty"`
	// Governor says what became of fetches under a cap on bandwidth; nil if there was none since the start.
	Governor *Governor `json:"governor,omitempty"`
}

// Stalled is a peer in which nothing moves.
type Stalled struct {
	// Since is when something moved last.
	Since time.Time `json:"since"`
	// Work is what there is to do.
	Work string `json:"work"`
	// Stacks is the file on that peer's machine in which the stacks of its goroutines are, empty if it could not be written.
	Stacks string `json:"stacks,omitempty"`
}

// Governor is what the governor of bandwidth did since the start.
type Governor struct {
	Name string `json:"name"`
	// Admitted counts the fetches that it let begin, Passed those of them that began while a higher score waited, Known those from servers whose rate was known.
	Admitted int64 `json:"admitted"`
	Passed   int64 `json:"passed"`
	Known    int64 `json:"known"`
}

// Dashboard is where a peer's web page is.
type Dashboard struct {
	URL string `json:"url"`
	// Login is a link that works once, for a few minutes: who opens it may use the page's buttons. It is not to be logged.
	Login string `json:"login"`
}

// Counters are the sums that status reports.
type Counters struct {
	// Pages counts fetched documents with a 2xx answer that were new content, Duplicates those whose content was known.
	Pages        int64 `json:"pages"`
	Bytes        int64 `json:"bytes"`
	Duplicates   int64 `json:"duplicates"`
	Redirects    int64 `json:"redirects"`
	Errors       int64 `json:"errors"`
	RobotsDenied int64 `json:"robots_denied"`
	// Traps are URLs that were left unasked, as their sites make up pages without end, OutOfBudget those beyond a budget, LinksCut links to more new hosts than
	// a page may bring.
	Traps       int64 `json:"traps"`
	OutOfBudget int64 `json:"out_of_budget"`
	LinksCut    int64 `json:"links_cut"`
	Refetched   int64 `json:"refetched"`
	// LinksLeftOut are links of pages beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out"`
	URLsSeen     int64 `json:"urls_seen"`
	URLsPending  int64 `json:"urls_pending"`
	URLsLeased   int64 `json:"urls_leased"`
	// URLsWaiting are the pending URLs that wait for another try; NextRetryS says when the first of them is due.
	URLsWaiting int64   `json:"urls_waiting"`
	NextRetryS  float64 `json:"next_retry_s,omitempty"`
	// Outbox counts links not yet acknowledged by their owners.
	Outbox      int64 `json:"outbox"`
	HostsOwned  int64 `json:"hosts_owned"`
	HostsLeased int64 `json:"hosts_leased"`
	// URLsPutOff are the pending URLs whose next try is further away than the patience, HostsPutOff their hosts: a crawl of which nothing else is left has ended for now.
	URLsPutOff  int64 `json:"urls_put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"`
}

// Add sums o into c.
func (c *Counters) Add(o *Counters) {
	c.Pages += o.Pages
	c.Bytes += o.Bytes
	c.Duplicates += o.Duplicates
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

// Due is the work that is not finished and not put off: a wait for the end of a crawl is over when it is zero on the whole ring.
func (c *Counters) Due() int64 { return c.Outstanding() - min(c.URLsPutOff, c.URLsPending) }

// RingSummary is the ring as one peer sees it.
type RingSummary struct {
	Members     int       `json:"members"`
	Predecessor string    `json:"predecessor"`
	Successors  []string  `json:"successors"`
	Arc         [2]string `json:"arc"`
	Stable      bool      `json:"stable"`
}

// PeerLine is one peer in a list.
type PeerLine struct {
	Peer  string  `json:"peer"`
	Addr  string  `json:"addr"`
	RTTMs float64 `json:"rtt_ms"`
	// Role is ring or worker.
	Role  string `json:"role"`
	Pages int64  `json:"pages"`
	// The rest is filled in by walks over the ring.
	State    string  `json:"state,omitempty"`
	Position string  `json:"position,omitempty"`
	ArcShare float64 `json:"arc_share,omitempty"`
	Hosts    int64   `json:"hosts,omitempty"`
	Leased   int64   `json:"leased,omitempty"`
	Error    string  `json:"error,omitempty"`
	// ClockMs is how far the peer's clock is ahead of ours, to within half of RTTMs; nil where it was not asked.
	ClockMs *float64 `json:"clock_ms,omitempty"`
	// CoordinateMs is how far the peer is by network coordinates, CoordinateError the larger relative error of the two; nil where that is not known.
	CoordinateMs    *float64 `json:"coordinate_ms,omitempty"`
	CoordinateError *float64 `json:"coordinate_error,omitempty"`
}

// Member is one stop of a walk round the ring.
type Member struct {
	Status
	Jobs      []JobCounts `json:"jobs,omitempty"`
	Successor string      `json:"successor"`
	// SuccessorAddrs are the addresses under which this peer knows its successor.
	SuccessorAddrs []string `json:"successor_addrs,omitempty"`
	ArcShare       float64  `json:"arc_share"`
	RTTMs          float64  `json:"rtt_ms"`
	// Leaves are the peers of the leaf set.
	Leaves []string `json:"leaves,omitempty"`
	// Delegated counts, per worker, the hosts of this peer it holds at present.
	Delegated map[string]int `json:"delegated,omitempty"`
	// Attached are the workers that are attached to this peer, as others cannot dial them.
	Attached []string `json:"attached,omitempty"`
	// AttachedAddrs are, of those that have one, their addresses at relays.
	AttachedAddrs map[string][]string `json:"attached_addrs,omitempty"`
	// Moving says that records are on their way to or from this peer, as its arc, or a neighbour's, has changed.
	Moving bool `json:"moving,omitempty"`
}

// Ring is the whole circle as walked from one peer, in ring order beginning with that peer.
type Ring struct {
	Members []Member `json:"members"`
	// Closed says that the arcs of the members tile the whole circle.
	Closed bool   `json:"closed"`
	Error  string `json:"error,omitempty"`
}

// RingEvent is one line of ring --watch.
type RingEvent struct {
	Time time.Time `json:"time"`
	// Event is join, leave, suspect, dead, arc, state.
	Event string `json:"event"`
	Peer  string `json:"peer,omitempty"`
	Text  string `json:"text"`
}

// Lookup is the answer of ring lookup.
type Lookup struct {
	Query string      `json:"query"`
	Host  string      `json:"host"`
	Key   string      `json:"key"`
	Owner string      `json:"owner"`
	Addr  string      `json:"addr"`
	Arc   [2]string   `json:"arc"`
	Calls int         `json:"calls"`
	Trace []LookupHop `json:"trace,omitempty"`
}

// LookupHop is one call of a lookup.
type LookupHop struct {
	Peer      string  `json:"peer"`
	LatencyMs float64 `json:"latency_ms"`
	Answer    string  `json:"answer"`
}

// JobSpec is what a poster asks for.
type JobSpec struct {
	URLs            []string `json:"urls"`
	Scope           []string `json:"scope,omitempty"`
	MaxDepth        *uint32  `json:"max_depth,omitempty"`
	MaxPages        uint64   `json:"max_pages,omitempty"`
	MaxBytes        uint64   `json:"max_bytes,omitempty"`
	MaxPagesPerHost uint64   `json:"max_pages_per_host,omitempty"`
	Requisites      bool     `json:"requisites,omitempty"`
	NoSitemaps      bool     `json:"no_sitemaps,omitempty"`
	// Retries is the number of tries after the first; nil means the default of three.
	Retries *uint32 `json:"retries,omitempty"`
	// Continue takes up an unfinished job with the same words instead of posting another.
	Continue bool `json:"continue,omitempty"`
}

// Job is a job of the ring.
type Job struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Spec    JobSpec   `json:"spec"`
	Created time.Time `json:"created"`
	Owner   string    `json:"owner"`
	// Continued says that Post took up a job that was there.
	Continued bool `json:"continued,omitempty"`
	JobCounts
}

// JobCounts are the counts of one job, of one peer or summed over the ring.
type JobCounts struct {
	Job      string           `json:"job,omitempty"`
	Accepted int64            `json:"accepted"`
	Done     int64            `json:"done"`
	Pending  int64            `json:"pending"`
	Leased   int64            `json:"leased"`
	Waiting  int64            `json:"waiting"`
	Outbox   int64            `json:"outbox"`
	Outcomes map[string]int64 `json:"outcomes,omitempty"`
	Bytes    int64            `json:"bytes"`
	// LinksLeftOut are links of pages beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// NextRetryS is when the first waiting URL is due, 0 if none waits.
	NextRetryS float64 `json:"next_retry_s,omitempty"`
	// PutOff are the pending URLs whose next try is further away than the patience, PutOffHosts their hosts, PutOffNextS when the first of them is due.
	PutOff      int64   `json:"put_off,omitempty"`
	PutOffHosts int64   `json:"put_off_hosts,omitempty"`
	PutOffNextS float64 `json:"put_off_next_s,omitempty"`
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
	Host   string `json:"host"`
	Key    string `json:"key"`
	Owner  string `json:"owner"`
	Worker string `json:"worker,omitempty"`
	// PlacedAt is the worker chosen last, also when its lease is over.
	PlacedAt string `json:"placed_at,omitempty"`
	Seen     int64  `json:"urls_seen"`
	Pending  int64  `json:"urls_pending"`
	Pages    int64  `json:"pages"`
}

// Host is all that is known of a host.
type Host struct {
	Host    string   `json:"host"`
	Key     string   `json:"key"`
	Owner   string   `json:"owner"`
	Known   bool     `json:"known"`
	Worker  string   `json:"worker,omitempty"`
	Epoch   string   `json:"epoch,omitempty"`
	LeaseS  float64  `json:"lease_s,omitempty"`
	Addrs   []string `json:"addrs,omitempty"`
	DelayMs float64  `json:"delay_ms,omitempty"`
	// NotBeforeS is the politeness or back-off still owed; Backoff says why.
	NotBeforeS float64 `json:"not_before_s,omitempty"`
	Backoff    string  `json:"backoff,omitempty"`
	// Fails counts the failures in a row, FailOutcome is what the last one was.
	Fails       uint32 `json:"fails,omitempty"`
	FailOutcome string `json:"fail_outcome,omitempty"`
	// PutOff says that the next request is further away than the peer's patience.
	PutOff bool         `json:"put_off,omitempty"`
	Robots []RobotsLine `json:"robots,omitempty"`
	// OptedOut says why nothing of the host is fetched, OptedOutS since when by its record.
	OptedOut  string    `json:"opted_out,omitempty"`
	OptedOutS float64   `json:"opted_out_s,omitempty"`
	Jobs      []HostJob `json:"jobs,omitempty"`
	// Budgets are those of the host's owner.
	Budgets *Budgets `json:"budgets,omitempty"`
	// Placement is who was asked to measure the host for its last placement, and what each found, with those of whom it was known already.
	Placement []Measurement `json:"placement,omitempty"`
	// PlacedAt is the worker chosen then, PlacedBy the strategy, PlacedWhy its reason, PlacedS how long ago that was.
	PlacedAt  string  `json:"placed_at,omitempty"`
	PlacedBy  string  `json:"placed_by,omitempty"`
	PlacedWhy string  `json:"placed_why,omitempty"`
	PlacedS   float64 `json:"placed_s,omitempty"`
	// Coordinate is where the host's server stands, if its owner places by network coordinates and knows.
	Coordinate *Coordinate `json:"coordinate,omitempty"`
	// LatencyRow is the host's row in the matrix of emulated distances, if its owner has one and its address is known.
	LatencyRow *int `json:"latency_row,omitempty"`
}

// HostJob are the counts of a job on a host.
type HostJob struct {
	JobCounts
	// Requests are those made to the host, LinksCut links of its pages that were not taken, as they led to too many new hosts.
	Requests int64 `json:"requests"`
	LinksCut int64 `json:"links_cut,omitempty"`
	// Novelty is how far the host, or some part of it, has come on the way to a trap, 0 to 1; Trap says why all of it is one, if it is.
	Novelty float64 `json:"novelty"`
	Trap    string  `json:"trap,omitempty"`
}

// Budgets bound what a site can make of a crawl; 0 is no bound.
type Budgets struct {
	MaxRequestsPerHost int `json:"max_requests_per_host"`
	PageHosts          int `json:"page_hosts"`
	DomainHosts        int `json:"domain_hosts"`
	Novelty            int `json:"novelty"`
}

// RobotsLine is what is known of one origin's robots.txt.
type RobotsLine struct {
	Origin  string `json:"origin"`
	Verdict string `json:"verdict"`
	// AgeS is how long ago it, or that there is none, was had; 0: it never was.
	AgeS  float64 `json:"age_s"`
	Bytes int     `json:"bytes"`
	// Failures are the tries in a row at which it could not be had, NextS is when it is asked for again, 0 if it is to be asked for now.
	Failures int     `json:"failures,omitempty"`
	NextS    float64 `json:"next_s,omitempty"`
}

// Measurement is what one candidate measured to a site.
type Measurement struct {
	Peer string `json:"peer"`
	// Addr is where the owner reaches the peer.
	Addr   string  `json:"addr,omitempty"`
	RTTMs  float64 `json:"rtt_ms"`
	Error  string  `json:"error,omitempty"`
	Chosen bool    `json:"chosen,omitempty"`
}

// Coordinate is the network coordinate of a host's server.
type Coordinate struct {
	Addr     string    `json:"addr"`
	VectorMs []float64 `json:"vector_ms"`
	HeightMs float64   `json:"height_ms"`
	// Error is the relative error of distances, Theta that under which it is good enough to place by, Updates the downloads that moved it.
	Error   float64 `json:"error"`
	Theta   float64 `json:"theta"`
	Updates int     `json:"updates"`
	// Estimators are the candidates, with what each downloaded of late and what a page is expected to take there.
	Estimators []Estimator `json:"estimators"`
}

// Estimator is a candidate as a server's coordinate knows it.
type Estimator struct {
	Peer string `json:"peer"`
	// Samples are the downloads of its own that count at present.
	Samples int `json:"samples"`
	// ExpectedMs is what a page should take there, 0 if that peer's own coordinate is not known.
	ExpectedMs float64 `json:"expected_ms,omitempty"`
	Chosen     bool    `json:"chosen,omitempty"`
}

// Why explains what became of a URL, job by job.
type Why struct {
	Input     string    `json:"input"`
	URL       string    `json:"url"`
	Canonical bool      `json:"canonical"`
	Host      string    `json:"host"`
	Owner     string    `json:"owner"`
	Jobs      []WhyLine `json:"jobs"`
	Text      string    `json:"text"`
}

// WhyLine is the fate of a URL in one job.
type WhyLine struct {
	Job     string `json:"job"`
	State   string `json:"state"` // unknown, pending, leased, waiting, done, out_of_scope, ...
	Outcome string `json:"outcome,omitempty"`
	Status  int    `json:"status,omitempty"`
	Depth   uint32 `json:"depth"`
	Tries   int    `json:"tries,omitempty"`
	// LinksLeftOut are links of the page, or where nobody has heard of it of all pages of the job, beyond the bounds of what is taken of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// DueS is when the next try is due, at the earliest, of a URL that waits or whose host is left alone; PutOff that this is further away than the peer's patience.
	DueS   float64 `json:"due_s,omitempty"`
	PutOff bool    `json:"put_off,omitempty"`
	Text   string  `json:"text"`
}

// Progress is one line of a wait for idleness.
type Progress struct {
	Counters
	Members int     `json:"members"`
	Idle    bool    `json:"idle"`
	ElapseS float64 `json:"elapsed_s"`
	// Waits are the hosts that are left alone for a while, by reason.
	Waits []Wait `json:"waits,omitempty"`
	// Note says what the wait is held up by, where that is not plain work (a walk that met a dead peer, say).
	Note string `json:"note,omitempty"`
}

// URLLine is one line of export urls.
type URLLine struct {
	URL     string `json:"url"`
	Job     string `json:"job"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
	Depth   uint32 `json:"depth"`
	Digest  string `json:"digest,omitempty"`
	Size    uint64 `json:"size,omitempty"`
	Fetched string `json:"fetched,omitempty"`
	Record  string `json:"record,omitempty"`
	Holder  string `json:"holder,omitempty"`
}

// OptOutCheck says whether a URL is left alone because those who run its site wish so, and what the site would have to show to opt out.
type OptOutCheck struct {
	URL      string `json:"url"`
	Host     string `json:"host"`
	OptedOut bool   `json:"opted_out"`
	// Reasons are those of this peer's lists, and that of the host's record.
	Reasons []string `json:"reasons,omitempty"`
	Addrs   []string `json:"addrs,omitempty"`
	// Token is the line that the host puts at WellKnown, or into a TXT record, to opt out; WithdrawToken that to withdraw it.
	Token         string `json:"token"`
	WithdrawToken string `json:"withdraw_token"`
	WellKnown     string `json:"well_known"`
}

// OptOuts are the opt-outs that a peer knows of: its own lists, and what it keeps for the ring.
type OptOuts struct {
	Lists   []OptOutList `json:"lists"`
	Domains []string     `json:"domains"`
	Hosts   []string     `json:"hosts"`
}

// OptOutList is one list of a peer with its first rules.
type OptOutList struct {
	From  string   `json:"from"`
	Rules int      `json:"rules"`
	First []string `json:"first,omitempty"`
}

// OptOut is what became of a site's wish.
type OptOut struct {
	Subject string `json:"subject"`
	Action  string `json:"action"`
	// Changed says that it was otherwise before.
	Changed bool `json:"changed"`
}
