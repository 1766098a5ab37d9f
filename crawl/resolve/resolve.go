package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// Config is the configuration of a Resolver.
type Config struct {
	// Servers are queried in turn, each as host:port, the host an IP address. Empty: those of
	// /etc/resolv.conf, with its search domains.
	Servers []string
	// NoIPv6 omits IPv6 addresses and does not query them.
	NoIPv6 bool
}

const (
	// maxEntries bounds the cache, in names. An entry is about 300 bytes.
	maxEntries = 20_000
	// queryTimeout is the timeout of one query to one server.
	queryTimeout = 3 * time.Second
	// lookupTimeout ends a lookup with unresponsive servers, also one that nothing waits for any more.
	lookupTimeout = 20 * time.Second
	// resolutionDelay is how long the IPv6 answer is awaited after the IPv4 one. RFC 8305, section 3,
	// recommends 50 ms; no user waits for a page here, and the answer is cached.
	resolutionDelay = 500 * time.Millisecond
)

// How long answers are cached. A failure is cached for less than the backoff of a failed host, so
// that its retry sends a query; so is the absence of a name until two consecutive answers reported
// it.
const (
	addressTTL = 5 * time.Minute
	absenceTTL = time.Minute
	failureTTL = 4 * time.Second
)

// Resolver looks up names, from its cache if possible.
type Resolver struct {
	servers, search []string
	noIPv6          bool
	timeout         time.Duration // of a query
	now             func() time.Time

	cache   *lru.Cache[string, *answer]
	flights singleflight.Group
}

// New returns a Resolver with an empty cache. It sends no query.
func New(config Config) *Resolver {
	cache, _ := lru.New[string, *answer](maxEntries) // a positive size has no error
	r := &Resolver{servers: config.Servers, noIPv6: config.NoIPv6, timeout: queryTimeout, now: time.Now, cache: cache}
	if len(r.servers) == 0 {
		r.servers, r.search = systemServers("/etc/resolv.conf")
	}
	return r
}

// answer is the result for a name: addresses, or a failure.
type answer struct {
	addrs   []netip.Addr
	err     *Error
	expires time.Time
}

func (a *answer) result() ([]netip.Addr, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.addrs, nil
}

// Lookup returns the addresses of host, which is a name or an IP literal (IPv6 with or without
// brackets) without a port; IPv4 addresses come first, otherwise in the server's order. The slice
// is shared and must not be modified. It fails with an *Error, or with ctx's error when ctx ends
// first.
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
	if a, ok := r.cache.Get(name); ok && r.now().Before(a.expires) {
		return a.result()
	}
	name = strings.Clone(name) // a substring of a URL, which must not be retained
	flight := r.flights.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		a := r.ask(ctx, name)
		a.expires = r.now().Add(r.lifetime(name, a))
		r.cache.Add(name, a)
		return a, nil
	})
	select {
	case res := <-flight:
		return res.Val.(*answer).result()
	case <-ctx.Done():
		return nil, fmt.Errorf("resolve %q: %w", name, context.Cause(ctx))
	}
}

// lifetime returns how long an answer is cached.
func (r *Resolver) lifetime(name string, a *answer) time.Duration {
	before, ok := r.cache.Peek(name)
	switch {
	case a.err == nil:
		return addressTTL
	case a.err.Absent() && ok && before.err != nil && before.err.Absent():
		return absenceTTL
	default:
		return failureTTL
	}
}

// ask resolves name. One without a dot is looked up in the search domains first, as in
// resolv.conf(5) with ndots:1.
func (r *Resolver) ask(ctx context.Context, name string) *answer {
	if addrs := hostsFile(ctx, name, r.noIPv6); len(addrs) > 0 {
		return &answer{addrs: addrs}
	}
	var failed error
	var domains []string
	if !strings.Contains(name, ".") {
		domains = r.search
	}
	for _, domain := range append(slices.Clip(domains), "") {
		addrs, err := r.askFamilies(ctx, name+"."+domain)
		if len(addrs) > 0 {
			return &answer{addrs: addrs}
		}
		if err != nil {
			failed = err
		}
	}
	var timeout net.Error
	switch {
	case failed == nil:
		return &answer{err: &Error{Host: name, Kind: NotFound}}
	case errors.As(failed, &timeout) && timeout.Timeout():
		return &answer{err: &Error{Host: name, Kind: Timeout, Err: failed}}
	default:
		return &answer{err: &Error{Host: name, Kind: ServerFailure, Err: failed}}
	}
}

// askFamilies queries the IPv4 and IPv6 addresses of name concurrently. Without any addresses, the
// failure of one query takes precedence over the empty answer to the other.
func (r *Resolver) askFamilies(ctx context.Context, name string) ([]netip.Addr, error) {
	if r.noIPv6 {
		return r.askType(ctx, name, dns.TypeA)
	}
	var v6 []netip.Addr
	var err6 error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v6, err6 = r.askType(ctx, name, dns.TypeAAAA)
	}()
	v4, err4 := r.askType(ctx, name, dns.TypeA)
	if len(v4) > 0 {
		select {
		case <-done:
		case <-time.After(resolutionDelay):
			return v4, nil
		}
	}
	<-done
	if err4 == nil {
		err4 = err6
	}
	return append(v4, v6...), err4
}

// hostsFile returns the addresses of name in the system's hosts file, IPv4 first: Go's resolver
// consults it before it dials.
func hostsFile(ctx context.Context, name string, noIPv6 bool) []netip.Addr {
	local := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("hosts file only")
	}}
	found, _ := local.LookupNetIP(ctx, "ip", name)
	var v4, v6 []netip.Addr
	for _, addr := range found {
		if addr = addr.Unmap(); addr.Is4() {
			v4 = append(v4, addr)
		} else if !noIPv6 {
			v6 = append(v6, addr)
		}
	}
	return append(v4, v6...)
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

// Kind classifies why a name has no address.
type Kind uint8

// The kinds of failure. NotFound is an answer; the others may be temporary.
const (
	// NotFound: the name or an address of it does not exist, or the name is invalid.
	NotFound Kind = iota + 1
	// ServerFailure: each server failed, refused, or sent an invalid answer.
	ServerFailure
	// Timeout: no server answered in time.
	Timeout
)

// String returns a description of the kind.
func (k Kind) String() string {
	switch k {
	case NotFound:
		return "no such host"
	case ServerFailure:
		return "server failure"
	case Timeout:
		return "timeout"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Error is the failure of a lookup. It is an answer about the name: a lookup that ends because its
// own context ended returns the context's error instead.
type Error struct {
	Host string // name that was looked up
	Kind Kind   // of failure
	Err  error  // the cause, or nil where Kind is sufficient
}

// Error returns host and kind, then the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("resolve %q: %s: %v", e.Host, e.Kind, e.Err)
	}
	return fmt.Sprintf("resolve %q: %s", e.Host, e.Kind)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Malformed reports whether the host is not a valid name.
func (e *Error) Malformed() bool { return e.Kind == NotFound && e.Err != nil }

// Absent reports whether the servers answered that the name, or an address of it, does not exist.
func (e *Error) Absent() bool { return e.Kind == NotFound && e.Err == nil }

// Temporary reports whether a retry may succeed.
func (e *Error) Temporary() bool { return e.Kind != NotFound }
