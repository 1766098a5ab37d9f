package webgen

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Audit is the record of requests to the web since it was created or reset.
type Audit struct {
	// Totals are the sums over all hosts; the gaps are the minima, Workers counts distinct sources.
	Totals AuditHost `json:"totals"`
	// HostsVisited is the number of entries in Hosts.
	HostsVisited int `json:"hosts_visited"`
	// Connects counts connections without a request, by source: a probe by TCP connect makes some.
	// Their host is unknown.
	Connects map[string]int64 `json:"connects"`
	// UnknownHost counts requests to hosts that are not in this web.
	UnknownHost int64 `json:"unknown_host"`
	// Hosts are the hosts with requests, in order of their numbers.
	Hosts []AuditHost `json:"hosts"`
}

// AuditHost is the audit of one host. A source is a client's IP address: one worker, if each
// fetches from an address of its own.
type AuditHost struct {
	Host string `json:"host"` // name, with the port
	// Requests counts GET requests, without robots.txt.
	Requests int64 `json:"requests"`
	// DistinctURLs counts the distinct URLs among Requests.
	DistinctURLs int64 `json:"distinct_urls"`
	// RepeatedURLs counts URLs requested again after a final answer, that is below 500;
	// RepeatedRequests the requests beyond that first answer. Retries counts requests after an answer
	// of 500 or above.
	RepeatedURLs     int64 `json:"repeated_urls"`
	RepeatedRequests int64 `json:"repeated_requests"` // beyond the first final answer
	Retries          int64 `json:"retries"`           // after an answer of 500 or above
	RobotsRequests   int64 `json:"robots_requests"`   // for robots.txt
	// Probes counts HEAD requests, which are counted nowhere else.
	Probes int64 `json:"probes"`
	// Workers are the sources, those of robots.txt included, those of probes not.
	Workers []string `json:"workers"`
	// RequestsBy is Requests by source.
	RequestsBy map[string]int64 `json:"requests_by"`
	// Overlaps counts requests begun by one source while the response to another was still being
	// sent; SelfOverlaps the same with both of one source. robots.txt counts like anything else.
	Overlaps     int64 `json:"overlaps"`
	SelfOverlaps int64 `json:"self_overlaps"` // both of one source
	// SmallestGapMS is the minimum time from the end of a response to one source to the beginning of a
	// request of another, SmallestGapWithinMS the same for one source, in milliseconds; 0 where they
	// overlapped, null without such a pair. Both exclude robots.txt.
	SmallestGapMS       *float64 `json:"smallest_gap_ms"`
	SmallestGapWithinMS *float64 `json:"smallest_gap_within_ms"` // between requests of one source
	// RobotsViolations is Disallowed, the requests that robots.txt forbids, plus BeforeRobots, the
	// requests begun before the host's robots.txt was first sent.
	RobotsViolations int64 `json:"robots_violations"`
	Disallowed       int64 `json:"disallowed"`    // forbidden by robots.txt
	BeforeRobots     int64 `json:"before_robots"` // begun before robots.txt was first sent
	// Trapped counts requests for pages that are linked only by nofollow links.
	Trapped int64 `json:"trapped"`
	// Untracked counts requests for unknown URLs beyond maxStrays, whose repetitions are not detected.
	Untracked int64 `json:"untracked"`
	// Statuses counts the answers to Requests by status.
	Statuses map[int]int64 `json:"statuses"`
}

// AuditURL is a requested URL. Path is "" for unknown URLs beyond maxStrayNames.
type AuditURL struct {
	Host  string `json:"host"`  // as in AuditHost
	Path  string `json:"path"`  // with the query
	Count int    `json:"count"` // number of requests
}

// Limits of a host's audit for arbitrary requests. Pages need none: their number is that of the
// web.
const (
	maxStrays     = 1 << 20 // distinct unknown URLs, 8 bytes of hash each
	maxStrayNames = 1 << 10 // of which the text is stored
	maxStrayBytes = 512     // of the text
	maxSources    = 1 << 12 // beyond, all sources count as one
)

type audit struct {
	hosts       []atomic.Pointer[hostAudit] // nil until a host's first request
	unknownHost atomic.Int64
	connects    connects
}

// connects are the connections without a request.
type connects struct {
	mu   sync.Mutex // guards what follows
	open map[net.Conn]bool
	by   map[string]int64
}

// state implements the ConnState of an http.Server: it counts connections that end without a
// request.
func (c *connects) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		if c.open == nil {
			c.open = make(map[net.Conn]bool)
		}
		c.open[conn] = true
	case http.StateClosed:
		if c.open[conn] {
			c.count(sourceOf(conn.RemoteAddr().String()))
		}
		delete(c.open, conn)
	default:
		delete(c.open, conn)
	}
}

func (c *connects) count(from string) {
	if c.by == nil {
		c.by = make(map[string]int64)
	}
	if _, known := c.by[from]; !known && len(c.by) >= maxSources {
		from = "others"
	}
	c.by[from]++
}

func (c *connects) report() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := make(map[string]int64, len(c.by))
	maps.Copy(by, c.by)
	return by
}

func (c *connects) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by = nil
}

func (a *audit) host(n int) *hostAudit {
	if h := a.hosts[n].Load(); h != nil {
		return h
	}
	a.hosts[n].CompareAndSwap(nil, newHostAudit())
	return a.hosts[n].Load()
}

var straySeed = maphash.MakeSeed()

// hostAudit is the audit of one host.
type hostAudit struct {
	mu         sync.Mutex // guards all below
	counts     AuditHost  // running counters; report fills in the rest
	pages      map[uint32]uint32
	strays     map[uint64]uint32
	strayNames map[uint64]string
	sources    map[string]*source
	robotsSent bool
	across     time.Duration // -1: none yet
	within     time.Duration
}

// source is the state of one client address.
type source struct {
	active   int
	requests int64
	lastPage time.Time // end of its last response that was not robots.txt
}

func newHostAudit() *hostAudit {
	return &hostAudit{
		counts:  AuditHost{Statuses: map[int]int64{}},
		pages:   map[uint32]uint32{},
		strays:  map[uint64]uint32{},
		sources: map[string]*source{},
		across:  -1,
		within:  -1,
	}
}

// visit is one request while it is being answered.
type visit struct {
	host    *hostAudit
	source  *source
	asked   request
	earlier int // number of earlier requests for the same URL
	status  int
	ended   bool
}

func (h *hostAudit) begin(r request, from string, now time.Time) visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := visit{host: h, asked: r}
	if r.probe {
		h.counts.Probes++
		v.earlier = int(h.pages[uint32(r.number)])
		v.ended = true
		return v
	}
	v.source = h.source(from)
	h.concurrency(v.source, r.resource != resourceRobots, now)
	v.source.active++
	if r.resource == resourceRobots {
		h.counts.RobotsRequests++
		return v
	}
	h.counts.Requests++
	v.source.requests++
	if !h.robotsSent {
		h.counts.BeforeRobots++
	}
	if !r.allowed {
		h.counts.Disallowed++
	}
	if r.resource == resourceTrap {
		h.counts.Trapped++
	}
	v.earlier = h.count(r)
	h.again(v.earlier, r.failures)
	return v
}

func (h *hostAudit) source(from string) *source {
	if s := h.sources[from]; s != nil {
		return s
	}
	if len(h.sources) >= maxSources {
		from = "others"
		if s := h.sources[from]; s != nil {
			return s
		}
	}
	s := &source{}
	h.sources[from] = s
	return s
}

// concurrency records the overlaps of a request of s that begins now, and its gaps to the last
// ones.
func (h *hostAudit) concurrency(s *source, page bool, now time.Time) {
	if s.active > 0 {
		h.counts.SelfOverlaps++
		h.within = 0
	}
	other := false
	for _, o := range h.sources {
		if o == s {
			continue
		}
		other = other || o.active > 0
		if page && !o.lastPage.IsZero() {
			h.across = smaller(h.across, now.Sub(o.lastPage))
		}
	}
	if other {
		h.counts.Overlaps++
		h.across = 0
	}
	if page && !s.lastPage.IsZero() {
		h.within = smaller(h.within, now.Sub(s.lastPage))
	}
}

func smaller(least, gap time.Duration) time.Duration {
	if least < 0 {
		return gap
	}
	return min(least, gap)
}

// count counts a request and returns the number of earlier requests for the same URL.
func (h *hostAudit) count(r request) int {
	if r.resource == resourcePage {
		n := h.pages[uint32(r.number)]
		h.pages[uint32(r.number)] = n + 1
		return int(n)
	}
	key := maphash.String(straySeed, r.url)
	n, known := h.strays[key]
	if !known && len(h.strays) >= maxStrays {
		h.counts.Untracked++
		return 0
	}
	if !known && len(h.strayNames) < maxStrayNames {
		if h.strayNames == nil {
			h.strayNames = map[uint64]string{}
		}
		h.strayNames[key] = r.url[:min(len(r.url), maxStrayBytes)]
	}
	h.strays[key] = n + 1
	return int(n)
}

// again counts a repeated request: after a final answer it is a repetition, after one of the
// initial failures a retry.
func (h *hostAudit) again(earlier, failures int) {
	switch {
	case earlier == 0:
	case earlier <= failures:
		h.counts.Retries++
	default:
		h.counts.RepeatedRequests++
		if earlier == failures+1 {
			h.counts.RepeatedURLs++
		}
	}
}

// end records the end of a visit; further calls do nothing.
func (v *visit) end(now time.Time) {
	if v.ended {
		return
	}
	v.ended = true
	h := v.host
	h.mu.Lock()
	defer h.mu.Unlock()
	v.source.active--
	if v.asked.resource == resourceRobots {
		h.robotsSent = true
		return
	}
	v.source.lastPage = now
	if v.status != 0 {
		h.counts.Statuses[v.status]++
	}
}

func (h *hostAudit) report(name string) AuditHost {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.counts
	r.Host = name
	r.Statuses = maps.Clone(h.counts.Statuses)
	r.DistinctURLs = int64(len(h.pages) + len(h.strays))
	r.RobotsViolations = r.Disallowed + r.BeforeRobots
	r.Workers = slices.Sorted(maps.Keys(h.sources))
	r.RequestsBy = make(map[string]int64, len(h.sources))
	for from, s := range h.sources {
		r.RequestsBy[from] = s.requests
	}
	r.SmallestGapMS, r.SmallestGapWithinMS = milliseconds(h.across), milliseconds(h.within)
	return r
}

func milliseconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	ms := float64(d.Microseconds()) / 1000
	return &ms
}

// Audit returns the counts so far. Requests being answered are counted, their statuses not yet.
func (w *Web) Audit() Audit {
	a := Audit{UnknownHost: w.audit.unknownHost.Load(), Connects: w.audit.connects.report(), Hosts: []AuditHost{}}
	a.Totals.Statuses, a.Totals.RequestsBy = map[int]int64{}, map[string]int64{}
	workers := map[string]bool{}
	for n := range w.audit.hosts {
		h := w.audit.hosts[n].Load()
		if h == nil {
			continue
		}
		r := h.report(string(w.appendHost(nil, n, "")))
		a.Hosts = append(a.Hosts, r)
		a.Totals.add(r)
		for _, source := range r.Workers {
			workers[source] = true
		}
	}
	a.HostsVisited = len(a.Hosts)
	a.Totals.Workers = slices.Sorted(maps.Keys(workers))
	return a
}

func (t *AuditHost) add(r AuditHost) {
	of := [...]int64{
		r.Requests, r.DistinctURLs, r.RepeatedURLs, r.RepeatedRequests, r.Retries, r.RobotsRequests, r.Probes,
		r.Overlaps, r.SelfOverlaps, r.RobotsViolations, r.Disallowed, r.BeforeRobots, r.Trapped, r.Untracked,
	}
	for i, to := range [...]*int64{
		&t.Requests, &t.DistinctURLs, &t.RepeatedURLs, &t.RepeatedRequests, &t.Retries, &t.RobotsRequests, &t.Probes,
		&t.Overlaps, &t.SelfOverlaps, &t.RobotsViolations, &t.Disallowed, &t.BeforeRobots, &t.Trapped, &t.Untracked,
	} {
		*to += of[i]
	}
	t.SmallestGapMS = smallerOf(t.SmallestGapMS, r.SmallestGapMS)
	t.SmallestGapWithinMS = smallerOf(t.SmallestGapWithinMS, r.SmallestGapWithinMS)
	for status, n := range r.Statuses {
		t.Statuses[status] += n
	}
	for from, n := range r.RequestsBy {
		t.RequestsBy[from] += n
	}
}

func smallerOf(a, b *float64) *float64 {
	if a == nil || (b != nil && *b < *a) {
		return b
	}
	return a
}

// AuditURLs returns the requested URLs, host by host, without robots.txt. It locks one host's audit
// at a time, and only while it copies that host's counts.
func (w *Web) AuditURLs() iter.Seq[AuditURL] {
	return func(yield func(AuditURL) bool) {
		for n := range w.audit.hosts {
			h := w.audit.hosts[n].Load()
			if h == nil {
				continue
			}
			for _, u := range h.urls(string(w.appendHost(nil, n, ""))) {
				if !yield(u) {
					return
				}
			}
		}
	}
}

func (h *hostAudit) urls(name string) []AuditURL {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]AuditURL, 0, len(h.pages)+len(h.strays))
	for n, count := range h.pages {
		list = append(list, AuditURL{name, string(appendPath(nil, int(n))), int(count)})
	}
	for key, count := range h.strays {
		list = append(list, AuditURL{name, h.strayNames[key], int(count)})
	}
	slices.SortFunc(list, func(a, b AuditURL) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// ResetAudit resets all counts. Requests being answered end uncounted.
func (w *Web) ResetAudit() {
	w.audit.unknownHost.Store(0)
	w.audit.connects.reset()
	for n := range w.audit.hosts {
		w.audit.hosts[n].Store(nil)
	}
}

func sourceOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
