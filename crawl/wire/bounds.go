package wire

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
)

// Size limits of messages. A message that exceeds one is rejected as a whole; correct senders
// comply. The lengths of lists are checked before decoding (see counts.go), and by Validate only of
// messages that are also read from records.
const (
	// JobIDSize is the length of a job's ID.
	JobIDSize = 16
	// MaxHost is a DNS name of 253 bytes with a port, or an address in brackets.
	MaxHost = 260
	// MaxPeer is the maximum length of a peer ID in bytes; actual ones have under 50.
	MaxPeer = 64
	// MaxLinks of one Links message.
	MaxLinks = 4096
	// MaxJobs in the table of jobs of one message.
	MaxJobs = 256
	// MaxHosts in one Session, Offer or SessionReply.
	MaxHosts = 4096
	// MaxHeld is the number of leases a worker may hold from one owner, eight times its total
	// capacity.
	MaxHeld = 1 << 13
	// MaxFetched is the number of outcomes, or of returned URLs, of one host in one Session.
	MaxFetched = 1024
	// MaxPageLinks of one page; of longer pages the first links are reported.
	MaxPageLinks = 20_000
	// PieceLinks and PieceBytes bound the links in one outcome; LinkBytes are counted for each besides
	// its URL. The first links of a longer page are sent before, in outcomes without other content.
	// Each link may be to an unknown host: an owner processes one piece in a fraction of a second,
	// also on a busy machine, while the sender's leases wait for the reply.
	PieceLinks = 4096
	PieceBytes = 1 << 20
	LinkBytes  = 8
	// MaxWant of URLs for one host, and MaxGrant in one Grant.
	MaxWant  = 4096
	MaxGrant = 4096
	// MaxOut is the number of URLs in a LeaseNote; further URLs that are out are granted again.
	MaxOut = 1 << 14
	// MaxLeaseMs is the longest remaining time of a lease.
	MaxLeaseMs = 3_600_000
	// MaxPacePct bounds the factor of the request interval of a host, in % of the normal time between
	// requests.
	MaxPacePct = 10_000
	// MaxOrigins of one host with a robots.txt state.
	MaxOrigins = 8
	// MaxRobotsState is the size of one encoded state, which has eight numbers.
	MaxRobotsState = 64
	// MaxAddrs of one host.
	MaxAddrs = 64
	// MaxLeftOut bounds the reported number of a page's links beyond the limits.
	MaxLeftOut = 1 << 24
	// MaxSize of a reported body in bytes: no sum over one message can overflow.
	MaxSize = 1 << 32
	// MaxText of an error, a header's value, a reason.
	MaxText = 1024
	// MaxRedirects is the number of redirects followed in a row, as by browsers (Fetch standard, 4.4);
	// a URL rejected for it is recorded with one more.
	MaxRedirects = 20
	// MaxIndexes is the number of consecutive sitemap indexes and redirects below which the entries of
	// an index that are indexes are read.
	MaxIndexes = 5
	// MaxEmbeds is the number of consecutive style sheets and redirects below which the requisites of
	// a style sheet are fetched.
	MaxEmbeds = 5
	// MaxSeedBytes of the seeds of a job together: its record is replicated as one.
	MaxSeedBytes = 2 << 20
	// MaxSeeds and MaxScope of a job, MaxPattern of one of its host globs.
	MaxSeeds   = 10_000
	MaxScope   = 1_000
	MaxPattern = 512
	// MaxFilters of a job: URL patterns to include, to exclude, and hosts with their own depth.
	MaxFilters = 100
	// MaxJobList of records in one JobReply.
	MaxJobList = 10_000
	// MaxAsk is the number of jobs whose standing is requested in one JobRequest.
	MaxAsk = 256
	// MaxDrawHosts named in one Draw.
	MaxDrawHosts = 4
	// MaxAccounts of one job: every peer of the ring may draw.
	MaxAccounts = 100_000
	// MaxSourceBytes limits the sources in one Links or Grant of a correct peer; sourceBytes are
	// counted for each besides its texts.
	MaxSourceBytes = 512 << 10
	sourceBytes    = 16
	// MaxChanged URLs that one sitemap, feed or IndexNow message states to have changed.
	MaxChanged = 1024
	// MaxConsents of one Again.
	MaxConsents = 4
	// MaxSignature of a job, and of its state.
	MaxSignature = 256
)

var errColumn = errors.New("column length differs from its table")

// Validate returns an error if a limit is exceeded.
func (m *Links) Validate() error {
	if err := table(m.GetJobIds(), m.GetUrl(), m.GetJob(), m.GetHops(), m.GetKind()); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	if n := len(m.GetDepth()); n != 0 && n != len(m.GetUrl()) {
		return fmt.Errorf("links: depth: %w", errColumn)
	}
	if err := sources(m.GetSources(), m.GetSource(), len(m.GetUrl())); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	return nil
}

// sources checks a table of sources and the column of n URLs that refers to it.
func sources(table []*Source, column []uint32, n int) error {
	if len(column) != 0 && len(column) != n {
		return fmt.Errorf("source: %w", errColumn)
	}
	if len(table) > n {
		return fmt.Errorf("%d sources of %d URLs", len(table), n)
	}
	for _, s := range table {
		if from := s.Link(); s.GetRole() > uint32(link.RoleRedirect) || !from.Valid() {
			return fmt.Errorf("source: URL of %d bytes, seed of %d, path %.80q, role %d", len(s.GetUrl()), len(s.GetSeed()), s.GetPath(), s.GetRole())
		}
	}
	for _, at := range column {
		if uint64(at) > uint64(len(table)) {
			return fmt.Errorf("source %d of %d", at, len(table))
		}
	}
	return nil
}

// Link returns the source, of a validated message.
func (m *Source) Link() link.Source {
	return link.Source{URL: string(m.GetUrl()), Path: string(m.GetPath()), Seed: string(m.GetSeed()), Role: link.Role(m.GetRole())} // validated
}

// SourceOf returns a source as a message.
func SourceOf(s *link.Source) *Source {
	text := append(append(append(make([]byte, 0, s.Len()), s.URL...), s.Path...), s.Seed...)
	path, seed := len(s.URL), len(s.URL)+len(s.Path)
	return &Source{Url: text[:path:path], Path: text[path:seed:seed], Seed: text[seed:], Role: uint32(s.Role)}
}

// Sources are the sources of the URLs of a message, converted as they are requested.
type Sources struct {
	table  []*Source
	column []uint32
	list   []*link.Source
	check  bool
}

// SourcesOf returns the sources of the URLs of a validated Links or Grant; with check, those with
// canonical URLs.
func SourcesOf(m interface {
	GetSources() []*Source
	GetSource() []uint32
}, check bool,
) Sources {
	return Sources{m.GetSources(), m.GetSource(), make([]*link.Source, len(m.GetSources())), check}
}

// Of returns the source of the URL at an index; nil: none; an empty one: rejected. URLs of one
// source share the result.
func (s *Sources) Of(i int) *link.Source {
	if len(s.column) == 0 || s.column[i] == 0 {
		return nil
	}
	n := s.column[i] - 1
	if s.list[n] == nil {
		from := s.table[n].Link()
		if s.check && !from.Canonical() {
			from = link.Source{}
		}
		s.list[n] = &from
	}
	return s.list[n]
}

// SourceTable builds a table of sources and its column. Neighbors share an entry. URLs with sources
// beyond MaxSourceBytes in all have none.
type SourceTable struct {
	sources []*Source
	column  []uint32
	last    *link.Source // added last; at is its place
	at      uint32
	size    int
}

// Add appends the source of the next URL; nil, or an empty one: none.
func (t *SourceTable) Add(from *link.Source) {
	if from == nil || from.URL == "" {
		t.column = append(t.column, 0)
		return
	}
	if t.last == nil || from != t.last && *from != *t.last {
		t.last, t.at = from, 0
		if size := from.Len() + sourceBytes; t.size+size <= MaxSourceBytes {
			t.size += size
			t.sources = append(t.sources, SourceOf(from))
			t.at = uint32(len(t.sources)) // at most the URLs of a message
		}
	}
	t.column = append(t.column, t.at)
}

// Columns returns the table and the column, which is empty if no URL has a source.
func (t *SourceTable) Columns() ([]*Source, []uint32) {
	if len(t.sources) == 0 {
		return nil, nil
	}
	return t.sources, t.column
}

// table checks the common columns of Links and Grant.
func table(ids, urls [][]byte, jobs []uint32, hops, kinds []byte) error {
	for _, id := range ids {
		if len(id) != JobIDSize {
			return fmt.Errorf("job ID of %d bytes", len(id))
		}
	}
	if len(urls) > 0 && len(ids) == 0 {
		return errors.New("URLs without a job table")
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
			return fmt.Errorf("unknown kind %d", kind)
		}
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

func signature(b []byte) error {
	if len(b) > MaxSignature {
		return fmt.Errorf("signature of %d bytes, at most %d", len(b), MaxSignature)
	}
	return nil
}

func addrs(list [][]byte) error {
	for _, addr := range list {
		if len(addr) != 4 && len(addr) != 16 {
			return fmt.Errorf("address of %d bytes", len(addr))
		}
	}
	return nil
}

func robots(list []*Robots) error {
	for _, r := range list {
		if len(r.GetOrigin()) > MaxHost+len("https://") || len(r.GetState()) > MaxRobotsState {
			return fmt.Errorf("robots: origin of %d bytes, state of %d", len(r.GetOrigin()), len(r.GetState()))
		}
	}
	return nil
}
