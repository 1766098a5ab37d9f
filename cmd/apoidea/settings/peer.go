// Package settings holds the flags of a peer and of its job, which are bound to what they
// configure, and the other sources of their values: the environment and a TOML file with a key for
// each flag. A flag beats the environment, which beats the file.
package settings

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/lab/internet"
	"github.com/apoidea/apoidea/node/latency"
	"github.com/apoidea/apoidea/node/placing"
	"github.com/apoidea/apoidea/node/volunteer"
)

// Peer are the flags of a peer, shared by run and (passed through) by cluster up. Most are bound to
// the fields of its configuration.
type Peer struct {
	// Config is what the flags set; New takes what Configure makes of it.
	Config node.Config
	// allowed is the value of --allow-private.
	allowed allowed
	// Words that Configure reads, so that what is wrong with one is told once all flags are known.
	fetchFrom, proxy, optOutProof, diskReserve, maxBody, maxHostBytes string
	headers                                                           []string
	limits                                                            map[string]*string // by the keys of volunteer.Keys
	// Latency is where the matrix of distances lies, LatencyRow and LatencyPeers which of its rows
	// are this peer's and how many all peers'.
	Latency                  string
	LatencyRow, LatencyPeers int // this peer's row from 0, and how many rows are peers'
}

// Add adds the flags to f.
func (r *Peer) Add(f *pflag.FlagSet) {
	r.Config = node.DefaultConfig("", node.ProfileLab)
	c := &r.Config
	f.StringArrayVar(&c.Listen, "listen", nil, "all (every interface, TCP and QUIC), all:PORT, or a multiaddr such as /ip4/192.0.2.7/tcp/4001, repeatable (default: loopback; all with --profile public or --mdns)")
	f.StringArrayVar(&c.Bootstrap, "bootstrap", nil, "address of an entry peer, as peers --addrs prints it there; repeatable, or several parted by spaces")
	f.BoolVar(&c.MDNS, "mdns", false, "find peers of the same --network on the local network, and be found (multicast DNS)")
	f.StringArrayVar(&c.DNSSeed, "dns-seed", nil, "domain whose _dnsaddr TXT records name entry peers, repeatable")
	f.StringVar(&c.DNSServer, "dns-server", "", "host:port of the DNS resolver for seeds and sites (default: the system's)")
	f.StringVar(&c.Dashboard, "dashboard", c.Dashboard, "address of the web page, or off; port 0 is chosen once and kept; beyond loopback only with a login")
	f.BoolVar(&c.DashboardLogin, "dashboard-login", false, "a login is needed on loopback too, for machines that others use as well")
	f.StringVar(&c.Name, "name", "", "what this peer is called wherever its ID is shown: up to 32 letters, digits, dots, dashes, underscores; others may have the same")
	f.StringVar(&c.Network, "network", c.Network, "name of the ring; peers of different networks do not meet")
	f.StringVar((*string)(&c.Profile), "profile", string(c.Profile), "public (volunteers) or lab (clusters on one machine)")
	r.allowed.config = c
	f.Var(&r.allowed, "allow-private", "fetch from loopback, private and link-local addresses as well: from all, or with PREFIX, such as 10.0.0.0/8, repeatable, from those in it")
	f.Lookup("allow-private").NoOptDefVal = "true"
	f.BoolVar(&c.Found, "found", false, "serve alone although the last run knew other peers")
	f.StringVar(&c.Placement, "placement", c.Placement, "who crawls a host: "+strings.Join(placing.Names(), ", "))
	f.StringVar(&c.Probe, "probe", c.Probe, "how peers measure the way to a site: connect (TCP), or head (HEAD, where robots.txt allows it)")
	f.StringVar(&c.GeoIP, "geoip", "", "MaxMind DB file of positions or countries, for --placement geo; hints for adaptive")
	f.Float64Var(&c.Theta, "theta", c.Theta, "for --placement coordinates: relative error at which a server's coordinate is good enough")
	f.StringVar(&c.CoordinatesMode, "coordinates-mode", c.CoordinatesMode, "for --placement coordinates: persistent, cycle, single or none (apoidea help placement)")
	f.DurationVar(&c.Gossip, "gossip", c.Gossip, "for --placement coordinates: how often a neighbour is asked where it stands")
	f.StringVar(&c.Hierarchy, "hierarchy", "", "FILE of nested IP ranges, for --placement ipmicra; hints for adaptive (apoidea help placement)")
	f.DurationVar(&c.Threshold, "threshold", c.Threshold, "for --placement ipmicra: the first peer within this round trip of a site takes its subnet")
	f.IntVar(&c.Fetchers, "fetchers", c.Fetchers, "exchanges under way at once")
	f.StringVar(&c.Governor, "governor", c.Governor, "under --bandwidth, which fetch starts and when: "+strings.Join(bandwidth.Names(), ", "))
	f.IntVar(&c.MaxDepth, "max-d", c.MaxDepth, "for --governor paper: how many URLs are looked at for one that fits")
	f.StringArrayVar(&c.Holidays, "holiday", nil, "day (2026-12-25) on which servers are as fast as at weekends, repeatable")
	f.StringVar(&r.fetchFrom, "fetch-from", "", "source address of fetches")
	f.StringVar(&r.proxy, "proxy", "", "reach sites through socks5://HOST:PORT or http://HOST:PORT (which has to allow CONNECT to their ports); names are resolved here")
	f.StringArrayVar(&r.headers, "header", nil, "send a field to one host alone: 'HOST: Name: value', over https, or over http with http://HOST; repeatable; other peers of the ring are not told")
	f.BoolVar(&c.ArchiveHostFields, "archive-headers", false, "keep the fields of --header in the archive too")
	f.DurationVar(&c.Delay, "delay", c.Delay, "least gap between requests to a host; below 100ms only with --allow-private")
	f.DurationVar(&c.DomainDelay, "domain-delay", 0, "least gap between requests to all hosts of a registrable domain (example.co.uk), of all peers together; up to 1h, the same for all peers; 0: none")
	f.DurationVar(&c.Patience, "patience", c.Patience, "with --until-idle or --wait: end when all that is left is tried later than this; 0 waits for all")
	f.StringVar(&c.Jobs, "jobs", node.JobsAny, "whose jobs this peer works for: any, mine (of its job key), or FILE of IDs of job keys, one a line, # before a comment; with --profile public signed ones only")
	f.StringVar(&c.JobKey, "job-key", "", "FILE of the key that signs the jobs posted and changed at this peer, made if it is not there (default: the peer's identity)")
	f.StringVar(&c.Contact, "contact", "", "URL that tells webmasters who crawls; the public profile demands one")
	f.StringVar(&c.From, "from", "", "mail address sent to sites as From (default: that of a --contact mailto:ADDRESS)")
	f.StringVar(&c.OptOutFile, "optout-file", "", "FILE of hosts, domains, addresses and URL patterns that are not crawled (see apoidea optout)")
	f.StringVar(&c.OptOutURL, "optout-url", "", "URL of such a list, asked every 10 minutes; the last good copy is kept")
	f.StringVar(&c.OptOutListen, "optout-listen", "", "HOST:PORT of a form by which webmasters opt out of the ring")
	f.StringVar(&r.optOutProof, "optout-proof", "", "whether a site must show that it opts out itself: yes or no (default: yes in the public profile)")
	f.IntVar(&c.DomainHosts, "domain-hosts", -1, "hosts of a registrable domain that a job may have; 0: any number (default: 1000 in the public profile, else 10000)")
	f.IntVar(&c.MaxRequestsPerHost, "max-requests-per-host", -1, "requests of a job to a host, whatever comes of them; 0: any number (default: 50000 in the public profile, else 100000)")
	f.StringVar(&r.maxHostBytes, "max-bytes-per-host", "", "bytes of bodies of a job from a host, about; 0: any number (default: 2GiB or a tenth of the free disk, whichever is less)")
	f.IntVar(&c.PageHosts, "page-hosts", -1, "new hosts that the links of one page may lead to; 0: any number (default: 1000 in the public profile, else 10000)")
	f.IntVar(&c.Novelty, "novelty", c.Novelty, "pages in a row without words of their own after which a host, or its part, is left as a trap; 0: never")
	f.IntVar(&c.IPPermits, "ip-permits", -1, "requests a minute to an address, of all peers together; 0: no such limit (default: 4 a --delay in the public profile, else 0)")
	f.StringVar(&c.Archive, "archive", c.Archive, "WARC files: gzip, zstd (smaller; fewer tools read it) or none (uncompressed)")
	f.BoolVar(&c.ArchiveNoIndex, "archive-noindex", false, "archive pages that ask not to be indexed (noindex) as well")
	f.StringVar(&c.Cookies, "cookies", c.Cookies, "cookies that a host sets, sent back to it while this peer crawls it: on or off")
	f.StringVar(&c.Duplicates, "duplicates", c.Duplicates, "links of duplicate pages: extract or drop")
	f.StringVar(&c.Seen, "seen", c.Seen, "URL sets: exact, or bloom (the paper's filter alone, which loses some URLs)")
	f.BoolVar(&c.ForgetLimits, "forget-limits", false, "take back, at the start, what limits set changed in earlier runs")
	f.StringVar(&r.diskReserve, "disk-reserve", "256MiB", "free disk space at which the peer stops")
	f.StringVar(&r.maxBody, "max-body", "16MiB", "largest body that is taken, decoded (sitemaps: 50MiB)")
	f.StringVar(&c.Reachability, "reachability", "", "whether others can dial this peer: auto (they are asked), public, or private: a worker that owns nothing (default: the profile's)")
	f.StringVar(&c.NATTraversal, "nat-traversal", "", "on or off: have the home router forward a port, be reached by relays and hole punching, relay for others (default: on with --profile public)")
	f.IntVar(&c.Replicas, "replicas", c.Replicas, "peers that keep a record: its owner and the next ones on the ring, 1 to 8")
	f.StringVar(&r.Latency, "latency", "", "emulate distances on loopback: FILE is a matrix of round trips (apoidea help distances)")
	f.IntVar(&r.LatencyRow, "latency-row", 0, "row of this peer in the matrix of --latency, from 0; cluster up counts by itself")
	f.IntVar(&r.LatencyPeers, "latency-peers", 0, "rows of the matrix that are peers', for all the same (default: one more than --latency-row; cluster up: its peers)")
	r.addLimits(f, &c.Limits)
	f.BoolVar(&c.APIRemote, "api-remote", false, "let --api tcp:HOST:PORT and --metrics be reached from other machines: who has the token of --token-file controls the peer, and it is sent unencrypted")
	f.StringVar(&c.Metrics, "metrics", "", "HOST:PORT of loopback where Prometheus is answered at /metrics, port 0 for any (default: nowhere); elsewhere with --api-remote")
	f.StringVar(&c.Pprof, "pprof", "", "HOST:PORT of loopback where Go's profiler is answered at /debug/pprof/ (default: nowhere)")
	f.DurationVar(&c.LeaseTTL, "lease-ttl", c.LeaseTTL, "how long a lease on a host lives without a heartbeat")
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

// Configure returns the configuration that the flags come to, for a peer of that version with its
// data in dataDir and its API at api.
func (r *Peer) Configure(dataDir, api, version string) (node.Config, error) {
	c := r.Config
	c.DataDir, c.API, c.Version = dataDir, api, version
	c.Bootstrap = nil
	for _, list := range r.Config.Bootstrap {
		c.Bootstrap = append(c.Bootstrap, strings.Fields(list)...)
	}
	if err := r.manners(&c); err != nil {
		return c, err
	}
	if err := r.ways(&c); err != nil {
		return c, err
	}
	reserve, err := volunteer.ParseSize(r.diskReserve)
	if err != nil {
		return c, fmt.Errorf("%w: disk-reserve %q: %w", ErrUsage, r.diskReserve, err)
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

// ways sets what way requests take to sites, and what goes with some of them.
func (r *Peer) ways(c *node.Config) (err error) {
	if r.fetchFrom != "" {
		if c.FetchFrom, err = netip.ParseAddr(r.fetchFrom); err != nil {
			return fmt.Errorf("%w: fetch-from %q: must be an IP address", ErrUsage, r.fetchFrom)
		}
	}
	if r.proxy != "" {
		if c.Proxy, err = node.ParseProxy(r.proxy); err != nil {
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

// manners sets, of how sites are treated, what was not given as the profile has it.
func (r *Peer) manners(c *node.Config) error {
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

// distances reads the matrix of --latency; nil if there is none.
func (r *Peer) distances() (*latency.Plan, error) {
	if r.Latency == "" {
		if r.LatencyRow != 0 || r.LatencyPeers != 0 {
			return nil, fmt.Errorf("%w: --latency-row and --latency-peers say where in the matrix of --latency a peer is: they need one", ErrUsage)
		}
		return nil, nil //nolint:nilnil // no distances are emulated
	}
	net, err := internet.Load(internet.Options{RTT: r.Latency})
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
