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
	"github.com/apoidea/apoidea/crawl/permit"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/latency"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/services/placer"
	"github.com/apoidea/apoidea/storage/warc"
)

// Profile is a named set of defaults for an environment (design, section 7).
type Profile string

// The profiles.
const (
	// ProfilePublic is for volunteers: address filters, IP diversity in the routing table, low
	// connection limits, a mandatory contact.
	ProfilePublic Profile = "public"
	// ProfileLab is for clusters on one machine: none of those.
	ProfileLab Profile = "lab"
)

// Config is the configuration of a peer. The zero value is invalid: start from DefaultConfig.
type Config struct {
	// DataDir holds everything that survives a restart.
	DataDir string
	// API is the address of the control API: a unix socket path, or tcp:HOST:PORT. Empty: apoidea.sock
	// in DataDir.
	API string
	// APIRemote allows API and Metrics to listen on non-loopback addresses.
	APIRemote bool
	// TokenFile holds the token required by an API on TCP, and by Metrics on other addresses than
	// loopback. Empty: api.token in DataDir, generated at the start.
	TokenFile string
	// Dashboard is the address of the dashboard, HOST:PORT; port 0 is chosen once and kept. off or
	// empty: none.
	Dashboard string
	// DashboardLogin requires a login for reading the dashboard too, also on loopback.
	DashboardLogin bool
	// Name is the operator's name for the peer, shown on the ring; empty: none.
	Name string
	// Network separates rings: it is part of every protocol ID.
	Network string
	Profile Profile // public or lab; selects defaults

	// Listen has the multiaddrs to listen on, or all (see p2p.ListenOn); empty takes the profile's
	// (public: all interfaces, lab: loopback, ports chosen by the system).
	Listen []string
	// MDNS enables discovery of peers of the same network by multicast DNS.
	MDNS bool
	// Bootstrap has the multiaddrs of entry peers, with /p2p/ part.
	Bootstrap []string
	// DNSSeed has domains whose _dnsaddr TXT records list entry peers.
	DNSSeed []string
	// DNSServer is host:port of the resolver for seeds and for crawled hosts; empty takes the
	// system's.
	DNSServer string
	// Reachability is whether others can dial this peer: auto (probed), public, private, or empty for
	// the profile's default (public: auto, lab: public). A peer that cannot be dialed is a worker: it
	// owns nothing and crawls for ring members.
	Reachability string
	// NATTraversal is on, off, or empty for the profile's default (public: on, lab: off): port
	// forwarding by the home router, relays and hole punching if the peer cannot be dialed, and
	// relaying for such peers as a member.
	NATTraversal string
	// ForgetLimits resets, at the start, what `limits set` changed in earlier runs.
	ForgetLimits bool
	// Found lets a restarted peer serve alone although it was not alone before.
	Found bool
	// Admission is open or invite: the charter of a ring that this peer founds, and the only one that
	// it joins. Empty: open in the lab profile if it founds, any if it joins.
	Admission string

	// AllowPrivate permits fetches from private, loopback and link-local addresses.
	AllowPrivate bool
	// AllowPrefixes permits such addresses in these prefixes.
	AllowPrefixes []netip.Prefix
	// Placement is the strategy that selects the worker of a host.
	Placement string
	// Probe is how candidates measure the RTT to a site: connect (TCP) or head (a request, if
	// robots.txt is known and allows it).
	Probe string
	// GeoIP is a MaxMind DB file of positions or countries, for the strategy geo.
	GeoIP string
	// Hierarchy is a file of IP ranges with their organizations, for the strategy ipmicra: CSV, or a
	// registry's delegated-extended statistics. Empty: each /24 and each /48 is a range of its own,
	// without organization.
	Hierarchy string
	// Fetchers is the maximum number of concurrent fetches.
	Fetchers int
	// Governor schedules fetches under a bandwidth limit: ours, paper, start-stop, or none, which
	// leaves it to the limiter. MaxDepth is the number of queue positions that it searches, by score,
	// for a fetch that fits.
	Governor string
	MaxDepth int // queue positions that the governor considers
	// Holidays are days as YYYY-MM-DD on which servers are expected to be as fast as at weekends.
	Holidays []string
	// HostFields are request header fields for single sites; ArchiveHostFields keeps them in the
	// archive. They stay on this machine: other peers that crawl such a site do not send them.
	HostFields        fetch.HostFields
	ArchiveHostFields bool // see HostFields
	// Proxy is the proxy for connections to sites, socks5 or http; nil: none.
	Proxy *url.URL
	// FetchFrom is the source address of fetches; the zero value leaves it to the system.
	FetchFrom netip.Addr
	// Delay is the minimum interval between requests to a host.
	Delay time.Duration
	// DomainDelay is the minimum interval between requests of all peers to all hosts of a registrable
	// domain, up to an hour; 0: none. It must be the same for all peers of a ring.
	DomainDelay time.Duration
	// Patience is the time to the next attempt of a URL beyond which a wait for the end of a crawl
	// ignores it as deferred. 0: unlimited.
	Patience time.Duration
	// Jobs selects the jobs that this peer accepts: any (also if empty), mine, which means those of
	// its job key and identity, or a file of job key IDs, one per line. The public profile requires
	// signed jobs.
	Jobs string
	// JobKey is a file with the key that signs jobs posted and changed at this peer; it is created if
	// missing. Empty: the peer's identity.
	JobKey string
	// Contact is a URL or mail address in the User-Agent, for webmasters.
	Contact string

	// From is the operator's mail address, sent to sites as From; empty takes that of a mailto:
	// contact.
	From string
	// OptOutFile and OptOutURL are lists of hosts, domains, addresses and URL patterns that this peer
	// does not crawl; empty: none. The file is reread when it changes, the URL fetched every ten
	// minutes.
	OptOutFile, OptOutURL string
	// OptOutListen is host:port of the opt-out form for webmasters; empty: none.
	OptOutListen string
	// OptOutProof requires proof of control of a site before this peer stores its opt-out for the
	// ring.
	OptOutProof bool
	// DomainHosts is the maximum number of hosts of a registrable domain in a job; 0: unlimited.
	DomainHosts int
	// MaxRequestsPerHost is the maximum number of requests of a job to a host, whatever their outcome;
	// 0: unlimited.
	MaxRequestsPerHost int
	// MaxBytesPerHost is the approximate maximum of body bytes that a job fetches from a host; 0:
	// unlimited; FittingHostBytes: by the free disk space at the start.
	MaxBytesPerHost int64
	// RefreshShare is the share of a grant, above 0 and at most 1, for pages that are fetched again
	// while others wait for their first visit.
	RefreshShare float64
	// RefreshDay is the length of a day in the schedule of pages that are fetched again; less than 24
	// hours only in the lab profile.
	RefreshDay time.Duration
	// PageHosts is the maximum number of hosts new to a page's owner that links of the page may add;
	// 0: unlimited.
	PageHosts int
	// Promote is how long a worker must have served before this member of a ring by invitation invites
	// it, without a lost check; 0: never.
	Promote time.Duration
	// CheckRate is the share of the pages reported by each worker that another one fetches again, to
	// find false reports; 0: none.
	CheckRate float64
	// IPPermits is the number of requests per PermitChunk, a minute, that all peers together make to
	// an address; 0: unlimited. Both must be the same for all peers of a ring.
	IPPermits   int
	PermitChunk time.Duration // the interval of IPPermits

	// Archive is the compression of WARC records: gzip, zstd or none.
	Archive string
	// Cookies is on (cookies of a host are sent back to it during one lease) or off.
	Cookies string
	// ArchiveNoIndex archives pages with noindex too.
	ArchiveNoIndex bool
	// Duplicates is extract (links of duplicates are followed) or drop (the paper's rule).
	Duplicates string
	// Seen is exact or bloom (the paper's filter alone).
	Seen string
	// DiskReserve is the free disk space in bytes below which the peer stops.
	DiskReserve uint64
	// Limits are the resource limits at the start; `limits set` changes them, stored in DataDir.
	// Fetchers and DiskReserve of this Config override theirs.
	Limits volunteer.Rules
	// OwnProcess reports that the process runs only this peer, so that it may set the process' memory
	// limit.
	OwnProcess bool
	// Held delays fetching until it is closed, for a caller that first records the state before the
	// run. Nil: no delay.
	Held <-chan struct{}
	// MaxBody is the maximum size of a fetched body, decoded, in bytes.
	MaxBody int64

	// Replicas is the number of peers that store a record: its owner and its successors.
	Replicas int
	// LeaseTTL is the lifetime of a lease without a heartbeat.
	LeaseTTL time.Duration
	// Latency emulates latency between the peers and sites of one machine; nil: none. Only in the lab
	// profile.
	Latency *latency.Plan
	// Metrics and Pprof are loopback addresses, HOST:PORT, of Prometheus metrics and Go's profiler;
	// empty: none. They may be equal. With APIRemote Metrics may be a non-loopback address.
	Metrics, Pprof string
	// registerer is libp2p's metrics registry; nil without Metrics, since counting costs CPU time.
	registerer prometheus.Registerer
	// Version is the peer's software version.
	Version string
}

// FittingHostBytes as MaxBytesPerHost means maxFittingHostBytes or a tenth of the free disk,
// whichever is less, but at least minFittingHostBytes: an endless host then does not fill a home
// disk.
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
		DataDir: dir, Dashboard: "127.0.0.1:0", Network: "main", Profile: profile, Placement: "adaptive", Probe: placer.ProbeConnect,
		Fetchers: 256, // hides an RTT of 200 ms at 1,000 pages/s; each costs a stack and a connection's buffers
		Governor: bandwidth.Ours, MaxDepth: bandwidth.DefaultMaxDepth,
		RefreshShare: 0.5, RefreshDay: 24 * time.Hour,
		Delay: time.Second, Patience: DefaultPatience, Archive: "gzip", Cookies: "on", Duplicates: "extract", Seen: "exact",
		Limits:      volunteer.Rules{Memory: 160 << 20}, // half of what the collector would take by default
		DiskReserve: 256 << 20, MaxBody: 16 << 20, Replicas: 3, LeaseTTL: 8 * time.Second, Version: "dev", PermitChunk: permit.Chunk,
	}
	c.MaxBytesPerHost = FittingHostBytes
	c.MaxRequestsPerHost, c.PageHosts, c.DomainHosts = 100_000, 10_000, domain.LabHosts
	if profile == ProfilePublic {
		c.MaxRequestsPerHost, c.PageHosts = 50_000, 1000
		c.CheckRate = 0.02
		c.OptOutProof, c.DomainHosts, c.IPPermits = true, domain.DefaultHosts, DefaultPermits(c.Delay)
	}
	return c
}

// DefaultPermits returns the default limit of requests per minute to one address for a delay: four
// times the rate of one host, as on one worker.
func DefaultPermits(delay time.Duration) int {
	return int(min(max(4*permit.Chunk/max(delay, minDelay), 1), permit.MaxLimit))
}

var networkName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// minDelay is the minimum delay except for private targets.
const minDelay = 100 * time.Millisecond

// Validate returns an error that names the first invalid field with its value.
func (c *Config) Validate() error {
	oneOf := func(name, value string, allowed ...string) error {
		if !slices.Contains(allowed, value) {
			return control.Usage(fmt.Sprintf("%s %q: must be one of %s", name, value, strings.Join(allowed, ", ")))
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
		oneOf("admission", c.Admission, "", "open", "invite"),
		oneOf("nat-traversal", c.NATTraversal, "", "on", "off"),
		listens(c.Listen),
		entries(c.Bootstrap),
		oneOf("placement", c.Placement, placer.Names()...),
		when(c.Placement == "geo" && c.GeoIP == "", "placement geo: requires --geoip FILE"),
		oneOf("probe", c.Probe, placer.ProbeConnect, placer.ProbeHead),
		when(c.Fetchers < 1 || c.Fetchers > 4096, fmt.Sprintf("fetchers %d: must be between 1 and 4096", c.Fetchers)),
		oneOf("governor", c.Governor, bandwidth.Names()...),
		when(c.MaxDepth < 1 || c.MaxDepth > bandwidth.MaxMaxDepth, fmt.Sprintf("max-d %d: must be between 1 and %d", c.MaxDepth, bandwidth.MaxMaxDepth)),
		days("holiday", c.Holidays),
		when(c.Delay < 0 || c.Delay > time.Hour, fmt.Sprintf("delay %v: must be between 0 and 1h", c.Delay)),
		when(c.Delay < minDelay && !c.AllowPrivate && len(c.AllowPrefixes) == 0, fmt.Sprintf("delay %v: below %v requires --allow-private", c.Delay, minDelay)),
		when(c.DomainDelay < 0 || c.DomainDelay > permit.MaxDelay, fmt.Sprintf("domain-delay %v: must be between 0 and 1h", c.DomainDelay)),
		when(c.DomainDelay > 0 && c.Probe == placer.ProbeHead, fmt.Sprintf("domain-delay %v: not supported with --probe head, whose requests ignore it", c.DomainDelay)),
		when(c.Patience < 0 || c.Patience > inspect.MaxPatience, fmt.Sprintf("patience %v: must be between 0 (no end) and %v", c.Patience, inspect.MaxPatience)),
		c.checkManners(),
		when(c.MaxBody < 1<<10 || c.MaxBody > crawlwire.MaxSize, fmt.Sprintf("max-body %d: must be between 1024 bytes and 4 GiB", c.MaxBody)),
		when(c.Replicas < 1 || c.Replicas > 8, fmt.Sprintf("replicas %d: must be between 1 and 8", c.Replicas)),
		when(c.LeaseTTL < time.Second || c.LeaseTTL > 10*time.Minute, fmt.Sprintf("lease-ttl %v: must be between 1s and 10m", c.LeaseTTL)),
		when(c.Latency != nil && c.Proxy != nil, "proxy: not supported with --latency"),
		when(c.Latency != nil && c.Profile != ProfileLab, "latency: requires --profile lab"),
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

// ContactError reports an invalid contact, or a missing one if the profile requires it.
func (c *Config) ContactError() error {
	if c.Contact == "" {
		if c.Profile == ProfilePublic {
			return control.Refused("contact: required in the public profile, so that webmasters can reach you: set --contact URL, or use --profile lab for a ring on one machine")
		}
		return nil
	}
	if u, err := url.Parse(c.Contact); err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto") {
		return control.Usage(fmt.Sprintf("contact %q: must be an http, https or mailto URL", c.Contact))
	}
	return nil
}

// checkManners names the first invalid politeness field.
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
		when(!(c.RefreshShare > 0 && c.RefreshShare <= 1), fmt.Sprintf("refresh-share %v: must be above 0%% and at most 100%%", c.RefreshShare)),
		when(c.RefreshDay < time.Second || c.RefreshDay > 24*time.Hour, fmt.Sprintf("refresh-day %v: must be between 1s and 24h", c.RefreshDay)),
		when(c.RefreshDay != 24*time.Hour && c.Profile != ProfileLab, "refresh-day: requires --profile lab"),
		when(c.Promote < 0, fmt.Sprintf("promote %v: must be 0 or more", c.Promote)),
		when(!(c.CheckRate >= 0 && c.CheckRate <= 1), fmt.Sprintf("check-rate %v: must be between 0%% and 100%%", c.CheckRate)),
		when(c.PageHosts < 0, fmt.Sprintf("page-hosts %d: must be 0 or more", c.PageHosts)),
		when(c.PermitChunk < time.Second || c.PermitChunk > permit.Chunk, fmt.Sprintf("permit-chunk %v: must be between 1s and %v", c.PermitChunk, permit.Chunk)),
		when(c.IPPermits < 0 || c.IPPermits > permit.MaxLimit, fmt.Sprintf("ip-permits %d: must be between 0 and %d", c.IPPermits, permit.MaxLimit)),
	)
}

// mailOf returns the address of a mailto: URL; empty for any other.
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
			return control.Usage(fmt.Sprintf("bootstrap %q: must be a complete peer address, as printed by apoidea peers --addrs: /ip4/192.0.2.1/tcp/4001/p2p/PEER", a))
		}
	}
	return nil
}

// days names the first invalid day.
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

// maxHolidays is the maximum length of the list: more than the holidays of a country in ten years,
// and each fetch searches it.
const maxHolidays = 1000

// loopback checks a listen address, if any: it must be on loopback unless remote is set.
func loopback(name, addr string, remote bool) error {
	if addr == "" {
		return nil
	}
	return control.CheckAddress(name, addr, remote)
}

// checkAPI refuses non-loopback addresses unless a flag allows them.
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

// APIAddr returns the address of the control API of a peer with this configuration.
func (c *Config) APIAddr() string {
	if c.API != "" {
		return c.API
	}
	return SocketPath(c.DataDir)
}

// Client returns a client of the peer that runs with this configuration. If the data directory has
// no token, none is sent: the peer answers what is missing.
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

// maxSocketPath is the maximum length of a unix socket path on all systems: they allow 104 (macOS,
// the BSDs) to 108 bytes (Linux), including a zero byte.
const maxSocketPath = 100

// SocketPath returns the default address of the control API of a data directory: apoidea.sock in it
// or, if that path is too long, a name derived from the directory's hash in the temporary
// directory. It is absolute, so that peer and clients agree whatever their working directory.
func SocketPath(dataDir string) string {
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	path := filepath.Join(dataDir, control.SocketName)
	if len(path) <= maxSocketPath {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = resolved
	}
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join(os.TempDir(), fmt.Sprintf("apoidea-%x.sock", sum[:12]))
}

// UserAgent returns the User-Agent of requests to sites.
func (c *Config) UserAgent() string {
	if c.Contact == "" {
		return "apoidea/" + c.Version
	}
	return "apoidea/" + c.Version + " (+" + c.Contact + ")"
}

// ErrStopped ends a peer that was asked to leave.
var ErrStopped = errors.New("peer stopped")

// DefaultPatience is the default of Patience.
const DefaultPatience = inspect.DefaultPatience
