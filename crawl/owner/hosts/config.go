package hosts

import (
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Config holds the knobs of an owner. The zero value of a field means its default.
type Config struct {
	// Settled says, from memory, whether all records of a key of this peer that others may hold
	// have arrived here; Owner.SettledChanged says that the answer may be another now. Until then
	// links are taken, as the records merge, and of the hosts nothing else is said: nobody knows
	// yet who holds a lease. Nil: they always have.
	Settled func(key ring.Key) bool
	// Near says whether a worker stands near this peer on the ring. Such a one may report of a host
	// though the record does not name it, and take a host that is on offer to nobody; others get as
	// many hosts as they have earned. Nil: all are near.
	Near func(worker string) bool
	// Self is this peer's ID: it names the epochs it makes, and leases of its own worker end with
	// its process.
	Self string
	// TTL of a lease from the receipt of its last renewal. A longer one lets workers sleep longer
	// and keeps a dead worker's hosts idle longer.
	TTL time.Duration
	// Window is the most URLs of a host that are out at once. More means fewer, larger answers, and
	// more fetched twice after a crash.
	Window int
	// Delay is the politeness owed to a host whose worker did not say, as after a crash.
	Delay time.Duration
	// Backoff are the waits before the second, third and later tries of a URL, or of a host that
	// fails as a whole; the last one repeats.
	Backoff []time.Duration
	// MaxRetryAfter bounds what a site may ask us to wait: as long as a worker believes it, or a
	// site would be asked earlier than it said.
	MaxRetryAfter time.Duration
	// DownFor is how long pending URLs of a host that failed as a whole too often share its
	// outcome, before it is tried again.
	DownFor time.Duration
	// OfferTimeout is how long an offer may stay unanswered, PlaceTimeout how long a placement may:
	// some strategies ask one candidate after another.
	OfferTimeout, PlaceTimeout time.Duration
	// PlaceAhead is how long before a host may be asked again its next worker is looked for.
	PlaceAhead time.Duration
	// RequestTime is how long candidates may send requests to a host to measure it before it is
	// placed; 0: they may not. A host rests meanwhile.
	RequestTime time.Duration
	// Fetched, if not nil, is called in a step with what a worker reports of a host, at the
	// addresses known. It keeps nothing of what it is given.
	Fetched func(host string, addrs [][]byte, worker string, w *wire.HostWork)
	// Admission has hosts wait until the owner of their registrable domain has admitted them to the
	// job; see package domain.
	Admission bool
	// MaxRequests is how many requests a job may make to a host, whatever came of them; 0: any
	// number.
	MaxRequests int64
	// MaxHostBytes is how many bytes of bodies a job may fetch from a host, about; 0: any number.
	MaxHostBytes int64
	// PageHosts is how many hosts that nobody here knows the links of one page may lead to; 0: any
	// number.
	PageHosts int
	// Novelty is after how many pages in a row that bring nothing new a host, or a part of it, is
	// left; 0: never. See package novelty.
	Novelty int
	// OptOuts is this peer's own list; nil: nothing is on it. Owner.OptOutsChanged says that it
	// is another now.
	OptOuts OptOuts
	// PlaceMin is the number of pending URLs below which a host is not probed (design, section 4).
	PlaceMin int64
	// MaxPlacing bounds the hosts for which a worker is being looked for at a time.
	MaxPlacing int
	// MaxHosts bounds the hosts in memory; those with a lease stay beyond it.
	MaxHosts int
	// MaxOutbox bounds the outbox links in memory.
	MaxOutbox int
	// MaxKnown bounds the URLs remembered as dealt with, in front of filter and store; 12 bytes
	// each.
	MaxKnown int
	// SeenBloom believes the filter: the paper's way, which loses a page for each false positive.
	SeenBloom bool
	// ByteReserve is what a URL reserves of a byte budget, and so bounds its body, where the job
	// has one.
	ByteReserve uint64
	// DrawPages is the most pages drawn of a budget at a time.
	DrawPages uint64
}

// IsNear says whether a worker stands near this peer on the ring, or is its own.
func (c *Config) IsNear(worker string) bool {
	return c.Near == nil || worker == c.Self || c.Near(worker)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Fill sets the fields that are zero to their defaults.
func (c *Config) Fill() {
	if c.Settled == nil {
		c.Settled = func(ring.Key) bool { return true }
	}
	if c.OptOuts == nil {
		c.OptOuts = noOptOuts{}
	}
	fill(&c.TTL, 8*time.Second)
	fill(&c.Window, 256)
	fill(&c.Delay, time.Second)
	if c.Backoff == nil {
		c.Backoff = []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute}
	}
	fill(&c.MaxRetryAfter, 24*time.Hour)
	fill(&c.DownFor, time.Hour)
	fill(&c.OfferTimeout, 2*time.Second)
	fill(&c.PlaceTimeout, 15*time.Second)
	fill(&c.PlaceAhead, time.Second)
	fill(&c.PlaceMin, 8)
	fill(&c.MaxPlacing, 1024)
	fill(&c.MaxHosts, 4096)
	fill(&c.MaxOutbox, 1<<16)
	fill(&c.MaxKnown, 1<<19)
	fill(&c.ByteReserve, 4<<20)
	fill(&c.DrawPages, 256)
}

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	switch {
	case c.Self == "":
		return errors.New("owner config: Self is empty")
	case c.TTL < 100*time.Millisecond:
		return fmt.Errorf("owner config: TTL %v is under 100ms", c.TTL)
	case c.Window < 1:
		return fmt.Errorf("owner config: Window %d", c.Window)
	case len(c.Backoff) == 0:
		return errors.New("owner config: Backoff is empty")
	case c.Delay < 0 || c.DownFor < 0 || c.OfferTimeout <= 0 || c.PlaceTimeout <= 0 || c.PlaceAhead < 0 || c.RequestTime < 0 || c.MaxRetryAfter < 0:
		return errors.New("owner config: negative duration")
	case c.MaxHosts < 1 || c.MaxOutbox < 1 || c.MaxPlacing < 1 || c.MaxKnown < 1:
		return errors.New("owner config: a bound under 1")
	case c.MaxRequests < 0 || c.MaxHostBytes < 0 || c.PageHosts < 0 || c.Novelty < 0:
		return fmt.Errorf("owner config: MaxRequests %d, MaxHostBytes %d, PageHosts %d, Novelty %d: none may be negative", c.MaxRequests, c.MaxHostBytes, c.PageHosts, c.Novelty)
	}
	return nil
}

// WaitAfter is the wait before try number n+1.
func (c *Config) WaitAfter(n uint32) int64 {
	i := min(max(int(n)-1, 0), len(c.Backoff)-1)
	return c.Backoff[i].Milliseconds()
}

// OptOuts is this peer's own list of what is not to be crawled, from memory. Each method says why,
// in a few words; nothing if there is no reason.
type OptOuts interface {
	// Host is asked of a host as a whole, URL of a canonical URL, its host included.
	Host(host string) (why string)
	URL(url string) (why string) // says why a URL is not to be crawled
}

// noOptOuts is the empty list.
type noOptOuts struct{}

func (noOptOuts) Host(string) string { return "" }

func (noOptOuts) URL(string) string { return "" }

// Verdict is what the filter in front of a URL set says.
type Verdict uint8

const (
	// No: the URL is not in the set.
	No Verdict = iota
	// Maybe: the store has to be asked.
	Maybe
	// Yes: it is in the set, or, with the paper's filter alone, is taken to be.
	Yes
)

// Seen is a filter in front of the URL sets, bounded in memory. A set that it does not hold it
// loads by Owner.Hashes.
type Seen interface {
	Test(set ondisk.SetID, hash uint64) (Verdict, error) // says whether a hash is in a set
	Add(set ondisk.SetID, hash uint64) error             // puts a hash into a set
	// Drop forgets a set, because its URLs are gone from here.
	Drop(set ondisk.SetID)
}

// Jobs tells of jobs, from memory. A job that is not known is asked for by [Ready.NeedJobs];
// Owner.JobChanged says that the answer may be another now.
type Jobs interface {
	// Job returns a job; ok is false if it is not known.
	Job(id job.ID) (spec *job.Spec, state job.State, ok bool)
}

// Ring says which hosts this peer owns at present, from memory.
type Ring interface {
	Mine(key ring.Key) bool // says whether this peer owns a key
}
