package resolve

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Config is the configuration of a Resolver. The zero value is that of DefaultConfig.
type Config struct {
	// Servers are queried in turn, each as host:port, the host an IP address. Empty: those of
	// /etc/resolv.conf.
	Servers []string
	// Search are the domains in which a name without a dot is looked up first. Without Servers they
	// are those of /etc/resolv.conf.
	Search []string
	// HostsFile is consulted before any server and read again when it changes. Empty: /etc/hosts. A
	// missing file counts as empty.
	HostsFile string
	// MaxEntries bounds the cache, in names. An entry is about 300 bytes. Zero: 20,000.
	MaxEntries int
	// Timeout is the timeout of one query to one server. Zero: 3 s.
	Timeout time.Duration
	// Rounds is how often the list of servers is tried before the lookup fails. Zero: 2.
	Rounds int
	// MinTTL and MaxTTL limit the TTL of addresses. Zero: 30 s, so that a page and its robots.txt need
	// one query, and 24 h.
	MinTTL, MaxTTL time.Duration
	// MaxNegativeTTL limits the TTL of the absence of a name. Zero: 1 h (RFC 2308, section 5, advises
	// one to three).
	MaxNegativeTTL time.Duration
	// FailureTTL is how long a failure is cached (RFC 2308, section 7: at most 5 min), and the absence
	// of a name until two consecutive answers reported it. Zero: 4 s: less than the backoff of a
	// failed host, so that its retry sends a query.
	FailureTTL time.Duration
	// PreferIPv6 returns IPv6 addresses before IPv4 ones. NoIPv6 omits them and does not query them.
	PreferIPv6, NoIPv6 bool
	// Now is the clock for the expiry of answers. Nil: time.Now.
	Now func() time.Time
}

// DefaultConfig returns the defaults of zero fields.
func DefaultConfig() Config {
	return Config{
		HostsFile:      "/etc/hosts",
		MaxEntries:     20_000,
		Timeout:        3 * time.Second,
		Rounds:         2,
		MinTTL:         30 * time.Second,
		MaxTTL:         24 * time.Hour,
		MaxNegativeTTL: time.Hour,
		FailureTTL:     4 * time.Second,
		Now:            time.Now,
	}
}

// withDefaults replaces zero fields by their defaults.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.HostsFile = cmp.Or(c.HostsFile, d.HostsFile)
	c.MaxEntries = cmp.Or(c.MaxEntries, d.MaxEntries)
	c.Timeout = cmp.Or(c.Timeout, d.Timeout)
	c.Rounds = cmp.Or(c.Rounds, d.Rounds)
	c.MinTTL = cmp.Or(c.MinTTL, d.MinTTL)
	c.MaxTTL = cmp.Or(c.MaxTTL, d.MaxTTL)
	c.MaxNegativeTTL = cmp.Or(c.MaxNegativeTTL, d.MaxNegativeTTL)
	c.FailureTTL = cmp.Or(c.FailureTTL, d.FailureTTL)
	if c.Now == nil {
		c.Now = d.Now
	}
	if len(c.Servers) == 0 {
		c.Servers, c.Search = systemServers("/etc/resolv.conf")
	}
	return c
}

// maxSearch bounds the search domains, as glibc once did.
const maxSearch = 6

// systemServers reads the servers and search domains of this machine. Without a server it is the
// local one, as in resolv.conf(5).
func systemServers(file string) (servers, search []string) {
	conf, err := dns.ClientConfigFromFile(file)
	if err != nil || len(conf.Servers) == 0 {
		return []string{"127.0.0.1:53"}, nil
	}
	for _, s := range conf.Servers {
		servers = append(servers, net.JoinHostPort(s, conf.Port))
	}
	for _, domain := range conf.Search {
		domain = strings.ToLower(strings.Trim(domain, "."))
		if validName(domain) == nil && len(search) < maxSearch {
			search = append(search, domain)
		}
	}
	return servers, search
}

// Resolver looks up names, from its cache if possible.
type Resolver struct {
	config Config
	hosts  *hostsFile

	mu      sync.Mutex // guards cache and flights; never held during a query
	cache   *cache
	flights map[string]*flight
}

// New returns a Resolver with an empty cache. It sends no query.
func New(config Config) *Resolver {
	config = config.withDefaults()
	return &Resolver{
		config:  config,
		hosts:   &hostsFile{path: config.HostsFile},
		cache:   newCache(config.MaxEntries),
		flights: make(map[string]*flight),
	}
}

// answer is the result for a name: addresses, or a failure.
type answer struct {
	addrs []netip.Addr
	err   *Error
	ttl   time.Duration
}

// Lookup returns the addresses of host, which is a name or an IP literal (IPv6 with or without
// brackets) without a port; IPv4 addresses come first unless the Config prefers IPv6, otherwise in
// the server's order. The slice is shared and must not be modified. It fails with an *Error, or
// with ctx's error when ctx ends first.
func (r *Resolver) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, ok := literal(host); ok {
		return []netip.Addr{addr}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	if err := validName(name); err != nil {
		return nil, &Error{Host: host, Kind: NotFound, Err: err}
	}
	now := r.config.Now()
	if addrs := r.hosts.lookup(name, now); len(addrs) > 0 {
		return order(addrs, r.config.PreferIPv6, r.config.NoIPv6), nil
	}

	r.mu.Lock()
	if a, ok := r.cache.get(name, now); ok {
		r.mu.Unlock()
		return a.result()
	}
	f := r.board(ctx, name)
	r.mu.Unlock()
	return r.await(ctx, f)
}

func (a *answer) result() ([]netip.Addr, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.addrs, nil
}

// flight is one query under way. Waiting is guarded by the resolver's mutex; answer is written
// before done is closed.
type flight struct {
	name    string
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	answer  answer
}

// board joins the flight for name, or starts it. The caller holds r.mu. The flight does not end
// with the context of its first lookup, because others may have joined; it ends with the last one.
func (r *Resolver) board(ctx context.Context, name string) *flight {
	if f, ok := r.flights[name]; ok {
		f.waiting++
		return f
	}
	name = strings.Clone(name) // a substring of a URL, which must not be retained
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{name: name, waiting: 1, cancel: cancel, done: make(chan struct{})}
	r.flights[name] = f
	go func() {
		defer close(f.done)
		defer cancel()
		f.answer = r.ask(ctx, name)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.flights[name] == f { // otherwise all lookups have left, and the answer may be incomplete
			delete(r.flights, name)
			r.cache.put(name, f.answer, r.config.Now(), r.config.FailureTTL)
		}
	}()
	return f
}

// await waits for the flight's answer or the end of ctx. The last lookup to leave ends the flight
// and waits for its goroutine.
func (r *Resolver) await(ctx context.Context, f *flight) ([]netip.Addr, error) {
	select {
	case <-f.done:
		return f.answer.result()
	case <-ctx.Done():
	}
	r.mu.Lock()
	f.waiting--
	last := f.waiting == 0
	if last && r.flights[f.name] == f {
		delete(r.flights, f.name)
	}
	r.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
	return nil, fmt.Errorf("resolve %q: %w", f.name, context.Cause(ctx))
}

// Len returns the number of names in the cache, including expired ones not yet removed.
func (r *Resolver) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache.Len()
}

// literal parses host as an IP address, with or without brackets. It rejects a zone, which is local
// to one machine.
func literal(host string) (netip.Addr, bool) {
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr, true
}

// maxName and maxLabel are the limits of RFC 1035, section 2.3.4, for a name in text.
const (
	maxName  = 253
	maxLabel = 63
)

// validName accepts letters, digits, hyphen and underscore in labels of valid length. Anything else
// could be altered or interpreted on the way to a server and back (a backslash, a space).
func validName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name must have 1 to %d bytes", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return fmt.Errorf("label must have 1 to %d bytes", maxLabel)
		}
		for i := range len(label) {
			c := label[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return fmt.Errorf("invalid byte %#x in name", c)
			}
		}
	}
	return nil
}
