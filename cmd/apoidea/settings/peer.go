// Package settings defines the flags of a peer and of its job, and reads their values from the
// environment and a TOML file. Flags override the environment, which overrides the file.
package settings

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/latency"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/services/placer"
)

// Peer holds the flags of a peer, shared by run and (passed through) by cluster up. Most are bound
// to the fields of its configuration.
type Peer struct {
	// Config is set by flags; Configure completes it.
	Config node.Config
	// allowed is the value of --allow-private.
	allowed allowed
	// Texts that Configure parses, so that errors are reported once all flags are set.
	fetchFrom, proxy, optOutProof, diskReserve, maxBody, maxHostBytes, refreshShare, checkRate string
	headers                                                                                    []string
	limits                                                                                     map[string]*string // by the keys of volunteer.Keys
	// Latency is the file of the RTT matrix.
	Latency                  string
	LatencyRow, LatencyPeers int // this peer's row from 0, and how many rows are peers'
}

// Add adds the flags to f.
func (r *Peer) Add(f *pflag.FlagSet) {
	r.Config = node.DefaultConfig("", node.ProfileLab)
	c := &r.Config
	f.StringArrayVar(&c.Listen, "listen", nil, "listen address: all, all:PORT or a multiaddr; repeatable (default loopback; all with --profile public or --mdns)")
	f.StringArrayVar(&c.Bootstrap, "bootstrap", nil, "multiaddr of an entry peer, from peers --addrs; repeatable or space-separated")
	f.BoolVar(&c.MDNS, "mdns", false, "discover peers of the same --network by multicast DNS")
	f.StringArrayVar(&c.DNSSeed, "dns-seed", nil, "domain with _dnsaddr TXT records of entry peers; repeatable")
	f.StringVar(&c.DNSServer, "dns-server", "", "DNS resolver for seeds and sites, HOST:PORT (default the system's)")
	f.StringVar(&c.Dashboard, "dashboard", c.Dashboard, "dashboard address, or off; port 0 is chosen once and kept")
	f.BoolVar(&c.DashboardLogin, "dashboard-login", false, "require the dashboard login on loopback too, for shared machines")
	f.StringVar(&c.Name, "name", "", "display name: at most 32 letters, digits, dots, dashes or underscores")
	f.StringVar(&c.Network, "network", c.Network, "ring name; peers of different networks do not connect")
	f.StringVar((*string)(&c.Profile), "profile", string(c.Profile), "public (volunteers) or lab (clusters on one machine)")
	r.allowed.config = c
	f.Var(&r.allowed, "allow-private", "also fetch from loopback, private and link-local addresses, or PREFIX only; repeatable")
	f.Lookup("allow-private").NoOptDefVal = "true"
	f.BoolVar(&c.Found, "found", false, "serve alone even if the last run knew other peers")
	f.StringVar(&c.Admission, "admission", "", "members: open (reachable peers) or invite; set by the founder")
	f.StringVar(&c.Placement, "placement", c.Placement, "placement strategy: "+strings.Join(placer.Names(), ", "))
	f.StringVar(&c.Probe, "probe", c.Probe, "RTT probe: connect (TCP), or head (HEAD, if robots.txt allows)")
	f.StringVar(&c.GeoIP, "geoip", "", "MaxMind DB file for --placement geo")
	f.StringVar(&c.Hierarchy, "hierarchy", "", "file of nested IP ranges for --placement ipmicra")
	f.IntVar(&c.Fetchers, "fetchers", c.Fetchers, "maximum concurrent fetches")
	f.StringVar(&c.Governor, "governor", c.Governor, "fetch scheduler under --bandwidth: "+strings.Join(bandwidth.Names(), ", "))
	f.IntVar(&c.MaxDepth, "max-d", c.MaxDepth, "--governor paper: URLs examined to find one that fits")
	f.StringArrayVar(&c.Holidays, "holiday", nil, "date (2026-12-25) with weekend server speeds; repeatable")
	f.StringVar(&r.fetchFrom, "fetch-from", "", "source IP address of fetches")
	f.StringVar(&r.proxy, "proxy", "", "proxy to sites: socks5://HOST:PORT or http://HOST:PORT (CONNECT); names resolve locally")
	f.StringArrayVar(&r.headers, "header", nil, "header field for one host, 'HOST: Name: value'; not shared; repeatable")
	f.BoolVar(&c.ArchiveHostFields, "archive-headers", false, "store --header fields in the archive")
	f.DurationVar(&c.Delay, "delay", c.Delay, "minimum gap between requests to a host; below 100ms requires --allow-private")
	f.DurationVar(&c.DomainDelay, "domain-delay", 0, "minimum gap between requests to a registrable domain, ring-wide; 0: none")
	f.DurationVar(&c.Patience, "patience", c.Patience, "with --until-idle or --wait: maximum wait for a retry; 0: unlimited")
	f.StringVar(&c.Jobs, "jobs", node.JobsAny, "accepted jobs: any, mine (own job key), or FILE of key IDs")
	f.StringVar(&c.JobKey, "job-key", "", "key file that signs jobs, created if missing (default the peer's identity)")
	f.StringVar(&c.Contact, "contact", "", "contact URL for webmasters; required by --profile public")
	f.StringVar(&c.From, "from", "", "mail address for the From header (default that of a mailto: --contact)")
	f.StringVar(&c.OptOutFile, "optout-file", "", "file of hosts, domains, addresses and URLs not to crawl")
	f.StringVar(&c.OptOutURL, "optout-url", "", "URL of an opt-out list, fetched every 10 minutes")
	f.StringVar(&c.OptOutListen, "optout-listen", "", "HOST:PORT of the opt-out form for webmasters")
	f.StringVar(&r.optOutProof, "optout-proof", "", "require proof of an opt-out from the site: yes or no (default yes with --profile public)")
	f.IntVar(&c.DomainHosts, "domain-hosts", -1, "maximum hosts of a registrable domain per job; 0: unlimited (default 1000 with --profile public, else 10000)")
	f.IntVar(&c.MaxRequestsPerHost, "max-requests-per-host", -1, "maximum requests per job and host, failures included; 0: unlimited (default 50000 with --profile public, else 100000)")
	f.StringVar(&r.maxHostBytes, "max-bytes-per-host", "", "approximate maximum body bytes per job and host; 0: unlimited (default 2GiB or a tenth of the free disk, whichever is less)")
	f.IntVar(&c.PageHosts, "page-hosts", -1, "maximum new hosts linked from one page; 0: unlimited (default 1000 with --profile public, else 10000)")
	f.IntVar(&c.IPPermits, "ip-permits", -1, "maximum requests per minute to an address, ring-wide; 0: unlimited (default 4 per --delay with --profile public, else 0)")
	f.StringVar(&c.Archive, "archive", c.Archive, "WARC compression: gzip, zstd or none")
	f.BoolVar(&c.ArchiveNoIndex, "archive-noindex", false, "also archive pages marked noindex")
	f.StringVar(&c.Cookies, "cookies", c.Cookies, "send cookies back to the host that set them: on or off")
	f.StringVar(&c.Duplicates, "duplicates", c.Duplicates, "links of duplicate pages: extract or drop")
	f.StringVar(&c.Seen, "seen", c.Seen, "URL set: exact, or bloom (the paper's filter, loses some URLs)")
	f.BoolVar(&c.ForgetLimits, "forget-limits", false, "discard changes made by limits set in earlier runs")
	f.DurationVar(&c.Promote, "promote", 0, "time of service after which a checked worker is invited; 0: never")
	f.StringVar(&r.checkRate, "check-rate", "", "share of each worker's pages to check (default 2% with --profile public, else 0)")
	f.StringVar(&r.refreshShare, "refresh-share", "50%", "maximum share of repeat visits while first visits wait, per host")
	f.DurationVar(&c.RefreshDay, "refresh-day", c.RefreshDay, "length of a day in job refresh; requires --profile lab")
	f.StringVar(&r.diskReserve, "disk-reserve", "256MiB", "free disk space at which the peer stops")
	f.StringVar(&r.maxBody, "max-body", "16MiB", "maximum decoded body size; sitemaps: 50MiB")
	f.StringVar(&c.Reachability, "reachability", "", "auto (asks other peers), public, or private (a worker) (default the profile's)")
	f.StringVar(&c.NATTraversal, "nat-traversal", "", "port mapping, hole punching and relaying, also for others: on or off (default on with --profile public)")
	f.IntVar(&c.Replicas, "replicas", c.Replicas, "copies of each record, the owner's included, 1 to 8")
	f.StringVar(&r.Latency, "latency", "", "RTT matrix to emulate on loopback (apoidea help distances)")
	f.IntVar(&r.LatencyRow, "latency-row", 0, "row of this peer in the --latency matrix, from 0")
	f.IntVar(&r.LatencyPeers, "latency-peers", 0, "matrix rows that are peers, equal on all peers (default --latency-row plus 1; with cluster up, its peers)")
	r.addLimits(f, &c.Limits)
	f.BoolVar(&c.APIRemote, "api-remote", false, "allow remote access to --api and --metrics by token, unencrypted")
	f.StringVar(&c.Metrics, "metrics", "", "HOST:PORT of Prometheus metrics at /metrics; non-loopback requires --api-remote (default off)")
	f.StringVar(&c.Pprof, "pprof", "", "loopback HOST:PORT of Go's profiler at /debug/pprof/ (default off)")
	f.DurationVar(&c.LeaseTTL, "lease-ttl", c.LeaseTTL, "lifetime of a host lease without a heartbeat")
}

// addLimits adds a flag for each limit that has none of its own.
func (r *Peer) addLimits(f *pflag.FlagSet, defaults *volunteer.Rules) {
	r.limits = make(map[string]*string)
	for _, k := range volunteer.Keys {
		if f.Lookup(k.Name) != nil {
			continue
		}
		r.limits[k.Name] = f.String(k.Name, k.Get(defaults), k.About)
		if k.YesNo {
			f.Lookup(k.Name).NoOptDefVal = "true"
		}
	}
}

// Configure returns the configuration of the flags, for a peer of that version with its data in
// dataDir and its API at api.
func (r *Peer) Configure(dataDir, api, version string) (node.Config, error) {
	c := r.Config
	c.DataDir, c.API, c.Version = dataDir, api, version
	c.Bootstrap = nil
	for _, list := range r.Config.Bootstrap {
		c.Bootstrap = append(c.Bootstrap, strings.Fields(list)...)
	}
	if err := r.setPoliteness(&c); err != nil {
		return c, err
	}
	if err := r.ways(&c); err != nil {
		return c, err
	}
	reserve, err := volunteer.ParseSize(r.diskReserve)
	if err != nil {
		return c, fmt.Errorf("%w: disk-reserve %q: %w", ErrUsage, r.diskReserve, err)
	}
	again, err := strconv.ParseFloat(strings.TrimSuffix(r.refreshShare, "%"), 64)
	if c.RefreshShare = again / 100; err != nil || !(again > 0 && again <= 100) {
		return c, fmt.Errorf("%w: refresh-share %q: must be above 0%% and at most 100%%", ErrUsage, r.refreshShare)
	}
	c.CheckRate = node.DefaultConfig("", c.Profile).CheckRate
	if r.checkRate != "" {
		rate, err := strconv.ParseFloat(strings.TrimSuffix(r.checkRate, "%"), 64)
		if c.CheckRate = rate / 100; err != nil || !(rate >= 0 && rate <= 100) {
			return c, fmt.Errorf("%w: check-rate %q: must be between 0%% and 100%%", ErrUsage, r.checkRate)
		}
	}
	body, err := volunteer.ParseSize(r.maxBody)
	if err != nil {
		return c, fmt.Errorf("%w: max-body %q: %w", ErrUsage, r.maxBody, err)
	}
	share := c.MaxBytesPerHost
	if r.maxHostBytes != "" {
		if share, err = volunteer.ParseSize(r.maxHostBytes); err != nil {
			return c, fmt.Errorf("%w: max-bytes-per-host %q: %w", ErrUsage, r.maxHostBytes, err)
		}
	}
	c.DiskReserve, c.MaxBody, c.MaxBytesPerHost = uint64(reserve), body, share // not negative
	for _, k := range volunteer.Keys {
		if value, ok := r.limits[k.Name]; ok {
			if err := k.Set(&c.Limits, *value); err != nil {
				return c, fmt.Errorf("%w: %w", ErrUsage, err)
			}
		}
	}
	if c.Latency, err = r.distances(); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// ways sets source address, proxy and header fields of requests to sites.
func (r *Peer) ways(c *node.Config) (err error) {
	if r.fetchFrom != "" {
		if c.FetchFrom, err = netip.ParseAddr(r.fetchFrom); err != nil {
			return fmt.Errorf("%w: fetch-from %q: must be an IP address", ErrUsage, r.fetchFrom)
		}
	}
	if r.proxy != "" {
		if c.Proxy, err = fetch.ParseProxy(r.proxy); err != nil {
			return fmt.Errorf("%w: proxy %w", ErrUsage, err)
		}
	}
	c.HostFields = make(fetch.HostFields)
	for i, text := range r.headers {
		if err := c.HostFields.Add(text); err != nil { // the text may hold a password
			return fmt.Errorf("%w: header %d: %w", ErrUsage, i+1, err)
		}
	}
	return nil
}

// setPoliteness sets politeness values that were not given to those of the profile.
func (r *Peer) setPoliteness(c *node.Config) error {
	profile := node.DefaultConfig("", c.Profile)
	if c.Profile == node.ProfilePublic {
		profile.IPPermits = node.DefaultPermits(c.Delay)
	}
	for _, n := range []struct{ given, profile *int }{
		{&c.MaxRequestsPerHost, &profile.MaxRequestsPerHost},
		{&c.PageHosts, &profile.PageHosts},
		{&c.DomainHosts, &profile.DomainHosts},
		{&c.IPPermits, &profile.IPPermits},
	} {
		if *n.given < 0 {
			*n.given = *n.profile
		}
	}
	c.OptOutProof = profile.OptOutProof
	switch r.optOutProof {
	case "":
	case "yes", "no":
		c.OptOutProof = r.optOutProof == "yes"
	default:
		return fmt.Errorf("%w: optout-proof %q: must be yes or no", ErrUsage, r.optOutProof)
	}
	return nil
}

// distances reads the matrix of --latency; nil if not set.
func (r *Peer) distances() (*latency.Plan, error) {
	if r.Latency == "" {
		if r.LatencyRow != 0 || r.LatencyPeers != 0 {
			return nil, fmt.Errorf("%w: --latency-row and --latency-peers: require --latency", ErrUsage)
		}
		return nil, nil //nolint:nilnil // no distances are emulated
	}
	net, err := latency.LoadMatrix(r.Latency, false)
	if err != nil {
		return nil, fmt.Errorf("%w: --latency: %w", ErrUsage, err)
	}
	peers := r.LatencyPeers
	if peers == 0 {
		peers = r.LatencyRow + 1
	}
	plan, err := latency.New(net, r.LatencyRow, peers)
	if err != nil {
		return nil, fmt.Errorf("%w: --latency %s: %w", ErrUsage, r.Latency, err)
	}
	return plan, nil
}
