package hosts

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Config configures an owner. The zero value of a field means its default.
type Config struct {
	// Settled reports, from memory, whether a key of this peer is synced: all its records that other
	// peers may hold have arrived. Owner.SettledChanged announces a change. Until then links are
	// accepted, since records merge, but workers get no answer about the host: a missing record may
	// name a lease. Nil: always synced.
	Settled func(key ring.Key) bool
	// Near reports whether a worker is a neighbor of this peer on the ring. A neighbor may take a host
	// that was not offered; other workers get as many hosts as they have earned. It does not count for
	// outcomes. Nil: all are neighbors.
	Near func(worker string) bool
	// Sign signs a lease that this peer begins, see SignedLease; nil: leases have no certificate.
	Sign func(text []byte) []byte
	// Certified reports whether owner has signed a lease of a host of that key, and was seen to serve
	// the key, or is this peer. Nil: every certificate is valid.
	Certified func(owner string, key ring.Key, text, signature []byte) bool
	// Self is this peer's ID: it is part of the epochs made here, and leases of its own worker end
	// with its process.
	Self string
	// TTL is the lifetime of a lease from the receipt of its last renewal. A longer one needs fewer
	// renewals, and leaves a dead worker's hosts idle longer.
	TTL time.Duration
	// Window is the maximum of a host's URLs that are out. More means fewer, larger replies, and more
	// repeated fetches after a crash.
	Window int
	// Delay is the politeness delay of a host without one reported by a worker, as after a crash.
	Delay time.Duration
	// Backoff lists the waits before the second, third and later tries of a URL or of a failed host;
	// the last one repeats.
	Backoff []time.Duration
	// MaxRetryAfter bounds the Retry-After of a site. It equals the bound of workers, so that no site
	// is asked earlier than it requested.
	MaxRetryAfter time.Duration
	// DownFor is the time for which pending URLs of a host with too many failures share its outcome,
	// before the host is tried again.
	DownFor time.Duration
	// OfferTimeout is the timeout of an offer, PlaceTimeout that of a placement: some strategies ask
	// one candidate after another.
	OfferTimeout, PlaceTimeout time.Duration
	// PlaceAhead is the head start of a placement before the host's not-before time.
	PlaceAhead time.Duration
	// RequestTime is the time for candidates to measure a host by requests before it is placed, during
	// which the host is not fetched; 0 disables such requests.
	RequestTime time.Duration
	// Fetched, if not nil, is called in a step with each worker report of a host, and the host's known
	// addresses. It must not retain its arguments.
	Fetched func(host string, addrs [][]byte, worker string, w *wire.HostWork)
	// Admission makes hosts wait until the owner of their registrable domain has admitted them to the
	// job; see package domain.
	Admission bool
	// MaxRequests is the maximum of requests of a job to a host, regardless of the outcome; 0:
	// unlimited.
	MaxRequests int64
	// MaxHostBytes is the approximate maximum of body bytes of a host for a job; 0: unlimited.
	MaxHostBytes int64
	// PageHosts is the maximum of unknown hosts that one page may add by its links; 0: unlimited.
	PageHosts int
	// ProveOptOuts holds hosts with an opt-out in records of other owners until it was checked at the
	// site; see Owner.Claims.
	ProveOptOuts bool
	// OptOuts is this peer's own list; nil: empty. Owner.OptOutsChanged announces a change.
	OptOuts OptOuts
	// PlaceMin is the number of pending URLs below which a host is not probed (design, section 4).
	PlaceMin int64
	// MaxPlacing bounds the concurrent searches for workers.
	MaxPlacing int
	// MaxHosts bounds the hosts in memory; leased hosts may exceed it.
	MaxHosts int
	// MaxOutbox bounds the outbox links in memory.
	MaxOutbox int
	// MaxKnown bounds the cache of processed URLs in front of filter and store.
	MaxKnown int
	// SeenBloom trusts the filter alone, as in the paper, and loses a page for each false positive.
	SeenBloom bool
	// ByteReserve is the part of a byte budget reserved for a URL, and the bound of its body, for jobs
	// with a byte budget.
	ByteReserve uint64
	// Day is the unit of times in package fresh, of budgets of visits a day, and of all that follows.
	Day time.Duration
	// RefreshShare is the part of a grant for visits of known URLs while others wait for their first.
	RefreshShare float64
	// DrawPages is the maximum of pages of one draw.
	DrawPages uint64
	// CheckRate is the share of reported pages that another worker fetches again, besides the first
	// ones of each worker; 0: none. Random returns numbers in [0, 1) that no worker can predict.
	CheckRate float64
	Random    func() float64
}

// SignedLease returns the signed bytes of a lease certificate.
func SignedLease(host, worker string, epoch ondisk.Epoch) []byte {
	text := []byte("apoidea lease 1\x00")
	for _, field := range []string{host, worker, epoch.Peer} {
		text = append(binary.AppendUvarint(text, uint64(len(field))), field...)
	}
	return binary.AppendUvarint(text, epoch.Counter)
}

// HasCertificate reports whether a worker had the lease of a host, by the owner's signature.
func (c *Config) HasCertificate(host, worker string, epoch ondisk.Epoch, signature []byte) bool {
	return c.Certified == nil || c.Certified(epoch.Peer, ring.HostKey(host), SignedLease(host, worker, epoch), signature)
}

// IsNear reports whether a worker is a neighbor of this peer on the ring, or its own.
func (c *Config) IsNear(worker string) bool {
	return c.Near == nil || worker == c.Self || c.Near(worker)
}

// Fill sets zero fields to their defaults.
func (c *Config) Fill() {
	if c.Settled == nil {
		c.Settled = func(ring.Key) bool { return true }
	}
	if c.OptOuts == nil {
		c.OptOuts = noOptOuts{}
	}
	c.TTL = cmp.Or(c.TTL, 8*time.Second)
	c.Window = cmp.Or(c.Window, 256)
	c.Delay = cmp.Or(c.Delay, time.Second)
	if c.Backoff == nil {
		c.Backoff = []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute}
	}
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, 24*time.Hour)
	c.DownFor = cmp.Or(c.DownFor, time.Hour)
	c.OfferTimeout = cmp.Or(c.OfferTimeout, 2*time.Second)
	c.PlaceTimeout = cmp.Or(c.PlaceTimeout, 15*time.Second)
	c.PlaceAhead = cmp.Or(c.PlaceAhead, time.Second)
	c.PlaceMin = cmp.Or(c.PlaceMin, 8)
	c.MaxPlacing = cmp.Or(c.MaxPlacing, 1024)
	c.MaxHosts = cmp.Or(c.MaxHosts, 4096)
	c.MaxOutbox = cmp.Or(c.MaxOutbox, 1<<16)
	c.MaxKnown = cmp.Or(c.MaxKnown, 1<<18)
	c.ByteReserve = cmp.Or(c.ByteReserve, 4<<20)
	c.DrawPages = cmp.Or(c.DrawPages, 256)
	c.Day = cmp.Or(c.Day, 24*time.Hour)
	c.RefreshShare = cmp.Or(c.RefreshShare, 0.5)
	if c.Random == nil {
		c.Random = rand.Float64
	}
}

// Validate returns an error for the first invalid field.
func (c *Config) Validate() error {
	switch {
	case c.Self == "":
		return errors.New("owner config: Self is empty")
	case c.TTL < 100*time.Millisecond:
		return fmt.Errorf("owner config: TTL %v is below 100ms", c.TTL)
	case c.Window < 1:
		return fmt.Errorf("owner config: Window %d is out of range", c.Window)
	case len(c.Backoff) == 0:
		return errors.New("owner config: Backoff is empty")
	case c.Day < time.Second || !(c.RefreshShare > 0 && c.RefreshShare <= 1):
		return fmt.Errorf("owner config: Day %v, RefreshShare %v: out of range", c.Day, c.RefreshShare)
	case !(c.CheckRate >= 0 && c.CheckRate <= 1):
		return fmt.Errorf("owner config: CheckRate %v is not between 0 and 1", c.CheckRate)
	case c.Delay < 0 || c.DownFor < 0 || c.OfferTimeout <= 0 || c.PlaceTimeout <= 0 || c.PlaceAhead < 0 || c.RequestTime < 0 || c.MaxRetryAfter < 0:
		return errors.New("owner config: negative duration")
	case c.MaxHosts < 1 || c.MaxOutbox < 1 || c.MaxPlacing < 1 || c.MaxKnown < 1:
		return errors.New("owner config: a limit is below 1")
	case c.MaxRequests < 0 || c.MaxHostBytes < 0 || c.PageHosts < 0:
		return fmt.Errorf("owner config: MaxRequests %d, MaxHostBytes %d, PageHosts %d: must not be negative", c.MaxRequests, c.MaxHostBytes, c.PageHosts)
	}
	return nil
}

// WaitAfter returns the wait before try n+1, in ms.
func (c *Config) WaitAfter(n uint32) int64 {
	i := min(max(int(n)-1, 0), len(c.Backoff)-1)
	return c.Backoff[i].Milliseconds()
}

// OptOuts is this peer's own list of opt-outs, in memory. Each method returns a short reason, empty
// if there is none.
type OptOuts interface {
	// Host checks a host as a whole, URL a canonical URL including its host.
	Host(host string) (why string)
	URL(url string) (why string) // checks one URL
}

// noOptOuts is the empty list.
type noOptOuts struct{}

func (noOptOuts) Host(string) string { return "" }

func (noOptOuts) URL(string) string { return "" }

// Seen is a filter in front of the URL sets, bounded in memory. It loads a missing set with
// Owner.Hashes.
type Seen interface {
	// Test reports whether the set may contain a hash; false is always right.
	Test(set ondisk.SetID, hash uint64) (bool, error)
	Add(set ondisk.SetID, hash uint64) error // adds a hash
	// Drop removes a set whose URLs are no longer here.
	Drop(set ondisk.SetID)
}

// Jobs looks up jobs in memory. An unknown job is requested by [Ready.NeedJobs]; Owner.JobChanged
// announces a change.
type Jobs interface {
	// Job returns a job; ok is false if it is unknown.
	Job(id job.ID) (spec *job.Spec, standing job.Standing, ok bool)
}

// Ring reports which hosts this peer owns, from memory.
type Ring interface {
	Mine(key ring.Key) bool // reports whether this peer owns a key
}

// Counts are the counters of one job, of one host, one peer or summed over the ring. On one peer
// Accepted and Done only grow, and Accepted = Pending + Leased + Done at any moment. The JSON names
// are stable.
type Counts struct {
	// Job is the ID; empty if the context names the job.
	Job      string `json:"job,omitempty"`
	Accepted int64  `json:"accepted"` // URLs in the URL sets: pending, leased and done
	Done     int64  `json:"done"`     // URLs that have an outcome
	Pending  int64  `json:"pending"`  // URLs neither leased nor done
	Leased   int64  `json:"leased"`   // URLs given to workers, not yet reported
	Waiting  int64  `json:"waiting"`  // pending URLs that wait for a retry
	// Outbox counts links, and pages with links, not yet acknowledged by their owners.
	Outbox   int64            `json:"outbox"`
	Outcomes map[string]int64 `json:"outcomes,omitempty"` // URLs that are done, by outcome
	Bytes    int64            `json:"bytes"`              // of bodies fetched
	// LinksLeftOut are links of pages beyond the size limits of one page.
	LinksLeftOut int64 `json:"links_left_out,omitempty"`
	// NextRetryS is when the first waiting URL on a host in memory is due, 0 if none waits.
	NextRetryS float64 `json:"next_retry_s,omitempty"`
	// PutOff are the deferred URLs: pending, with the next try later than the wait limit.
	PutOff      int64   `json:"put_off,omitempty"`
	PutOffHosts int64   `json:"put_off_hosts,omitempty"`  // hosts of these URLs
	PutOffNextS float64 `json:"put_off_next_s,omitempty"` // seconds until the first is due
	Scheduled   int64   `json:"scheduled,omitempty"`      // pages that are fetched again
	Visits      int64   `json:"visits,omitempty"`         // of them after the first, that checked for a change
	Changes     int64   `json:"changes,omitempty"`        // found by those
	NotModified int64   `json:"not_modified,omitempty"`   // answers with status 304
	Checks      int64   `json:"checks,omitempty"`         // pages that another worker is to fetch again, to check a report
}

// Add sums o into c.
func (c *Counts) Add(o *Counts) {
	of := [...]int64{o.Accepted, o.Done, o.Pending, o.Leased, o.Waiting, o.Outbox, o.Bytes, o.LinksLeftOut, o.PutOff, o.PutOffHosts, o.Scheduled, o.Visits, o.Changes, o.NotModified, o.Checks}
	for i, to := range [...]*int64{&c.Accepted, &c.Done, &c.Pending, &c.Leased, &c.Waiting, &c.Outbox, &c.Bytes, &c.LinksLeftOut, &c.PutOff, &c.PutOffHosts, &c.Scheduled, &c.Visits, &c.Changes, &c.NotModified, &c.Checks} {
		*to += of[i]
	}
	c.PutOffNextS = Sooner(c.PutOffNextS, o.PutOffNextS)
	for k, v := range o.Outcomes {
		if c.Outcomes == nil {
			c.Outcomes = make(map[string]int64)
		}
		c.Outcomes[k] += v
	}
	c.NextRetryS = Sooner(c.NextRetryS, o.NextRetryS)
}

// Outstanding returns the job's unfinished work.
func (c *Counts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox + c.Checks }

// Due returns the unfinished work that is not deferred.
func (c *Counts) Due() int64 { return c.Outstanding() - min(c.PutOff, c.Pending) }

// Fetched returns the number of pages fetched.
func (c *Counts) Fetched() int64 {
	return c.Outcomes["ok"] + c.Outcomes["duplicate"] + c.Outcomes["noindex"] + c.Outcomes["too_large"]
}

// CountsOf converts counters of a job, with the number of URLs at workers.
func CountsOf(id job.ID, of *ondisk.Counters, out int64) Counts {
	c := Counts{
		Job: id.String(), Accepted: of.Accepted, Done: of.Done(), Waiting: of.Delayed, Leased: out, Outbox: of.Outbox,
		Outcomes: make(map[string]int64), Bytes: of.Bytes, LinksLeftOut: of.LeftOut,
		Scheduled: of.Scheduled, Visits: of.Visits, Changes: of.Changes, NotModified: of.NotModified,
	}
	for o, n := range of.Outcomes {
		if n > 0 {
			c.Outcomes[link.Outcome(o).String()] = n // an index into an array of outcomes
		}
	}
	c.Pending = c.Accepted - c.Done - c.Leased
	return c
}

// Counts returns the counters of the job on this peer.
func (js *JobState) Counts() Counts {
	sums := js.Sums()
	c := CountsOf(js.ID, &sums, js.Out())
	c.Checks = js.Checks
	return c
}

// HostCounts are the counters of a job on a host.
type HostCounts struct {
	Counts
	// Admission is the verdict of the owner of the registrable domain.
	Admission domain.Verdict `json:"-"`
	Requests  int64          `json:"requests"`            // requests to the host
	LinksCut  int64          `json:"links_cut,omitempty"` // links not accepted: too many new hosts, or too many pending URLs
	Spent     string         `json:"spent,omitempty"`     // the budget of the host that the job has used up, for people; empty: none
	Trap      string         `json:"trap,omitempty"`      // the trap rule that left most URLs, for people; empty: none
	Left      []RuleLeft     `json:"left,omitempty"`      // URLs that trap rules left
}

// RuleLeft are the URLs of a host that a trap rule left.
type RuleLeft struct {
	Rule    int    `json:"rule"`    // number, see docs/traps.md
	Text    string `json:"text"`    // the rule and its limit, for people
	URLs    uint64 `json:"urls"`    // number of URLs, approximate after a failure of the owner
	Example string `json:"example"` // the first of them
}
