package node

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/latency"
	"github.com/apoidea/apoidea/node/placing"
	"github.com/apoidea/apoidea/node/view"
	"github.com/apoidea/apoidea/node/volunteer"
	"github.com/apoidea/apoidea/storage/warc"
)

// Profile is a named set of manners for a known world (design, section 7).
type Profile string

// The profiles.
const (
	// ProfilePublic is for volunteers: address filters, IP diversity in the routing table, small
	// connection limits, a contact demanded.
	ProfilePublic Profile = "public"
	// ProfileLab is for clusters on one machine: none of those.
	ProfileLab Profile = "lab"
)

// Config holds every knob of a peer. Zero values are not usable: start from DefaultConfig.
type Config struct {
	// DataDir keeps everything that survives a restart.
	DataDir string
	// API is where the control API listens: a unix socket path, or tcp:HOST:PORT. Empty:
	// apoidea.sock in DataDir.
	API string
	// APIRemote lets API and Metrics be at addresses of other machines than this one.
	APIRemote bool
	// TokenFile holds the token that an API on TCP, and Metrics elsewhere than on loopback, want of
	// whoever asks. Empty: api.token in DataDir, drawn at the start.
	TokenFile string
	// Dashboard is where the web page is served: an address and port, of which port 0 is chosen
	// once and kept, or off (or empty).
	Dashboard string
	// DashboardLogin has the page ask for a login of those who look too, also on loopback.
	DashboardLogin bool
	// Name is what the operator calls the peer, for people who look at the ring; empty: nothing.
	Name string
	// Network separates rings: it is part of every protocol ID.
	Network string
	Profile Profile // public or lab; says what the defaults are

	// Listen are the multiaddrs to listen on, or all (see p2p.ListenOn); empty takes the profile's
	// (public: all interfaces, lab: loopback, ports chosen by the system).
	Listen []string
	// MDNS finds peers of the same network on the local one by multicast DNS, and has them find
	// this one.
	MDNS bool
	// Bootstrap are multiaddrs of entry peers, with /p2p/ part.
	Bootstrap []string
	// DNSSeed names domains whose _dnsaddr TXT records list entry peers.
	DNSSeed []string
	// DNSServer is host:port of the resolver for seeds and for the hosts that are crawled; empty
	// takes the system's.
	DNSServer string
	// Reachability says whether others can dial this peer: auto (they are asked), public, private,
	// or empty for the profile's way (public: auto, lab: public). A peer that cannot be dialled is
	// a worker: it owns nothing and crawls for peers of the ring.
	Reachability string
	// NATTraversal is on, off, or empty for the profile's way (public: on, lab: off): ask the home
	// router to forward the port, be reached through relays and by hole punching when nobody can
	// dial the peer, and relay for such peers as a member.
	NATTraversal string
	// ForgetLimits takes back, at the start, what `limits set` changed in earlier runs.
	ForgetLimits bool
	// Found lets a peer with state serve alone although it was not alone before.
	Found bool

	// AllowPrivate permits fetches from private, loopback and link-local addresses.
	AllowPrivate bool
	// AllowPrefixes permits those of them that lie in one of these.
	AllowPrefixes []netip.Prefix
	// Placement names the strategy that picks the worker of a host.
	Placement string
	// Probe is how candidates measure the way to a site: connect (TCP) or head (a request, where
	// robots.txt is known and allows it).
	Probe string
	// GeoIP is a MaxMind DB file of positions or countries, for the strategy geo.
	GeoIP string
	// Theta is the relative error under which a server's network coordinate is good enough to place
	// its hosts by, more than 0 to 1. Smaller takes more downloads by estimators (papers 3.7: 64 in
	// the median at 0.25, 193 at 0.15) and places better.
	Theta float64
	// CoordinatesMode is how long placing by network coordinates goes on (papers 3.4): persistent,
	// cycle, single or none.
	CoordinatesMode string
	// Gossip is how often a neighbour is asked for its network coordinate.
	Gossip time.Duration
	// Hierarchy is a file of IP ranges with their organisations, for the strategy ipmicra: CSV, or
	// a registry's delegated-extended statistics. Empty: each /24 and each /48 is a range of its
	// own, of no organisation.
	Hierarchy string
	// Threshold is the largest round trip to a site that ends the search of the strategy ipmicra,
	// up to a minute.
	Threshold time.Duration
	// Fetchers bounds the exchanges under way at once.
	Fetchers int
	// Governor decides, under a cap on bandwidth, which fetch starts and when: ours, paper,
	// start-stop, or none, which leaves all to the limiter. MaxDepth is how far down the order of
	// scores it looks for one that fits.
	Governor string
	MaxDepth int // queue positions that the governor looks at
	// Holidays are days as YYYY-MM-DD on which servers are expected to be as fast as at weekends.
	Holidays []string
	// HostFields are request fields for some sites alone, and ArchiveHostFields keeps them in the
	// archive as well. They stay on this machine: other peers of the ring that crawl such a site do
	// without.
	HostFields        fetch.HostFields
	ArchiveHostFields bool // see HostFields
	// Proxy is what connections to sites go through, socks5 or http; nil: none.
	Proxy *url.URL
	// FetchFrom is the source address of fetches; the zero value leaves it to the system.
	FetchFrom netip.Addr
	// Delay is the least gap between requests to a host.
	Delay time.Duration
	// DomainDelay is the least gap between requests to all hosts of a registrable domain, up to an
	// hour, whichever peers of the ring make them; 0: there is none. It is the same for all peers of
	// a ring.
	DomainDelay time.Duration
	// Patience is how far away the next try of a URL may be before a wait for the end of a crawl
	// does without it: it is put off then. 0: as far as it likes.
	Patience time.Duration
	// Jobs says whose jobs this peer takes: any (also for empty), mine, which are those of its job
	// key and of its identity, or a file of IDs of job keys, one a line. In the public profile they
	// must be signed.
	Jobs string
	// JobKey is a file with the key that signs what is posted and changed at this peer; it is made if
	// it is not there. Empty: the peer's identity.
	JobKey string
	// Contact is a URL or mail address that webmasters find in the User-Agent.
	Contact string

	// From is the operator's mail address, sent to sites as From; empty takes that of a contact
	// that is a mailto: URL.
	From string
	// OptOutFile and OptOutURL are lists of hosts, domains, addresses and URL patterns that this
	// peer does not crawl; empty: none. The file is read again when it changes, the URL asked every
	// ten minutes.
	OptOutFile, OptOutURL string
	// OptOutListen is host:port of a form by which webmasters opt out; empty: there is none.
	OptOutListen string
	// OptOutProof demands that a site shows that it opts out itself, before this peer keeps that
	// for the ring.
	OptOutProof bool
	// DomainHosts is how many hosts of a registrable domain a job may have; 0: any number.
	DomainHosts int
	// MaxRequestsPerHost is how many requests a job may make to a host, whatever comes of them; 0:
	// any number.
	MaxRequestsPerHost int
	// MaxBytesPerHost is how many bytes of bodies a job may fetch from a host, about; 0: any
	// number; FittingHostBytes: as many as the disk suggests at the start.
	MaxBytesPerHost int64
	// PageHosts is how many hosts that the owner of a page does not know the links of that page may
	// lead to; 0: any number.
	PageHosts int
	// Novelty is after how many pages in a row that bring nothing new a host, or a part of it, is
	// left; 0: never.
	Novelty int
	// IPPermits is how many requests all peers together make to an address in PermitChunk, a
	// minute; 0: there is no such limit. Both are the same for all peers of a ring.
	IPPermits   int
	PermitChunk time.Duration // the span that IPPermits is for

	// Archive is how WARC records are packed: gzip, zstd or none.
	Archive string
	// Cookies is on (cookies of a host are sent back to it while one lease lasts) or off.
	Cookies string
	// ArchiveNoIndex archives pages that ask not to be indexed (noindex).
	ArchiveNoIndex bool
	// Duplicates is extract (links of duplicates are followed) or drop (the paper's rule).
	Duplicates string
	// Seen is exact or bloom (the paper's filter alone).
	Seen string
	// DiskReserve is the free space in bytes below which the peer stops.
	DiskReserve uint64
	// Limits are what the peer may use of machine and link when it is started; `limits set` changes
	// them, and is kept in DataDir. Their Fetchers and DiskReserve are those of this Config.
	Limits volunteer.Rules
	// OwnProcess says that the peer has its process for itself, and may bound the memory of it.
	OwnProcess bool
	// Held keeps the peer from fetching until it is closed: who counts what a run does notes before
	// what was there. Nil: nothing keeps it.
	Held <-chan struct{}
	// MaxBody bounds a fetched body, decoded, in bytes.
	MaxBody int64

	// Replicas is on how many peers a record is kept: its owner and the next ones on the ring.
	Replicas int
	// LeaseTTL is how long a lease lives without a heartbeat.
	LeaseTTL time.Duration
	// Latency emulates distances between the peers and sites of one machine; nil: there are none.
	// Only in the lab profile.
	Latency *latency.Plan
	// Metrics and Pprof are addresses of loopback, HOST:PORT, where Prometheus and Go's profiler
	// are answered; empty: nowhere. They may be the same. With APIRemote Metrics may be an address
	// for other machines.
	Metrics, Pprof string
	// registerer is where libp2p counts; nil without Metrics, since its counting costs processor
	// time.
	spillRoom func() error // refuses pages on disk; replaced in tests
	// stallAfter and stallEvery replace how long nothing may move, and how often that is looked at,
	// in tests.
	stallAfter, stallEvery time.Duration
	registerer             prometheus.Registerer
	// Version is what the peer calls itself.
	Version string
}

// FittingHostBytes as MaxBytesPerHost stands for maxFittingHostBytes or a tenth of the free disk,
// whichever is less, but at least minFittingHostBytes: a host without end then leaves a home disk
// usable.
const (
	FittingHostBytes    = -1
	maxFittingHostBytes = 2 << 30
	minFittingHostBytes = 64 << 20
)

func fittingHostBytes(free uint64) int64 {
	return int64(max(minFittingHostBytes, min(free/10, maxFittingHostBytes))) // at most 2 GiB
}

// DefaultConfig returns the configuration of a peer in the given profile with its data in dir.
func DefaultConfig(dir string, profile Profile) Config {
	c := Config{
		DataDir: dir, Dashboard: "127.0.0.1:0", Network: "main", Profile: profile, Placement: "adaptive", Probe: placing.ProbeConnect,
		Fetchers: 256, // hides a round trip of 200 ms at 1,000 pages/s; each costs a stack and a connection's buffers
		Governor: bandwidth.Ours, MaxDepth: bandwidth.DefaultMaxDepth,
		Theta: 0.25, CoordinatesMode: coordinates.ModePersistent.String(), Gossip: 10 * time.Second, Threshold: ipmicra.DefaultThreshold,
		Delay: time.Second, Patience: DefaultPatience, Archive: "gzip", Cookies: "on", Duplicates: "extract", Seen: "exact",
		Limits:      volunteer.Rules{Memory: 160 << 20}, // half of what a collector left alone would take
		DiskReserve: 256 << 20, MaxBody: 16 << 20, Replicas: 3, LeaseTTL: 8 * time.Second, Version: "dev", PermitChunk: permit.Chunk,
	}
	c.MaxBytesPerHost = FittingHostBytes
	c.Novelty, c.MaxRequestsPerHost, c.PageHosts, c.DomainHosts = novelty.DefaultPages, 100_000, 10_000, domain.LabHosts
	if profile == ProfilePublic {
		c.MaxRequestsPerHost, c.PageHosts = 50_000, 1000
		c.OptOutProof, c.DomainHosts, c.IPPermits = true, domain.DefaultHosts, DefaultPermits(c.Delay)
	}
	return c
}

// DefaultPermits is the limit of requests in a minute to one address that belongs to a delay: four
// times what one host may be asked, as on one worker.
func DefaultPermits(delay time.Duration) int {
	return int(min(max(4*permit.Chunk/max(delay, minDelay), 1), permit.MaxLimit))
}

var networkName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// minDelay is the politeness floor that only private targets may go below.
const minDelay = 100 * time.Millisecond

// Validate names the first field that is wrong, with its value.
func (c *Config) Validate() error {
	oneOf := func(name, value string, allowed ...string) error {
		if !slices.Contains(allowed, value) {
			return control.Usage(fmt.Sprintf("%s %q: must be one of %v", name, value, allowed))
		}
		return nil
	}
	checks := []error{
		when(c.DataDir == "", "data-dir: must not be empty"),
		when(!networkName.MatchString(c.Network), fmt.Sprintf("network %q: must be 1 to 64 of a-z, 0-9, dot, dash, underscore", c.Network)),
		when(!control.Name(c.Name).Valid(), fmt.Sprintf("name %q: must be up to %d of a-z, A-Z, 0-9, dot, dash, underscore", c.Name, control.MaxName)),
		oneOf("profile", string(c.Profile), string(ProfilePublic), string(ProfileLab)),
		oneOf("archive", c.Archive, warc.Compressions()...),
		oneOf("cookies", c.Cookies, "on", "off"),
		oneOf("duplicates", c.Duplicates, "extract", "drop"),
		oneOf("seen", c.Seen, "exact", "bloom"),
		oneOf("reachability", c.Reachability, "", "auto", "public", "private"),
		oneOf("nat-traversal", c.NATTraversal, "", "on", "off"),
		listens(c.Listen),
		entries(c.Bootstrap),
		oneOf("placement", c.Placement, placing.Names()...),
		when(c.Placement == "geo" && c.GeoIP == "", "placement geo: needs a database of positions (--geoip FILE)"),
		oneOf("probe", c.Probe, placing.ProbeConnect, placing.ProbeHead),
		when(!(c.Theta > 0 && c.Theta <= 1), fmt.Sprintf("theta %v: must be more than 0, at most 1", c.Theta)),
		oneOf("coordinates-mode", c.CoordinatesMode, coordinates.Modes()...),
		when(c.Gossip < placing.LeastGossip || c.Gossip > time.Hour, fmt.Sprintf("gossip %v: must be between %v and 1h", c.Gossip, placing.LeastGossip)),
		when(c.Threshold <= 0 || c.Threshold > time.Minute, fmt.Sprintf("threshold %v: must be more than 0, at most 1m", c.Threshold)),
		when(c.Fetchers < 1 || c.Fetchers > 4096, fmt.Sprintf("fetchers %d: must be between 1 and 4096", c.Fetchers)),
		oneOf("governor", c.Governor, bandwidth.Names()...),
		when(c.MaxDepth < 1 || c.MaxDepth > bandwidth.MaxMaxDepth, fmt.Sprintf("max-d %d: must be between 1 and %d", c.MaxDepth, bandwidth.MaxMaxDepth)),
		days("holiday", c.Holidays),
		when(c.Delay < 0 || c.Delay > time.Hour, fmt.Sprintf("delay %v: must be between 0 and 1h", c.Delay)),
		when(c.Delay < minDelay && !c.AllowPrivate && len(c.AllowPrefixes) == 0, fmt.Sprintf("delay %v: below %v only with --allow-private", c.Delay, minDelay)),
		when(c.DomainDelay < 0 || c.DomainDelay > permit.MaxDelay, fmt.Sprintf("domain-delay %v: must be between 0 and 1h", c.DomainDelay)),
		when(c.DomainDelay > 0 && c.Probe == placing.ProbeHead, fmt.Sprintf("domain-delay %v: not with --probe head, whose requests are made without regard to it", c.DomainDelay)),
		when(c.Patience < 0 || c.Patience > view.MaxPatience, fmt.Sprintf("patience %v: must be between 0 (no end) and %v", c.Patience, view.MaxPatience)),
		c.checkManners(),
		when(c.MaxBody < 1<<10 || c.MaxBody > crawlwire.MaxSize, fmt.Sprintf("max-body %d: must be between 1024 bytes and 4 GiB", c.MaxBody)),
		when(c.Replicas < 1 || c.Replicas > 8, fmt.Sprintf("replicas %d: must be between 1 and 8", c.Replicas)),
		when(c.LeaseTTL < time.Second || c.LeaseTTL > 10*time.Minute, fmt.Sprintf("lease-ttl %v: must be between 1s and 10m", c.LeaseTTL)),
		when(c.Latency != nil && c.Proxy != nil, "proxy: distances of --latency are not emulated through one"),
		when(c.Latency != nil && c.Profile != ProfileLab, "latency: distances are emulated in the lab profile only"),
		c.checkAPI(),
		loopback("pprof", c.Pprof, false),
		c.ContactError(),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// ContactError says what is wrong with the contact: one that is no URL, or none where the profile
// demands one.
func (c *Config) ContactError() error {
	if c.Contact == "" {
		if c.Profile == ProfilePublic {
			return control.Refused("contact: a peer of the public profile must name one (--contact URL), so that webmasters can reach you; for a ring on one machine use --profile lab")
		}
		return nil
	}
	if u, err := url.Parse(c.Contact); err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto") {
		return control.Usage(fmt.Sprintf("contact %q: must be an http, https or mailto URL", c.Contact))
	}
	return nil
}

// checkManners names the first field of how sites are treated that is wrong.
func (c *Config) checkManners() error {
	if c.From != "" {
		if a, err := mail.ParseAddress(c.From); err != nil || a.Name != "" || a.Address != c.From {
			return control.Usage(fmt.Sprintf("from %q: must be a mail address such as me@example.org", c.From))
		}
	}
	if c.OptOutURL != "" {
		if u, err := url.Parse(c.OptOutURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return control.Usage(fmt.Sprintf("optout-url %q: must be an http or https URL", c.OptOutURL))
		}
	}
	if c.OptOutListen != "" {
		if _, _, err := net.SplitHostPort(c.OptOutListen); err != nil {
			return control.Usage(fmt.Sprintf("optout-listen %q: must be HOST:PORT, or :PORT for all addresses", c.OptOutListen))
		}
	}
	return cmp.Or(
		when(c.DomainHosts < 0 || c.DomainHosts > 1<<30, fmt.Sprintf("domain-hosts %d: must be between 0 and 2^30", c.DomainHosts)),
		when(c.MaxRequestsPerHost < 0, fmt.Sprintf("max-requests-per-host %d: must be 0 or more", c.MaxRequestsPerHost)),
		when(c.MaxBytesPerHost < FittingHostBytes, fmt.Sprintf("max-bytes-per-host %d: must be 0 or more", c.MaxBytesPerHost)),
		when(c.PageHosts < 0, fmt.Sprintf("page-hosts %d: must be 0 or more", c.PageHosts)),
		when(c.Novelty < 0 || c.Novelty > novelty.MaxPages, fmt.Sprintf("novelty %d: must be between 0 and %d", c.Novelty, novelty.MaxPages)),
		when(c.PermitChunk < time.Second || c.PermitChunk > permit.Chunk, fmt.Sprintf("permit-chunk %v: must be between 1s and %v", c.PermitChunk, permit.Chunk)),
		when(c.IPPermits < 0 || c.IPPermits > permit.MaxLimit, fmt.Sprintf("ip-permits %d: must be between 0 and %d", c.IPPermits, permit.MaxLimit)),
	)
}

// mailOf is the address of a mailto: URL; empty for any other.
func mailOf(contact string) string {
	u, err := url.Parse(contact)
	if err != nil || u.Scheme != "mailto" {
		return ""
	}
	a, err := mail.ParseAddress(u.Opaque)
	if err != nil || a.Name != "" {
		return ""
	}
	return a.Address
}

// entries names the first multiaddr that cannot be an entry peer's.
func entries(addrs []string) error {
	for _, a := range addrs {
		if _, err := peer.AddrInfoFromString(a); err != nil {
			return control.Usage(fmt.Sprintf("bootstrap %q: must be the whole address of a peer, as apoidea peers --addrs prints it there: /ip4/192.0.2.1/tcp/4001/p2p/PEER", a))
		}
	}
	return nil
}

// days names the first that is no day.
func days(name string, list []string) error {
	if len(list) > maxHolidays {
		return control.Usage(fmt.Sprintf("%s: %d days, at most %d", name, len(list), maxHolidays))
	}
	for _, day := range list {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return control.Usage(fmt.Sprintf("%s %q: must be a day such as 2026-12-25", name, day))
		}
	}
	return nil
}

// maxHolidays bounds the list: more are looked up with each fetch than a country has in ten years.
const maxHolidays = 1000

// loopback checks an address to serve on, if there is one, of loopback unless it is for other
// machines too.
func loopback(name, addr string, remote bool) error {
	if addr == "" {
		return nil
	}
	return control.CheckAddress(name, addr, remote)
}

// checkAPI refuses addresses for other machines unless a flag says that they are meant.
func (c *Config) checkAPI() error {
	if api, ok := strings.CutPrefix(c.API, control.OnTCP); ok {
		if err := control.CheckAddress("api", api, c.APIRemote); err != nil {
			return err
		}
	}
	return loopback("metrics", c.Metrics, c.APIRemote)
}

func when(bad bool, text string) error {
	if bad {
		return control.Usage(text)
	}
	return nil
}

// APIAddr is where the control API of a peer with this configuration listens.
func (c *Config) APIAddr() string {
	if c.API != "" {
		return c.API
	}
	return SocketPath(c.DataDir)
}

// Client asks the peer that runs with this configuration. A token that the data directory does not
// have is not sent: the peer says what it wants.
func (c *Config) Client() *control.Client {
	client := control.NewClient(c.APIAddr())
	if !strings.HasPrefix(c.API, control.OnTCP) {
		return client
	}
	dir, file := c.DataDir, c.TokenFile
	return client.Bearing(func() (string, error) {
		token, err := datadir.Token(dir, file)
		if file == "" && errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", control.Usage("token of the API: " + err.Error())
		}
		return token, nil
	})
}

// maxSocketPath is how long a unix socket's path may be everywhere: systems differ between 104
// (macOS, the BSDs) and 108 bytes (Linux), with a zero byte at the end.
const maxSocketPath = 100

// SocketPath is the default address of the control API of a data directory: apoidea.sock in it or,
// where that path is longer than systems take, a name made from the directory's hash among the
// temporary files. It is absolute, so that a peer and those who ask it find the same one from
// wherever they were started.
func SocketPath(dataDir string) string {
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	path := filepath.Join(dataDir, "apoidea.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = resolved
	}
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join(os.TempDir(), fmt.Sprintf("apoidea-%x.sock", sum[:12]))
}

// UserAgent is what the peer calls itself towards sites.
func (c *Config) UserAgent() string {
	if c.Contact == "" {
		return "apoidea/" + c.Version
	}
	return "apoidea/" + c.Version + " (+" + c.Contact + ")"
}

// ErrStopped ends a peer that was asked to leave.
var ErrStopped = errors.New("peer stopped")

// DefaultPatience is how far away the next try of a URL may be before a wait for the end of a crawl
// does without it.
const DefaultPatience = view.DefaultPatience
