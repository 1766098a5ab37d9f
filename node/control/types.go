package control

import (
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
)

// Types of the owner that are reported as they are.
type (
	// Counters are the sums that status reports.
	Counters = owner.Totals
	// JobCounts are the counts of one job, of one peer or summed over the ring.
	JobCounts = owner.Counts
	// HostJob are the counts of a job on a host.
	HostJob = owner.HostCounts
	// RuleLeft are the URLs of a host that a trap rule left.
	RuleLeft = owner.RuleLeft
	// Wait is the sum of the deferred hosts with pending URLs, for one reason.
	Wait = owner.Wait
	// WaitingHost is a deferred host.
	WaitingHost = owner.WaitingHost
)

// Status is the status of one peer; with ring=1 the counters are sums over all ring members and
// Peers lists them. The JSON names are stable: fields are only added.
type Status struct {
	Peer    string   `json:"peer"`           // ID of the peer
	Name    Name     `json:"name,omitempty"` // given by its operator
	Addrs   []string `json:"addrs"`          // multiaddrs at which others dial it
	Version string   `json:"version"`        // of the program
	Network string   `json:"network"`        // name of the network it belongs to
	// Time is the peer's clock at the time of the report.
	Time time.Time `json:"time"`
	// State is joining, crawling, idle, paused or leaving.
	State   string  `json:"state"`
	UptimeS float64 `json:"uptime_s"` // seconds since its start
	// Role is ring or worker. A worker cannot be dialed directly and owns no hosts.
	Role string `json:"role,omitempty"`

	Counters

	// OwnPages are the pages that this peer fetched since its start, for any owner.
	OwnPages int64 `json:"own_pages"`
	OwnBytes int64 `json:"own_bytes"` // of their bodies
	// OwnRevisits are the outcomes since its start of URLs that were fetched before, OwnNotModified
	// the answers with status 304 to them.
	OwnRevisits    int64 `json:"own_revisits,omitempty"`
	OwnNotModified int64 `json:"own_not_modified,omitempty"`
	// Waits are the deferred hosts, by reason.
	Waits []Wait `json:"waits,omitempty"`

	// Admission is the charter of the ring, and this peer's certificate; nil before it joined a ring.
	Admission *Admission `json:"admission,omitempty"`

	Ring  RingSummary `json:"ring"`  // the ring as seen by this peer
	Peers []PeerLine  `json:"peers"` // its neighbors; with ring=1 all members and workers

	// Incarnation changes with every start of the process.
	Incarnation uint64 `json:"incarnation"`
	// Reached is the reachability of the peer: direct, mapped (a port mapping of its router), relayed,
	// not, or unknown.
	Reached string `json:"reached,omitempty"`
	// Position is the peer's position on the ring in hex.
	Position string `json:"position"`
	// Holding is the reason why fetching is paused, empty if it is not.
	Holding      string    `json:"holding,omitempty"`
	HoldingUntil time.Time `json:"holding_until,omitzero"` // zero without a fixed time
	// SeenLoss is the share of URLs the paper's filter is expected to lose; only with --seen bloom.
	SeenLoss float64 `json:"seen_loss,omitempty"`
	RSSBytes int64   `json:"rss_bytes"` // resident memory of the process
	// LongestStepMS is the longest step of the owner's loop since the start, without disk I/O: the
	// maximum delay of a request in that loop.
	LongestStepMS float64 `json:"longest_step_ms,omitempty"`
	// Dashboard is the URL of the peer's web page, empty if it serves none.
	Dashboard string `json:"dashboard,omitempty"`
	// Governor counts fetches under a bandwidth limit; nil if there was no limit since the start.
	Governor *Governor `json:"governor,omitempty"`
}

// Admission is the charter of a ring, and a peer's certificate.
type Admission struct {
	Mode    string    `json:"mode"`              // open or invite
	Founder string    `json:"founder,omitempty"` // of a ring by invitation
	Member  bool      `json:"member"`            // false: the peer has no valid certificate
	Issuer  string    `json:"issuer,omitempty"`  // of the peer's certificate; empty: none is needed
	Until   time.Time `json:"until,omitzero"`    // end of the certificate
}

// Invitation is a certificate for a peer.
type Invitation struct {
	Peer        string    `json:"peer"`            // ID of the invited peer
	Certificate string    `json:"certificate"`     // one line of text for ring accept
	Until       time.Time `json:"until"`           // end of the certificate
	Delivered   bool      `json:"delivered"`       // the peer has it
	Error       string    `json:"error,omitempty"` // why it was not delivered
}

// WhyWorker returns why a peer is a worker, for people.
func (s *Status) WhyWorker() string {
	if s.Admission != nil && !s.Admission.Member {
		return "no certificate; a member runs: apoidea ring invite " + s.Peer
	}
	switch s.Reached {
	case "unknown":
		return "reachability not confirmed yet"
	case "direct", "mapped":
		return "dialed by others; joins the ring soon"
	case "relayed":
		return "reachable through relays only"
	default:
		return "not reachable"
	}
}

// Governor counts decisions of the bandwidth governor since the start.
type Governor struct {
	Name string `json:"name"` // ours, paper, start-stop or none
	// Admitted counts the fetches admitted.
	Admitted int64 `json:"admitted"`
	Passed   int64 `json:"passed"` // began while a higher score waited
	Known    int64 `json:"known"`  // from servers whose rate was known
}

// Dashboard is the address of a peer's web page.
type Dashboard struct {
	URL string `json:"url"` // address of the page
	// Login is a one-time link, valid for a few minutes, that enables the page's buttons. It must not
	// be logged.
	Login string `json:"login"`
}

// RingSummary is the ring as seen by one peer.
type RingSummary struct {
	// Members is an estimate of one peer; after a walk of the ring, the count.
	Members     int      `json:"members"`
	Predecessor string   `json:"predecessor"` // its ID; empty if the peer is alone
	Successors  []string `json:"successors"`  // IDs, the nearest first
	// Arc is the start (exclusive) and end (inclusive) of the arc in hex; empty without an arc.
	Arc [2]string `json:"arc"`
	// State is the state of the ring found by a walk; empty without a walk.
	State string `json:"state,omitempty"`
	// Neighbours is settled or changing: the peer's own neighbors, which does not show the state of
	// the ring. Empty after a walk.
	Neighbours string `json:"neighbours,omitempty"`
	// Stable reports that Neighbours is settled; after a walk, that State is closed.
	Stable bool `json:"stable"`
}

// The states of a ring, which a walk of all members determines.
const (
	RingClosed = "closed" // consistent: every member responded, and the arcs cover the ring without gap or overlap
	RingOpen   = "open"   // converging: otherwise
)

// The states of a peer's own neighbors.
const (
	NeighboursSettled  = "settled"  // unchanged for two rounds
	NeighboursChanging = "changing" // one joined, left, or does not respond
)

// Line returns the text of an event, with the peer's name, if it has one, instead of its ID.
func (e RingEvent) Line() string {
	if e.Name == "" {
		return e.Text
	}
	return strings.Replace(e.Text, "peer "+e.Peer[max(0, len(e.Peer)-8):], string(e.Name), 1)
}

// NeighboursWord returns the state of a peer's own neighbors.
func NeighboursWord(settled bool) string {
	if settled {
		return NeighboursSettled
	}
	return NeighboursChanging
}

// PeerLine is one peer in a list.
type PeerLine struct {
	Peer  string  `json:"peer"`           // its ID
	Name  Name    `json:"name,omitempty"` // if known
	Addr  string  `json:"addr"`           // the first of its multiaddrs, empty if none is known
	RTTMs float64 `json:"rtt_ms"`         // round trip time in milliseconds, 0 if unknown
	// Role is ring or worker; stranger for an untrusted peer that is listed only for rejected
	// requests.
	Role  string `json:"role"`
	Pages int64  `json:"pages"` // as in Counters
	// The fields below are set by walks of the ring.
	State    string  `json:"state,omitempty"`
	Position string  `json:"position,omitempty"`  // position on the ring in hex
	ArcShare float64 `json:"arc_share,omitempty"` // share of the ring, 0 to 1
	Hosts    int64   `json:"hosts,omitempty"`     // hosts that it owns
	// Leased counts its own hosts with a worker; for a worker, the hosts that it holds.
	Leased int64  `json:"leased,omitempty"`
	Error  string `json:"error,omitempty"` // why the fields above are empty
	// ClockMs is the lead of the peer's clock over ours, accurate to half of RTTMs; nil if not
	// measured.
	ClockMs *float64 `json:"clock_ms,omitempty"`
	// CoordinateMs is the distance by network coordinates; nil if unknown.
	CoordinateMs *float64 `json:"coordinate_ms,omitempty"`
	// CoordinateError is the larger relative error of the two coordinates.
	CoordinateError *float64 `json:"coordinate_error,omitempty"`
	// Refused counts requests of the other peer that this peer rejected recently; nil: none.
	Refused *Refusals `json:"refused,omitempty"`
	// Trust counts the checks of pages that the peer reported to this one as a worker; nil: none.
	Trust *Trust `json:"trust,omitempty"`
}

// Trust counts the pages that a worker reported to one owner, and their checks by other workers.
type Trust struct {
	Since   time.Time `json:"since"`   // its first report
	Pages   uint64    `json:"pages"`   // reported
	Checked uint64    `json:"checked"` // of them, fetched again by another worker, or to be
	Agreed  uint64    `json:"agreed"`  // confirmed
	Unclear uint64    `json:"unclear"` // without a result: no other worker, or a page that changes with each fetch
	Lost    uint64    `json:"lost"`    // contradicted by two others; each time all its pages are fetched again
}

// Refusals count the requests of a peer that were rejected: not authorized, or above a limit.
type Refusals struct {
	Requests int64 `json:"requests"` // how many
	Later    int64 `json:"later"`    // of them, temporary: the position of the other peer was not known
	// Request is the last rejected request, Why the reason.
	Request string `json:"request"`
	Why     string `json:"why"`
	AgoMS   int64  `json:"ago_ms"` // since the last, in milliseconds
}

// Member is one member in a walk of the ring.
type Member struct {
	Status
	Jobs      []JobCounts `json:"jobs,omitempty"` // counts of each job it has received
	Successor string      `json:"successor"`      // ID of the next peer of the walk
	// SuccessorAddrs are the addresses of the successor.
	SuccessorAddrs []string `json:"successor_addrs,omitempty"`
	ArcShare       float64  `json:"arc_share"` // share of the ring, 0 to 1
	// RTTMs is the recent minimum round trip time from the walking peer, in milliseconds; 0 for
	// itself.
	RTTMs float64 `json:"rtt_ms"`
	// Leaves are the peers of the leaf set.
	Leaves []string `json:"leaves,omitempty"`
	// Delegated counts, per worker, the hosts of this peer that it holds.
	Delegated map[string]int `json:"delegated,omitempty"`
	// Attached are the workers attached to this peer because they cannot be dialed.
	Attached []string `json:"attached,omitempty"`
	// AttachedAddrs are their relay addresses, if any.
	AttachedAddrs map[string][]string `json:"attached_addrs,omitempty"`
	// Moving reports a handoff to or from this peer after a change of its arc or a neighbor's.
	Moving bool `json:"moving,omitempty"`
}

// Ring is the result of a walk of the ring, in ring order from the walking peer.
type Ring struct {
	Members []Member `json:"members"` // those that responded
	// Closed reports that the ring is consistent: the arcs of the members cover it exactly.
	Closed bool   `json:"closed"`
	Error  string `json:"error,omitempty"` // why the ring is converging, for people
}

// State returns RingClosed or RingOpen. [RingWord] returns the word for people.
func (r *Ring) State() string {
	if r.Closed {
		return RingClosed
	}
	return RingOpen
}

// RingWord returns a ring state for people: "consistent" for RingClosed, else "converging".
func RingWord(state string) string {
	if state == RingClosed {
		return "consistent"
	}
	return "converging"
}

// RingEvent is one line of ring --watch.
type RingEvent struct {
	Time time.Time `json:"time"` // time of detection
	// Event is join, leave, suspect, dead, arc, state.
	Event string `json:"event"`
	Peer  string `json:"peer,omitempty"` // the subject; empty: this peer
	Name  Name   `json:"name,omitempty"` // name of that peer, if known
	Text  string `json:"text"`           // text for people
}

// Lookup is the answer of ring lookup.
type Lookup struct {
	Query string      `json:"query"`                // as entered
	Host  string      `json:"host"`                 // host of the query, in canonical form
	Key   string      `json:"key"`                  // key of the host in hex
	Owner string      `json:"owner"`                // ID of the peer that owns the key
	Addr  string      `json:"addr"`                 // one of the owner's multiaddrs, empty if none is known
	Arc   [2]string   `json:"arc"`                  // the owner's arc: start (exclusive) and end (inclusive), in hex
	Name  Name        `json:"owner_name,omitempty"` // name of the owner, if known
	Calls int         `json:"calls"`                // number of calls
	Trace []LookupHop `json:"trace,omitempty"`      // one line per call
}

// LookupHop is one call of a lookup.
type LookupHop struct {
	Peer      string  `json:"peer"`       // the peer called
	LatencyMs float64 `json:"latency_ms"` // response time
	Answer    string  `json:"answer"`     // for people: owner, the next peer, or the error
}

// JobSpec is the specification of a job.
type JobSpec struct {
	URLs []string `json:"urls"` // the seeds; http if without a scheme
	// MoreSeeds is the number of URLs in a list too long for URLs, sent in parts with AddSeeds;
	// SeedsDigest is its SHA-256, in base64.
	MoreSeeds   uint64 `json:"more_seeds,omitempty"`
	SeedsDigest []byte `json:"seeds_digest,omitempty"` // see MoreSeeds
	// Scope: globs of hosts; empty: the hosts of the seeds.
	Scope    []string `json:"scope,omitempty"`
	MaxDepth *uint32  `json:"max_depth,omitempty"` // links from a seed; nil: no limit
	// HostDepths replace MaxDepth for matching hosts; the first match applies.
	HostDepths []HostDepth `json:"host_depths,omitempty"`
	// Include and Exclude are URL patterns: [HOST]/PATH as in robots.txt, or re:EXPRESSION. With
	// Include, only links to matching pages are followed; URLs matching Exclude are not fetched.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // see Include
	// First are patterns too: matching URLs and their hosts are fetched before others.
	First []string `json:"first,omitempty"`
	// MaxPages: fetched by all peers together; 0: no limit.
	MaxPages uint64 `json:"max_pages,omitempty"`
	// MaxBytes: fetched by all peers together; 0: no limit.
	MaxBytes uint64 `json:"max_bytes,omitempty"`
	// MaxPagesPerHost: fetched from one host; 0: no limit.
	MaxPagesPerHost uint64 `json:"max_pages_per_host,omitempty"`
	// Requisites: also images, scripts and style sheets.
	Requisites bool `json:"requisites,omitempty"`
	NoSitemaps bool `json:"no_sitemaps,omitempty"` // do not read sitemaps
	// NoTrapRules crawls what the trap rules would leave.
	NoTrapRules bool `json:"no_trap_rules,omitempty"`
	// Retries is the number of tries after the first; nil means the default of three.
	Retries *uint32 `json:"retries,omitempty"`
	// Refresh fetches pages again: a number of visits a day of all peers together ("20000/day"), or an
	// interval within which each page is visited ("7d"); empty: once.
	Refresh string `json:"refresh,omitempty"`
	// Continue resumes an unfinished job with the same specification instead of posting another.
	Continue bool `json:"continue,omitempty"`
	// Once returns a finished job with the same specification, if it fetched anything, instead of
	// posting another.
	Once bool `json:"once,omitempty"`
}

// HostDepth limits the depth of URLs of matching hosts.
type HostDepth struct {
	Host  string `json:"host"`  // glob, as in a scope
	Depth uint32 `json:"depth"` // links from a seed
}

// Job is a job of the ring.
type Job struct {
	ID      string    `json:"id"`      // 32 hexadecimal digits
	State   string    `json:"state"`   // running, paused, canceled or done
	Spec    JobSpec   `json:"spec"`    // its specification
	Created time.Time `json:"created"` // by the clock of the poster
	Owner   string    `json:"owner"`   // ID of the peer that owns the job's record
	Poster  string    `json:"poster"`  // ID of the key that posted the job
	// Signed reports that the job is signed by that key; without it Poster is unverified and any peer
	// can change the job.
	Signed bool `json:"signed"`
	// Continued reports that Post resumed an existing job.
	Continued bool `json:"continued,omitempty"`
	// Finished is when a waiting client saw the job done; nil if it is not done, or no client waited.
	Finished *time.Time `json:"finished,omitempty"`
	JobCounts
}

// Refresh is the answer to a request to visit pages again.
type Refresh struct {
	Host string `json:"host"`          // with the port unless it is the default
	URL  string `json:"url,omitempty"` // empty: all pages of the host
	Jobs int    `json:"jobs"`          // jobs that visit them again
	Text string `json:"text"`          // for people
}

// JobKey is the key that signs jobs and changes made at a peer.
type JobKey struct {
	ID string `json:"id"` // in the form of a peer ID
}

// JobDone is the state of a finished job.
const JobDone = "done"

// HostLine is one host in a list.
type HostLine struct {
	Host  string `json:"host"`  // name, with the port if it is not the default
	Key   string `json:"key"`   // in hex
	Owner string `json:"owner"` // ID of the peer that owns the host
	// Worker is the ID of the peer that holds its lease, empty if none.
	Worker string `json:"worker,omitempty"`
	// PlacedAt is the worker chosen last, even after its lease.
	PlacedAt string `json:"placed_at,omitempty"`
	// RTTMs is the round trip time from PlacedAt to the host in milliseconds, measured or remembered;
	// LeastRTTMs is the minimum of all candidates at the time of the choice.
	RTTMs      float64 `json:"rtt_ms,omitempty"`
	LeastRTTMs float64 `json:"least_rtt_ms,omitempty"`
	// LatencyRow is as in Host.
	LatencyRow *int  `json:"latency_row,omitempty"`
	Seen       int64 `json:"urls_seen"`    // as Accepted in JobCounts, of all jobs
	Pending    int64 `json:"urls_pending"` // of all jobs
	Pages      int64 `json:"pages"`        // new content, of all jobs
	Left       int64 `json:"urls_left"`    // skipped as traps or beyond a budget, of all jobs
}

// Behind returns how many milliseconds a round trip time exceeds the minimum: 0 within 1 ms or 5 %.
func Behind(ms, least float64) float64 {
	if behind := ms - least; behind > max(1, least/20) {
		return behind
	}
	return 0
}

// Host is the state of a host at its owner.
type Host struct {
	Host   string `json:"host"`             // name, with the port if it is not the default
	Key    string `json:"key"`              // in hex
	Owner  string `json:"owner"`            // ID of the peer that owns the host
	Known  bool   `json:"known"`            // the owner has a record of it; otherwise the rest is empty
	Worker string `json:"worker,omitempty"` // ID of the worker that holds its lease
	Epoch  string `json:"epoch,omitempty"`  // of the lease: counter@peer
	// LeaseS is the time in seconds to the end of the lease, if not renewed.
	LeaseS float64  `json:"lease_s,omitempty"`
	Addrs  []string `json:"addrs,omitempty"` // IP addresses
	// NotBeforeS is the remaining crawl delay or backoff in seconds.
	NotBeforeS float64 `json:"not_before_s,omitempty"`
	Backoff    string  `json:"backoff,omitempty"` // its reason, for people
	// Fails counts consecutive failures.
	Fails       uint32 `json:"fails,omitempty"`
	FailOutcome string `json:"fail_outcome,omitempty"` // outcome of the last failure
	// PutOff reports that the host is deferred: its next request is later than the wait limit.
	PutOff bool         `json:"put_off,omitempty"`
	Robots []RobotsLine `json:"robots,omitempty"` // robots.txt by origin
	// OptedOut is the reason why nothing of the host is fetched.
	OptedOut string `json:"opted_out,omitempty"`
	// OptedOutS is the time in seconds since it opted out; 0 without a record.
	OptedOutS float64   `json:"opted_out_s,omitempty"`
	Jobs      []HostJob `json:"jobs,omitempty"` // counts of each job with URLs of the host
	// Budgets are those of the host's owner.
	Budgets *Budgets `json:"budgets,omitempty"`
	// Placement lists the candidates of the last placement with their measured or known round trip
	// times.
	Placement []Measurement `json:"placement,omitempty"`
	// PlacedAt is the worker chosen then.
	PlacedAt  string  `json:"placed_at,omitempty"`
	PlacedBy  string  `json:"placed_by,omitempty"`  // the strategy that chose
	PlacedWhy string  `json:"placed_why,omitempty"` // its reason, for people
	PlacedS   float64 `json:"placed_s,omitempty"`   // seconds since then
	// Coordinate is the network coordinate of the host's server, if its owner places by coordinates.
	Coordinate *Coordinate `json:"coordinate,omitempty"`
	// LatencyRow is the host's row in the matrix of emulated distances, if its owner has one and
	// its address is known.
	LatencyRow *int `json:"latency_row,omitempty"`
	// Names are the known names of the peers above, by ID.
	Names map[string]Name `json:"names,omitempty"`
}

// Budgets limit the cost of one site; 0 is no limit.
type Budgets struct {
	MaxRequestsPerHost int `json:"max_requests_per_host"` // requests to one host for one job
	// MaxBytesPerHost is the approximate limit on body bytes of one host for one job.
	MaxBytesPerHost int64 `json:"max_bytes_per_host"`
	// PageHosts is the limit on new hosts linked from one page.
	PageHosts int `json:"page_hosts"`
	// DomainHosts is the limit on hosts of one registrable domain for one job.
	DomainHosts int `json:"domain_hosts"`
}

// RobotsLine is the state of one origin's robots.txt.
type RobotsLine struct {
	Origin  string `json:"origin"`  // scheme, host and port
	Verdict string `json:"verdict"` // unknown, obey, allow_all or disallow_all
	// AgeS is the time in seconds since the file or its absence was determined; 0: never.
	AgeS  float64 `json:"age_s"`
	Bytes int     `json:"bytes"` // stored size of the file
	// Failures counts consecutive failures to fetch it.
	Failures int     `json:"failures,omitempty"`
	NextS    float64 `json:"next_s,omitempty"` // seconds until the next fetch; 0: now
}

// Measurement is the measurement of one candidate to a site.
type Measurement struct {
	Peer string `json:"peer"` // ID of the candidate
	// Addr is the address at which the owner reaches the peer.
	Addr   string  `json:"addr,omitempty"`
	RTTMs  float64 `json:"rtt_ms"`           // round trip time to the site in milliseconds, 0 if it failed
	Error  string  `json:"error,omitempty"`  // why it failed
	Chosen bool    `json:"chosen,omitempty"` // the host was placed at this candidate
}

// Coordinate is the network coordinate of a host's server.
type Coordinate struct {
	Addr     string    `json:"addr"`      // IP address of the server
	VectorMs []float64 `json:"vector_ms"` // its position, in milliseconds
	HeightMs float64   `json:"height_ms"` // added to each distance by its access link
	// Error is the relative error of distances.
	Error   float64 `json:"error"`
	Theta   float64 `json:"theta"`   // maximum Error for placement
	Updates int     `json:"updates"` // downloads that updated it
	// Estimators are the candidates with their recent downloads and expected fetch times.
	Estimators []Estimator `json:"estimators"`
}

// Estimator is a candidate in the placement by coordinates.
type Estimator struct {
	Peer string `json:"peer"` // its ID
	// Samples counts its own downloads in use.
	Samples int `json:"samples"`
	// ExpectedMs is the expected fetch time of a page, 0 if the peer's coordinate is unknown.
	ExpectedMs float64 `json:"expected_ms,omitempty"`
	Chosen     bool    `json:"chosen,omitempty"` // the host was placed at it
}

// Why explains the state of a URL, job by job.
type Why struct {
	Input     string    `json:"input"`     // as entered
	URL       string    `json:"url"`       // canonical form of the input
	Canonical bool      `json:"canonical"` // the input was canonical
	Host      string    `json:"host"`      // host of the URL
	Owner     string    `json:"owner"`     // ID of the peer that owns the host
	Jobs      []WhyLine `json:"jobs"`      // its state in each job
	// Text applies to all jobs, for people; empty if Jobs is complete.
	Text string `json:"text"`
}

// WhyLine is the state of a URL in one job.
type WhyLine struct {
	Job     string `json:"job"`               // its ID
	State   string `json:"state"`             // unknown, pending, leased, waiting, done, out_of_scope, ...
	Outcome string `json:"outcome,omitempty"` // once done
	Status  int    `json:"status,omitempty"`  // HTTP status, once done; 0 without a response
	Depth   uint32 `json:"depth"`             // links from a seed
	Tries   int    `json:"tries,omitempty"`   // failed tries
	// LinksLeftOut are links beyond the size limits of one page: links of this page, or of all pages
	// of the job if the URL is unknown.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// DueS is the earliest time of the next try, in seconds, of a URL in backoff or on a deferred
	// host.
	DueS   float64 `json:"due_s,omitempty"`
	PutOff bool    `json:"put_off,omitempty"` // DueS is beyond the wait limit
	Text   string  `json:"text"`              // text for people
	// Again is the schedule of a page that is fetched again.
	Again *Visits `json:"again,omitempty"`
}

// Visits are those of a page after it was fetched first.
type Visits struct {
	Visits  uint32     `json:"visits"`         // that checked for a change
	Changes uint32     `json:"changes"`        // found by those
	Rate    float64    `json:"changes_a_day"`  // expected
	Last    time.Time  `json:"last"`           // of the visits, or of the fetch
	Next    *time.Time `json:"next,omitempty"` // nil: the page is not fetched again
	Text    string     `json:"text"`           // reason of the next, for people
}

// Progress is one line of a wait for the end of a crawl.
type Progress struct {
	Counters
	Members int     `json:"members"`   // members found by the walk
	Idle    bool    `json:"idle"`      // no due work is left; the last line of a wait
	ElapseS float64 `json:"elapsed_s"` // seconds since the wait began
	// Waits are the deferred hosts, by reason.
	Waits []Wait `json:"waits,omitempty"`
	// Note is what delays the wait other than work, such as a dead peer.
	Note string `json:"note,omitempty"`
}

// URLLine is one line of export urls.
type URLLine struct {
	URL     string `json:"url"`              // canonical
	Job     string `json:"job"`              // its ID
	Outcome string `json:"outcome"`          // its outcome
	Status  int    `json:"status,omitempty"` // HTTP status; 0 without a response
	// Redirect is the target of a redirect; empty if longer than 1,024 bytes.
	Redirect string `json:"redirect,omitempty"`
	Detail   string `json:"detail,omitempty"` // of a failure, for people
	Depth    uint32 `json:"depth"`            // links from a seed
	Hops     uint8  `json:"hops,omitempty"`   // redirects followed
	Kind     string `json:"kind"`             // page, sitemap, requisite or robots
	// Via is the URL of the page that first led to it. HopPath has a letter for each hop from Seed: L
	// link, E page requisite, R redirect, M sitemap, P robots.txt; of more than 50, the number of
	// those omitted, "+" and the last 50. A seed has neither. All are empty if unknown.
	Via     string `json:"via,omitempty"`
	HopPath string `json:"hop_path,omitempty"`
	Seed    string `json:"seed,omitempty"`
	Tries   uint8  `json:"tries,omitempty"`  // failed tries
	Digest  string `json:"digest,omitempty"` // of the body: sha256: and hex
	Size    uint64 `json:"size,omitempty"`   // bytes of the body
	MIME    string `json:"mime,omitempty"`   // type of the body, without parameters
	// ETag and LastModified are unmodified header fields of the response.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"` // see ETag
	DurationMs   uint32 `json:"duration_ms,omitempty"`   // of the fetch
	// LinksLeftOut are links of the page beyond the size limits of one page.
	LinksLeftOut uint32 `json:"links_left_out,omitempty"`
	// Fetched is the time in UTC with milliseconds; empty if never fetched.
	Fetched string `json:"fetched,omitempty"`
	Record  string `json:"record,omitempty"` // ID of the WARC record, as urn:uuid
	Holder  string `json:"holder,omitempty"` // ID of the peer whose archive has the record
}

// OptOutCheck reports whether a URL is opted out by its site, and the token with which the site can
// opt out.
type OptOutCheck struct {
	URL      string `json:"url"`       // canonical
	Host     string `json:"host"`      // host of the URL
	OptedOut bool   `json:"opted_out"` // there is at least one reason
	// Reasons are the rules of this peer's lists and the host's record.
	Reasons []string `json:"reasons,omitempty"`
	Addrs   []string `json:"addrs,omitempty"` // IP addresses of the host
	// Token is the line that the host publishes at WellKnown, or in a TXT record, to opt out.
	Token         string `json:"token"`
	WithdrawToken string `json:"withdraw_token"` // the line that withdraws the opt-out
	WellKnown     string `json:"well_known"`     // path on the host at which the token is fetched
}

// OptOuts are the opt-outs at a peer: its own lists, and the records that it owns.
type OptOuts struct {
	Lists   []OptOutList `json:"lists"`   // configured files and URLs
	Domains []string     `json:"domains"` // registrable domains whose records this peer owns
	Hosts   []string     `json:"hosts"`   // hosts whose records this peer owns
}

// OptOutList is one list of a peer with its first rules.
type OptOutList struct {
	From  string   `json:"from"`            // file or URL
	Rules int      `json:"rules"`           // number of rules
	First []string `json:"first,omitempty"` // the first of them
}

// OptOut is the result of a site's opt-out or its withdrawal.
type OptOut struct {
	Subject string `json:"subject"` // "host NAME" or "domain NAME"
	Action  string `json:"action"`  // opt-out or withdraw
	// Changed reports that the state changed.
	Changed bool `json:"changed"`
}
