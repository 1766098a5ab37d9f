package wire

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
)

// Bounds on what one message may hold. A message beyond one of them is refused whole: our own
// senders keep them.
const (
	// JobIDSize is the length of a job's ID.
	JobIDSize = 16
	// MaxHost is a DNS name of 253 bytes with a port, or an address in brackets.
	MaxHost = 260
	// MaxPeer is the length of a peer's ID in bytes; those in use have under 50.
	MaxPeer = 64
	// MaxLinks of one Links message.
	MaxLinks = 4096
	// MaxJobs in the table of jobs of one message.
	MaxJobs = 256
	// MaxHosts of which one Session, Offer or SessionReply speaks.
	MaxHosts = 4096
	// MaxHeld is the number of leases a worker may hold from one owner, eight times what it holds in
	// all.
	MaxHeld = 1 << 13
	// MaxFetched is the number of outcomes, or of URLs handed back, of one host in one Session.
	MaxFetched = 1024
	// MaxPageLinks of one page; a page with more has its first ones reported.
	MaxPageLinks = 20_000
	// PieceLinks and PieceBytes bound the links in one outcome; LinkBytes are counted for each
	// beside its URL. A page with more has the first ones told ahead, in outcomes that say nothing
	// else. Each link may be of a host that its owner does not know: it takes in so many in a part
	// of a second, also on a busy machine, and the sender's leases wait for the answer.
	PieceLinks = 4096
	PieceBytes = 1 << 20
	LinkBytes  = 8
	// MaxOwnLinks of a page, told or not, as their number is told.
	MaxOwnLinks = 1 << 20
	// MaxOwnWords of a page, as their number is told.
	MaxOwnWords = 1 << 10
	// MaxWant of URLs for one host, and MaxGrant in one Grant.
	MaxWant  = 4096
	MaxGrant = 4096
	// MaxOut is the number of URLs that a LeaseNote names; what is out beyond it is granted again.
	MaxOut = 1 << 14
	// MaxLeaseMs is the longest that a lease may have left.
	MaxLeaseMs = 3_600_000
	// MaxPacePct is how much more rarely than usual a host can be asked, in % of the usual time
	// between requests.
	MaxPacePct = 10_000
	// MaxOrigins of one host whose robots.txt is known.
	MaxOrigins = 8
	// MaxRobotsState is the size of one robots.txt as encoded: 500 KiB and what packing adds to a
	// body that does not shrink.
	MaxRobotsState = 530 << 10
	// MaxAddrs of one host.
	MaxAddrs = 64
	// MaxLeftOut is the most links that a page is said to have beyond the bounds.
	MaxLeftOut = 1 << 24
	// MaxSize of a body in bytes, as an outcome tells it: so small that no sum of them that can be
	// sent runs over.
	MaxSize = 1 << 32
	// MaxText of an error, a header's value, a reason.
	MaxText = 1024
	// MaxRedirects is the number of redirects followed in a row, as by browsers (Fetch standard,
	// 4.4); one more is what its refusal is noted at.
	MaxRedirects = 20
	// MaxIndexes is the number of sitemap indexes and redirects in a row below which the indexes
	// of an index are read.
	MaxIndexes = 5
	// MaxEmbeds is the number of style sheets and redirects in a row below which the requisites of a
	// style sheet are fetched.
	MaxEmbeds = 5
	// MaxSeedBytes of the seeds of a job together: its record goes to replicas as one.
	MaxSeedBytes = 2 << 20
	// MaxSeeds and MaxScope of a job, MaxPattern of one of its host globs.
	MaxSeeds   = 10_000
	MaxScope   = 1_000
	MaxPattern = 512
	// MaxFilters of a job: patterns of URLs to include, those to exclude, and hosts with a depth of
	// their own.
	MaxFilters = 100
	// MaxJobList of records in one JobReply.
	MaxJobList = 10_000
	// MaxAsk is the number of jobs whose standing is asked in one JobRequest.
	MaxAsk = 256
	// MaxAccounts of one job: every peer of the ring may draw.
	MaxAccounts = 100_000
	// MaxSignature of a job, and of its state.
	MaxSignature = 256
)

var errColumn = errors.New("column has another length than its table")

// Validate refuses a batch that breaks a bound.
func (m *Links) Validate() error {
	if len(m.GetUrl()) > MaxLinks {
		return fmt.Errorf("links: %d URLs, at most %d", len(m.GetUrl()), MaxLinks)
	}
	if err := table(m.GetJobIds(), m.GetUrl(), m.GetJob(), m.GetHops(), m.GetKind()); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	if n := len(m.GetDepth()); n != 0 && n != len(m.GetUrl()) {
		return fmt.Errorf("links: depth: %w", errColumn)
	}
	return nil
}

// table checks what Links and Grant have in common.
func table(ids, urls [][]byte, jobs []uint32, hops, kinds []byte) error {
	if len(ids) > MaxJobs {
		return fmt.Errorf("%d jobs, at most %d", len(ids), MaxJobs)
	}
	for _, id := range ids {
		if len(id) != JobIDSize {
			return fmt.Errorf("job ID of %d bytes", len(id))
		}
	}
	if len(urls) > 0 && len(ids) == 0 {
		return errors.New("URLs without a job")
	}
	for _, url := range urls {
		if len(url) == 0 || len(url) > link.MaxURL {
			return fmt.Errorf("URL of %d bytes", len(url))
		}
	}
	if len(jobs) != 0 && len(jobs) != len(urls) {
		return fmt.Errorf("job: %w", errColumn)
	}
	for _, job := range jobs {
		if uint64(job) >= uint64(len(ids)) {
			return fmt.Errorf("job %d of %d", job, len(ids))
		}
	}
	if len(hops) != 0 && len(hops) != len(urls) {
		return fmt.Errorf("hops: %w", errColumn)
	}
	for _, n := range hops {
		if n > MaxRedirects+1 {
			return fmt.Errorf("%d hops, at most %d", n, MaxRedirects+1)
		}
	}
	return kindColumn(kinds, len(urls))
}

func kindColumn(kinds []byte, want int) error {
	if len(kinds) != 0 && len(kinds) != want {
		return fmt.Errorf("kind: %w", errColumn)
	}
	for _, kind := range kinds {
		if link.Kind(kind) > link.KindRobots {
			return fmt.Errorf("kind %d is unknown", kind)
		}
	}
	return nil
}

// Validate refuses an answer that breaks a bound.
func (m *LinksReply) Validate() error {
	if len(m.GetMoved()) > MaxLinks || len(m.GetBusy()) > MaxLinks {
		return fmt.Errorf("links reply: %d moved, %d busy, at most %d", len(m.GetMoved()), len(m.GetBusy()), MaxLinks)
	}
	return nil
}

func host(name string) error {
	if name == "" || len(name) > MaxHost {
		return fmt.Errorf("host of %d bytes", len(name))
	}
	return nil
}

func hosts(names []string) error {
	if len(names) > MaxHosts {
		return fmt.Errorf("%d hosts, at most %d", len(names), MaxHosts)
	}
	for _, name := range names {
		if err := host(name); err != nil {
			return err
		}
	}
	return nil
}

func text(name, value string) error {
	if len(value) > MaxText {
		return fmt.Errorf("%s of %d bytes, at most %d", name, len(value), MaxText)
	}
	return nil
}

func epoch(e *Epoch) error {
	if len(e.GetPeer()) > MaxPeer {
		return fmt.Errorf("epoch: peer of %d bytes", len(e.GetPeer()))
	}
	return nil
}

func addrs(list [][]byte) error {
	if len(list) > MaxAddrs {
		return fmt.Errorf("%d addresses, at most %d", len(list), MaxAddrs)
	}
	for _, addr := range list {
		if len(addr) != 4 && len(addr) != 16 {
			return fmt.Errorf("address of %d bytes", len(addr))
		}
	}
	return nil
}

func robots(list []*Robots) error {
	if len(list) > MaxOrigins {
		return fmt.Errorf("robots of %d origins, at most %d", len(list), MaxOrigins)
	}
	for _, r := range list {
		if len(r.GetOrigin()) > MaxHost+len("https://") || len(r.GetState()) > MaxRobotsState {
			return fmt.Errorf("robots: origin of %d bytes, state of %d", len(r.GetOrigin()), len(r.GetState()))
		}
	}
	return nil
}
