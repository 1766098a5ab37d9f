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

// Config says whom to ask and how long to believe it. The zero value is that of DefaultConfig.
type Config struct {
	// Servers are asked in turn, each as host:port, the host an IP address. Empty: those of
	// /etc/resolv.conf.
	Servers []string
	// Search are the domains in which a name without a dot is looked up first. Without Servers they
	// are those of /etc/resolv.conf.
	Search []string
	// HostsFile is looked at before any server and read again when it changes. Empty: /etc/hosts. A
	// file that is not there is an empty one.
	HostsFile string
	// MaxEntries bounds the cache, in names. An entry is about 300 bytes. Zero: 20,000.
	MaxEntries int
	// Timeout is how long one server has for one answer. Zero: 3 s.
	Timeout time.Duration
	// Rounds is how many times the list of servers is gone through before a name counts as failed.
	// Zero: 2.
	Rounds int
	// MinTTL and MaxTTL bound how long addresses are believed, whatever their zone says. Zero: 30
	// s, because a page and its robots.txt should not ask twice, and 24 h.
	MinTTL, MaxTTL time.Duration
	// MaxNegativeTTL bounds how long the absence of a name is believed. Zero: 1 h (RFC 2308,
	// section 5, advises one to three).
	MaxNegativeTTL time.Duration
	// FailureTTL is how long a failure is remembered (RFC 2308, section 7: at most 5 min), and that
	// a name is absent until that was said twice in a row. Zero: 4 s: less than the rest of a host
	// that failed, so that another try of it asks.
	FailureTTL time.Duration
	// PreferIPv6 puts IPv6 addresses before IPv4 ones. NoIPv6 leaves them out and does not ask for
	// them.
	PreferIPv6, NoIPv6 bool
	// Now is the clock by which answers age. Nil: time.Now.
	Now func() time.Time
}

// DefaultConfig returns the values that zero fields stand for.
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

// withDefaults fills in what was left zero.
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

// maxSearch bounds the search domains; glibc once had the same bound.
const maxSearch = 6

// systemServers reads the servers that this machine asks, and its search domains. Without a server
// it is the local one, as resolv.conf(5) says.
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

// Resolver answers from memory where it can.
type Resolver struct {
	config Config
	hosts  *hostsFile

	mu      sync.Mutex // guards cache and flights; never held while a server is asked
	cache   *cache
	flights map[string]*flight
}

// New returns a Resolver with an empty cache. It asks nobody.
func New(config Config) *Resolver {
	config = config.withDefaults()
	return &Resolver{
		config:  config,
		hosts:   &hostsFile{path: config.HostsFile},
		cache:   newCache(config.MaxEntries),
		flights: make(map[string]*flight),
	}
}

// answer is what a name resolved to: addresses, or a failure.
type answer struct {
	addrs []netip.Addr
	err   *Error
	ttl   time.Duration
}

// Lookup returns the addresses of host, which is a name or an IP literal (IPv6 with or without
// brackets) without a port; IPv4 addresses come first unless the Config prefers IPv6, otherwise in
// the server's order. The slice is shared: it must not be changed. It fails with an *Error, or with
// ctx's error when ctx ends first.
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

// flight is one question on its way. waiting is guarded by the resolver's mutex; answer is written
// before done is closed.
type flight struct {
	name    string
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	answer  answer
}

// board joins the flight for name, or starts it. The caller holds r.mu. The flight does not end
// with the context of the one that started it, because others may have joined; it ends when the
// last of them has left.
func (r *Resolver) board(ctx context.Context, name string) *flight {
	if f, ok := r.flights[name]; ok {
		f.waiting++
		return f
	}
	name = strings.Clone(name) // it is part of a URL, which need not live as long as the answer
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{name: name, waiting: 1, cancel: cancel, done: make(chan struct{})}
	r.flights[name] = f
	go func() {
		defer close(f.done)
		defer cancel()
		f.answer = r.ask(ctx, name)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.flights[name] == f { // otherwise everybody has left, and the answer may be that of a cut-off question
			delete(r.flights, name)
			r.cache.put(name, f.answer, r.config.Now(), r.config.FailureTTL)
		}
	}()
	return f
}

// await waits for the flight's answer or the end of ctx. The last to leave ends the flight and
// waits until its goroutine is gone.
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

// Len returns the number of names in the cache, those that are out of date and not yet dropped
// included.
func (r *Resolver) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache.Len()
}

// literal reads host as an IP address, with or without brackets. A zone is refused: it means
// something on one machine only.
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

// maxName and maxLabel are the bounds of RFC 1035, section 2.3.4, for a name in text.
const (
	maxName  = 253
	maxLabel = 63
)

// validName admits letters, digits, hyphen and underscore in labels of legal length. Anything else
// would not survive the way to a server and back, or would mean something to it (a backslash, a
// space).
func validName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d bytes", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return fmt.Errorf("a label has 1 to %d bytes", maxLabel)
		}
		for i := range len(label) {
			c := label[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return fmt.Errorf("byte %#x in a name", c)
			}
		}
	}
	return nil
}
