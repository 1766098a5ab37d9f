package placer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// Methods to measure the RTT to a site.
const (
	// ProbeConnect uses TCP connects, which carry no request.
	ProbeConnect = "connect"
	// ProbeHead uses a HEAD request where robots.txt is known and allows it; else TCP connects.
	ProbeHead = "head"
	// probeOnce uses one TCP connect, for callers that tolerate errors.
	probeOnce = "once"
)

// methodOf returns the method of a probe request.
func methodOf(m *wire.Probe) string {
	if m.GetOnce() && m.GetMethod() != ProbeHead {
		return probeOnce
	}
	return m.GetMethod()
}

const (
	// probeTries bounds the connects to a site by each candidate, one after another, until the two
	// smallest agree; none begins after probeTime.
	probeTries = 5
	probeTime  = time.Second
	// probeAgree plus a probeShare of the round trip is the difference of two that agree: it does not
	// affect which peer is nearest.
	probeAgree = 500 * time.Microsecond
	probeShare = 0.02
	// probeTimeout bounds a probe request to one candidate.
	probeTimeout = 3 * time.Second
	// probesMost bounds the concurrent probes of this peer, and probesPerMinute those for all callers.
	probesMost      = 32
	probesPerMinute = 1200
	// siteRest is the cache time of a site's measurement: a site gets at most one probe from each peer
	// in that time, regardless of the callers.
	siteRest = 30 * time.Second
	// sitesKept bounds the cached sites.
	sitesKept = 4096
)

// ProbeMethod requests a candidate to measure a site.
var ProbeMethod = rpc.Method[*wire.Probe, *wire.ProbeReply]{Service: rpc.ServiceWorker, Tag: 'P'}

// RequestTime returns how long candidates may send requests to a host before it is placed: a leaf
// set of them, each with the host's delay.
func (c *Config) RequestTime() time.Duration {
	const candidates, most = 12, time.Minute
	if c.Probe != ProbeHead {
		return 0
	}
	return min(candidates*(c.Delay+probeTime), most)
}

// asking measures one host by its candidates, and applies politeness to requests made for that.
type asking struct {
	*Placer
	place *owner.Place
	// next is the earliest next request, on the lease clock; owed, unless zero, is the not-before time
	// set by past requests.
	next, owed time.Time
	judged     bool          // robots.txt was checked
	gap        time.Duration // between requests; 0: none are permitted
	refused    string        // the site's demand for fewer requests, which ends them
}

// measure lets peers measure the host and stores the results.
func (a *asking) measure(ctx context.Context, peers []string, v *placement.View) {
	if a.mayRequest(ctx) {
		for _, id := range peers {
			v.Measured[id] = a.request(ctx, id)
		}
		return
	}
	found := make([]placement.Measurement, len(peers))
	var wg sync.WaitGroup
	for i, id := range peers {
		wg.Go(func() { found[i] = a.ask(ctx, id, ProbeConnect) })
	}
	wg.Wait()
	for i, id := range peers {
		v.Measured[id] = found[i]
	}
}

// mayRequest reports whether candidates may send requests: the owner has reserved the time, and the
// site's robots.txt is known, fresh and allows it.
func (a *asking) mayRequest(ctx context.Context) bool {
	if a.judged || a.place.RequestsUntil.IsZero() {
		return a.gap > 0
	}
	a.judged = true
	state := a.deps.Robots(ctx, a.place.Host, schemeOf(a.place))
	a.gap = a.cfg.requestGap(&state, time.Now())
	return a.gap > 0
}

// requestGap returns the time between measuring requests to a site, at least a millisecond; 0 if
// its robots.txt forbids them or is outdated.
func (c *Config) requestGap(s *robots.State, now time.Time) time.Duration {
	allowed := s.Verdict == robots.AllowAll || s.Verdict == robots.Obey && s.Home
	if !now.Before(s.Expires) || now.Before(s.NotBefore) || !allowed {
		return 0
	}
	return max(c.Delay, s.Delay, time.Millisecond)
}

// request lets one peer send its request after the site's delay, if time is left.
func (a *asking) request(ctx context.Context, id string) placement.Measurement {
	if a.refused != "" {
		return placement.Measurement{Err: a.refused}
	}
	if slices.MaxFunc([]time.Time{a.deps.Now(), a.next}, time.Time.Compare).Add(probeTimeout).After(a.place.RequestsUntil) {
		return placement.Measurement{Err: "not measured: no time left for measuring requests"}
	}
	if err := loop.Sleep(ctx, a.next.Sub(a.deps.Now())); err != nil {
		return placement.Measurement{Err: err.Error()}
	}
	m := a.ask(ctx, id, ProbeHead)
	a.next = a.deps.Now().Add(a.gap)
	a.owed = a.next
	if strings.HasPrefix(m.Err, siteRefuses) {
		a.refused = m.Err
	}
	return m
}

// ask requests a measurement from one peer; errors are in the result.
func (a *asking) ask(ctx context.Context, id, method string) placement.Measurement {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return a.measured(id, a.probe(ctx, peer.ID(id), &wire.Probe{Host: a.place.Host, Scheme: schemeOf(a.place), Method: method, Once: a.samples != nil}))
}

// probe probes through one peer, which may be this one.
func (pl *Placer) probe(ctx context.Context, of peer.ID, m *wire.Probe) *wire.ProbeReply {
	if of == pl.deps.Self {
		return pl.probeFor(ctx, m)
	}
	reply, err := ProbeMethod.Call(ctx, pl.deps.Net, of, m)
	if err != nil {
		return &wire.ProbeReply{Error: errorText("no reply: ", err)}
	}
	return reply
}

// errorText returns an error for a message: valid UTF-8 of bounded length.
func errorText(before string, err error) string {
	const most = 200
	s := strings.ToValidUTF8(before+err.Error(), "?")
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// ProbeService returns the service that measures sites for owners.
func (pl *Placer) ProbeService() rpc.Service {
	return ProbeMethod.Handle(rpc.Members("caller owns the host, by this peer's view; rate limits in total and per site"), func(ctx context.Context, from peer.ID, m *wire.Probe) (*wire.ProbeReply, error) {
		if !rpc.OfOwner(ctx, ring.HostKey(m.GetHost()))[0] {
			return &wire.ProbeReply{Error: "not measured: the caller is not the host's owner"}, nil
		}
		return pl.probeFor(ctx, m), nil
	})
}

// probeFor measures a site from here for its host's owner, which is responsible for permitting
// requests.
func (pl *Placer) probeFor(ctx context.Context, m *wire.Probe) *wire.ProbeReply {
	reply := new(wire.ProbeReply)
	if pl.deps.Paused() {
		reply.Error = wire.PausedText
		return reply
	}
	if why := pl.deps.OptedOut(m.GetHost()); why != "" {
		reply.Error = why
	} else {
		rtt, addr, err := pl.prober.measure(ctx, m.GetHost(), m.GetScheme(), methodOf(m))
		if err != nil {
			reply.Error = errorText("", err)
		} else {
			reply.RttUs, reply.Addr = max(rtt.Microseconds(), 1), addr.AsSlice()
		}
	}
	reply.Backlog, reply.Capacity = pl.inHand()
	return reply
}

// Sites is the interface to the fetcher.
type Sites interface {
	// Locate returns the addresses that a fetch would try, in that order.
	Locate(ctx context.Context, host, scheme string) ([]netip.AddrPort, error)
	// Probe connects once, and returns the duration.
	Probe(ctx context.Context, host, scheme string) (time.Duration, netip.Addr, error)
	// ProbeHead makes one HEAD request.
	ProbeHead(ctx context.Context, host, scheme string) (*fetch.Head, error)
}

var _ Sites = (*fetch.Fetcher)(nil)

// prober measures sites for owners, within limits: recent measurements are reused, and concurrent
// callers for one site wait for the same probe.
type prober struct {
	sites Sites
	slots chan struct{}
	// visit waits until a request to an address is permitted in addition to the worker's, and counts
	// it there; leave ends it.
	visit func(ctx context.Context, addr netip.Addr) (leave func(), err error)

	budget *rate.Limiter

	mu    sync.Mutex // guards known; never held during network calls
	known *simplelru.LRU[probeKey, *probed]
}

// probeKey identifies a site: sites behind one address and port are one.
type probeKey struct {
	at     netip.AddrPort
	method string
}

// probed is a finished or running probe.
type probed struct {
	done chan struct{} // closed when the other fields are set
	when time.Time
	rtt  time.Duration
	addr netip.Addr
	err  error
}

func newProber(s Sites, visit func(context.Context, netip.Addr) (func(), error)) *prober {
	known, _ := simplelru.NewLRU[probeKey, *probed](sitesKept, nil) // a positive size has no error
	return &prober{
		sites: s, slots: make(chan struct{}, probesMost), visit: visit, budget: rate.NewLimiter(probesPerMinute/60.0, probesPerMinute), known: known,
	}
}

var errTooManyProbes = errors.New("too many probes")

// siteRefuses is the prefix of the error of a site that asks for fewer requests.
const siteRefuses = "the site asks for fewer requests"

// measure measures a site, or returns a recent measurement.
func (p *prober) measure(ctx context.Context, host, scheme, method string) (time.Duration, netip.Addr, error) {
	at, err := p.sites.Locate(ctx, host, scheme)
	if err != nil {
		return 0, netip.Addr{}, err
	}
	key := probeKey{at[0], cmp.Or(method, ProbeConnect)}
	for {
		found, mine, err := p.begin(key, time.Now())
		if err != nil {
			return 0, netip.Addr{}, err
		}
		if mine {
			found.rtt, found.addr, found.err = p.run(ctx, host, scheme, key)
			p.end(key, found, time.Now())
			return found.rtt, found.addr, found.err
		}
		select {
		case <-found.done:
		case <-ctx.Done():
			return 0, netip.Addr{}, ctx.Err()
		}
		if !errors.Is(found.err, context.Canceled) && !errors.Is(found.err, context.DeadlineExceeded) {
			return found.rtt, found.addr, found.err
		}
		if ctx.Err() != nil { // the other caller was canceled: measure again unless this one is, too
			return 0, netip.Addr{}, ctx.Err()
		}
	}
}

// begin returns a known or running probe, or else a new one that the caller must run.
func (p *prober) begin(key probeKey, now time.Time) (found *probed, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, _ := p.known.Get(key)
	if k == nil && key.method == probeOnce {
		k, _ = p.known.Get(probeKey{key.at, ProbeConnect}) // includes more than connects
	}
	if k != nil && (k.when.IsZero() || now.Sub(k.when) < siteRest) {
		return k, false, nil
	}
	if !p.budget.AllowN(now, 1) {
		return nil, false, fmt.Errorf("%w in this minute, at most %d", errTooManyProbes, probesPerMinute)
	}
	k = &probed{done: make(chan struct{})}
	p.known.Add(key, k)
	return k, true, nil
}

// last returns the last round trip to a host at an address, 0 if there is none in memory.
func (p *prober) last(host string, addr netip.Addr) time.Duration {
	ports := []uint16{443, 80}
	if _, port, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return 0
		}
		ports = []uint16{uint16(n)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range ports {
		for _, method := range []string{ProbeConnect, probeOnce, ProbeHead} {
			if k, _ := p.known.Peek(probeKey{netip.AddrPortFrom(addr, port), method}); k != nil && !k.when.IsZero() && k.err == nil {
				return k.rtt
			}
		}
	}
	return 0
}

// end publishes the result of a probe to its callers. A canceled probe is dropped.
func (p *prober) end(key probeKey, k *probed, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.when = now; errors.Is(k.err, context.Canceled) || errors.Is(k.err, context.DeadlineExceeded) || errors.Is(k.err, errTooManyProbes) {
		p.known.Remove(key)
	}
	close(k.done)
}

// run runs a probe. A request waits for its permit at the address, like the worker's.
func (p *prober) run(ctx context.Context, host, scheme string, key probeKey) (time.Duration, netip.Addr, error) {
	if key.method == ProbeHead {
		leave, err := p.visit(ctx, key.at.Addr())
		if err != nil {
			return 0, netip.Addr{}, fmt.Errorf("no permit for a measuring request to the address: %w", err)
		}
		defer leave()
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return 0, netip.Addr{}, fmt.Errorf("%w concurrently, at most %d", errTooManyProbes, probesMost)
	}
	if key.method == ProbeHead {
		h, err := p.sites.ProbeHead(ctx, host, scheme)
		switch {
		case err != nil:
			return 0, netip.Addr{}, err
		case h.Status == http.StatusTooManyRequests || h.Status == http.StatusServiceUnavailable:
			return 0, netip.Addr{}, fmt.Errorf(siteRefuses+": status %d", h.Status)
		}
		return h.RTT, h.Addr, nil
	}
	tries := probeTries
	if key.method == probeOnce {
		tries = 1
	}
	return p.connects(ctx, host, scheme, tries)
}

// connects returns the least round trip of a few connects. Other load, here or on the path, only
// increases a round trip, on a busy machine by more than the distance between peers; so an
// unconfirmed one is measured again, where a median of three would be wrong as soon as two of them
// are.
func (p *prober) connects(ctx context.Context, host, scheme string, tries int) (time.Duration, netip.Addr, error) {
	begun := time.Now()
	var rtts []time.Duration
	var at netip.Addr
	for len(rtts) < tries && !agree(rtts) && (len(rtts) == 0 || time.Since(begun) < probeTime) {
		rtt, addr, err := p.sites.Probe(ctx, host, scheme)
		if err != nil {
			if len(rtts) == 0 {
				return 0, netip.Addr{}, err
			}
			break
		}
		rtts = append(rtts, rtt)
		slices.Sort(rtts)
		at = addr
	}
	return rtts[0], at, nil
}

// agree reports whether the two smallest of some sorted round trips are equal for placement.
func agree(rtts []time.Duration) bool {
	return len(rtts) > 1 && rtts[1]-rtts[0] <= probeAgree+time.Duration(probeShare*float64(rtts[0]))
}
