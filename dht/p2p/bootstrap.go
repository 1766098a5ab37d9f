package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"

	"github.com/apoidea/apoidea/dht/calls"
)

// Sources are the entry points to a ring; any one that works is enough.
type Sources struct {
	Bootstrap  []string // multiaddrs with /p2p/<peer>; DNS names are resolved
	DNSSeeds   []string // domains with _dnsaddr TXT records of peers
	DNSServer  string   // host:port (or host) of the resolver; empty: the system's
	Remembered []string // multiaddrs with /p2p/<peer>, from an earlier run
	Nearby     []string // multiaddrs with /p2p/<peer>, found on the local network
}

// Empty reports whether there are no sources.
func (s Sources) Empty() bool {
	return len(s.Bootstrap)+len(s.DNSSeeds)+len(s.Remembered)+len(s.Nearby) == 0
}

const (
	// enoughEntries is the number of live peers that ends the search: several, so that a joining peer
	// does not depend on one view of the ring (Apoidea 2.2).
	enoughEntries = 8
	// maxCandidates is the maximum number of peers tried.
	maxCandidates = 64
	// entryTimeout is the timeout of one attempt: resolving a name, or connecting to a peer.
	entryTimeout = 5 * time.Second
	// entryRetry is the first retry delay within that time, which doubles: an entry peer that hangs up
	// has too many pending handshakes.
	entryRetry = 2 * firstBackoff / 3
	// entryWorkers is the number of concurrent connection attempts.
	entryWorkers = 16
)

// Source names of entry points.
const (
	sourceBootstrap  = "--bootstrap"
	sourceSeed       = "--dns-seed"
	sourceRemembered = "remembered peer"
	sourceNearby     = "--mdns"
)

// Attempt is the result for one entry point.
type Attempt struct {
	Source  string  // "--bootstrap", "--dns-seed <domain>", "--mdns" or "remembered peer"
	Address string  // what was tried: a multiaddr or a domain
	Peer    peer.ID // empty if no peer was found
	Err     error   // nil if the peer lives
	// OtherVersion reports a member of this network's ring with an incompatible version.
	OtherVersion bool
}

// String returns the attempt and its result in one line.
func (a Attempt) String() string {
	answer := "answered"
	if a.Err != nil {
		answer = strings.ReplaceAll(a.Err.Error(), "\n", ", ")
	}
	return fmt.Sprintf("%s %s: %s", a.Source, a.Address, answer)
}

// Report is the result of Bootstrap. As an error it explains why no entry was reached.
type Report struct {
	Attempts []Attempt // all entry points tried
	Entries  []peer.ID // live peers, in random order
}

// Error lists each source that was tried and its result, on one line.
func (r *Report) Error() string {
	if len(r.Attempts) == 0 {
		return "no entry peer reachable: none given or remembered"
	}
	var b strings.Builder
	b.WriteString("no entry peer reachable; tried ")
	for i, a := range r.Attempts {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(a.String())
	}
	return b.String()
}

// OtherVersion returns the error of the first member with an incompatible version, or nil.
func (r *Report) OtherVersion() error {
	for _, a := range r.Attempts {
		if a.OtherVersion {
			return a.Err
		}
	}
	return nil
}

// candidate is a peer to try, with the first source that named it, and the others.
type candidate struct {
	info   peer.AddrInfo
	source string
	also   []string
}

func (c candidate) address() string {
	addrs := make([]string, len(c.info.Addrs))
	for i, a := range c.info.Addrs {
		addrs[i] = a.String()
	}
	return strings.Join(addrs, ",") + "/p2p/" + c.info.ID.String()
}

// entrance connects to entry points.
type entrance struct {
	*ground
	addresses *addresses
	services  *services
	dialer    *dialer
}

// Bootstrap tries all sources concurrently until several peers of this network have answered or all
// were tried. It never fails: the report tells whether there is an entry, and is the error if not.
func (e *entrance) Bootstrap(ctx context.Context, src Sources) *Report {
	return e.enter(ctx, src, enoughEntries)
}

// Probe tries all entry points of the sources, up to a limit, without stopping at the first that
// answer: for diagnosis.
func (e *entrance) Probe(ctx context.Context, src Sources) *Report {
	return e.enter(ctx, src, maxCandidates)
}

// enter tries the sources until enough peers have answered.
func (e *entrance) enter(ctx context.Context, src Sources, enough int) *Report {
	report := &Report{}
	candidates := e.candidates(ctx, src, report)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan candidate)
	var (
		mu      sync.Mutex // guards report while the workers run
		workers sync.WaitGroup
	)
	for range min(entryWorkers, len(candidates)) {
		workers.Go(func() {
			for c := range next {
				err := e.try(ctx, c)
				mu.Lock()
				if err == nil {
					report.Entries = append(report.Entries, c.info.ID)
				}
				if err == nil || ctx.Err() == nil {
					for _, source := range append([]string{c.source}, c.also...) {
						report.Attempts = append(report.Attempts, Attempt{source, c.address(), c.info.ID, err, calls.CodeOf(err) == calls.CodeVersion && e.isOther(c.info.ID)})
					}
				}
				if len(report.Entries) >= enough {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, c := range candidates {
		select {
		case next <- c:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	rand.Shuffle(len(report.Entries), func(i, j int) {
		report.Entries[i], report.Entries[j] = report.Entries[j], report.Entries[i]
	})
	return report
}

// try connects to a peer and verifies that it is of this network. It retries if the peer hangs up
// before identify, and once if it does not announce the service.
func (e *entrance) try(ctx context.Context, c candidate) error {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	if c.info.ID == e.self {
		return errors.New("is this peer itself")
	}
	var before error // the hang-up, which explains more than the timeout after it
	for wait := entryRetry; ; wait *= 2 {
		err := e.once(ctx, c.info)
		if err != nil && before != nil && ctx.Err() != nil {
			err = before
		}
		before = err
		if err == nil {
			return nil
		}
		switch refusal, refused := errors.AsType[*calls.Error](err); {
		case refused && (refusal.Code != calls.CodeRefused || wait > entryRetry):
			return err
		case refused: // it may have just started, and not announced all its protocols
			_ = e.host.Network().ClosePeer(c.info.ID)
		case !hungUp(err):
			return errors.New(dialCause(err))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.New(dialCause(err))
		}
	}
}

// errHungUpEarly reports a connection closed before identify.
var errHungUpEarly = errors.New("connection closed before the peer identified itself")

// hungUp reports whether a peer answered, and closed the connection before identify.
func hungUp(err error) bool {
	return errors.Is(err, errHungUpEarly) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// once connects to a peer and checks its protocols.
func (e *entrance) once(ctx context.Context, info peer.AddrInfo) error {
	e.host.Peerstore().AddAddrs(info.ID, info.Addrs, metAddrTTL)
	if err := e.dialer.connect(ctx, info.ID); err != nil {
		return err
	}
	if e.isOther(info.ID) {
		return e.services.speaks(info.ID, ringService)
	}
	spoken, err := e.host.Peerstore().SupportsProtocols(info.ID, e.services.kadProtocol())
	if err == nil && len(spoken) > 0 {
		return nil
	}
	if all, err := e.host.Peerstore().GetProtocols(info.ID); err == nil && len(all) == 0 {
		_ = e.host.Network().ClosePeer(info.ID)
		return errHungUpEarly
	}
	return e.services.speaks(info.ID, ringService)
}

// isOther reports whether a peer is a ring member with an incompatible version.
func (e *entrance) isOther(p peer.ID) bool {
	version := e.services.versionOf(p, ringService)
	return version != "" && version != wireVersion
}

// candidates resolves the sources to peers, each once, in random order but the operator's before
// remembered ones. Failures go into the report.
func (e *entrance) candidates(ctx context.Context, src Sources, report *Report) []candidate {
	resolver := newResolver(src.DNSServer)
	type named struct{ source, text string }
	var names []named
	for _, s := range src.Bootstrap {
		names = append(names, named{sourceBootstrap, s})
	}
	for _, domain := range src.DNSSeeds {
		names = append(names, named{sourceSeed, strings.TrimSuffix(domain, ".")})
	}
	for _, s := range src.Nearby {
		names = append(names, named{sourceNearby, s})
	}
	for _, s := range src.Remembered {
		names = append(names, named{sourceRemembered, s})
	}
	names = names[:min(len(names), maxCandidates)]

	found := make([][]ma.Multiaddr, len(names))
	errs := make([]error, len(names))
	var lookups sync.WaitGroup
	for i, name := range names {
		lookups.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, entryTimeout)
			defer cancel()
			if name.source == sourceSeed {
				found[i], errs[i] = resolver.seed(ctx, name.text)
			} else {
				found[i], errs[i] = resolver.parse(ctx, name.text)
			}
		})
	}
	lookups.Wait()

	var list []candidate
	at := map[peer.ID]int{}
	for i, name := range names {
		source := name.source
		infos, err := peersOf(found[i])
		if err = errors.Join(errs[i], err); err != nil {
			report.Attempts = append(report.Attempts, Attempt{Source: source, Address: name.text, Err: err})
		}
		if source == sourceSeed {
			source += " " + name.text
		}
		for _, info := range infos {
			if j, known := at[info.ID]; known {
				list[j].info.Addrs = append(list[j].info.Addrs, info.Addrs...)
				if source != list[j].source && source != sourceRemembered && !slices.Contains(list[j].also, source) {
					list[j].also = append(list[j].also, source)
				}
			} else if len(list) < maxCandidates {
				at[info.ID] = len(list)
				list = append(list, candidate{info: info, source: source})
			}
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	asked, remembered := []candidate{}, []candidate{}
	for _, c := range list {
		if c.source == sourceRemembered {
			remembered = append(remembered, c)
		} else {
			asked = append(asked, c)
		}
	}
	return append(asked, remembered...)
}

// Meet connects to a reported peer, unless it is connected, verifies its network and adds it to the
// membership.
func (e *entrance) Meet(ctx context.Context, info peer.AddrInfo) error {
	if info.ID == e.self || e.Connected(info.ID) {
		return nil
	}
	info.Addrs = slices.DeleteFunc(info.Addrs, func(a ma.Multiaddr) bool { return !e.addresses.dialable(a) })
	if len(info.Addrs) == 0 {
		return nil
	}
	return e.try(ctx, candidate{info: info, source: sourceNearby})
}

// peersOf groups multiaddrs by peer. One without a peer is an error; the others are returned.
func peersOf(addrs []ma.Multiaddr) ([]peer.AddrInfo, error) {
	byPeer := map[peer.ID]peer.AddrInfo{}
	var wrong []error
	for _, addr := range addrs {
		info, err := peer.AddrInfoFromP2pAddr(addr)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s has no /p2p/<peer>", addr))
			continue
		}
		known := byPeer[info.ID]
		byPeer[info.ID] = peer.AddrInfo{ID: info.ID, Addrs: append(known.Addrs, info.Addrs...)}
	}
	return slices.Collect(maps.Values(byPeer)), errors.Join(wrong...)
}

const (
	// maxNesting is the depth of /dnsaddr in /dnsaddr: a seed, its regions, their peers.
	maxNesting = 4
	// maxSeedRecords is the maximum number of records in all answers.
	maxSeedRecords = 128
)

// resolver resolves DNS names in multiaddrs.
type resolver struct {
	dns *madns.Resolver
}

// newResolver uses server, or the system's resolver if that is empty.
func newResolver(server string) resolver {
	basic := net.DefaultResolver
	if server != "" {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(server, "53")
		}
		basic = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, server)
			},
		}
	}
	dns, err := madns.NewResolver(madns.WithDefaultResolver(basic))
	if err != nil {
		panic(err) // only options fail, and ours is valid
	}
	return resolver{dns: dns}
}

// parse parses a multiaddr and resolves the names in it.
func (r resolver) parse(ctx context.Context, text string) ([]ma.Multiaddr, error) {
	addr, err := ma.NewMultiaddr(text)
	if err != nil {
		return nil, fmt.Errorf("invalid multiaddr: %w", err)
	}
	return r.resolve(ctx, addr)
}

// seed resolves the _dnsaddr TXT records of a domain.
func (r resolver) seed(ctx context.Context, domain string) ([]ma.Multiaddr, error) {
	addr, err := ma.NewMultiaddr("/dnsaddr/" + domain)
	if err != nil {
		return nil, fmt.Errorf("invalid domain: %w", err)
	}
	return r.resolve(ctx, addr)
}

// resolve replaces names recursively, within the limits above. A part that cannot be resolved is an
// error only if no other could.
func (r resolver) resolve(ctx context.Context, addr ma.Multiaddr) ([]ma.Multiaddr, error) {
	var done []ma.Multiaddr
	var failed []error
	level, looked := []ma.Multiaddr{addr}, 0
	for range maxNesting + 1 {
		var next []ma.Multiaddr
		for _, a := range level {
			if !madns.Matches(a) {
				done = append(done, a)
				continue
			}
			if looked >= maxSeedRecords {
				failed = append(failed, fmt.Errorf("more than %d records", maxSeedRecords))
				break
			}
			found, err := r.dns.Resolve(ctx, a)
			if err != nil {
				failed = append(failed, oneLine(a, err))
				continue
			}
			found = found[:min(len(found), maxSeedRecords-looked)]
			if len(found) == 0 {
				failed = append(failed, fmt.Errorf("%s: no usable dnsaddr record", a))
			}
			looked += len(found)
			next = append(next, found...)
		}
		level = next
	}
	if len(level) > 0 {
		failed = append(failed, fmt.Errorf("dnsaddr nested deeper than %d", maxNesting))
	}
	if len(done) > 0 {
		return done, nil
	}
	return nil, errors.Join(failed...)
}

// oneLine shortens a resolver error by what the name already contains.
func oneLine(a ma.Multiaddr, err error) error {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case ok && !dns.IsNotFound:
		return fmt.Errorf("lookup %s: no DNS server answers: pass another with --dns-server", dns.Name)
	case ok:
		return fmt.Errorf("lookup %s: %s", dns.Name, dns.Err)
	}
	return fmt.Errorf("%s: %w", a, err)
}
