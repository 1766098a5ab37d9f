package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Audit is what the server saw of one family.
type Audit struct {
	Family string `json:"family"`
	// Hosts asked for anything, and their sums.
	Hosts        int   `json:"hosts"`
	Requests     int   `json:"requests"`
	Bytes        int64 `json:"bytes"`
	Disallowed   int   `json:"disallowed"`
	BeforeRobots int   `json:"before_robots"`
	// Parallel counts requests to a host that began while it was still answering another one.
	Parallel int `json:"parallel"`
	// SmallestGapMS is the least time from the end of an answer of a host to the next request to
	// it.
	SmallestGapMS *float64 `json:"smallest_gap_ms"`
	// Most are the hosts that were asked most often, at most mostShown.
	Most []AuditHost `json:"most"`
}

// AuditHost is what the server saw of one host.
type AuditHost struct {
	Host          string   `json:"host"`
	Requests      int      `json:"requests"`
	Robots        int      `json:"robots"`
	Disallowed    int      `json:"disallowed,omitempty"`
	BeforeRobots  int      `json:"before_robots,omitempty"`
	Parallel      int      `json:"parallel,omitempty"`
	SmallestGapMS *float64 `json:"smallest_gap_ms"`
	Bytes         int64    `json:"bytes"`
	// First is the first thing that was wrong, with the URL.
	First string `json:"first,omitempty"`
}

// mostShown bounds the hosts of an audit that are listed.
const mostShown = 10

// audit counts, by host with its port.
type audit struct {
	mu    sync.Mutex // guards what follows
	hosts map[string]*hostAudit
}

// hostAudit is one host. Guarded by the audit's mutex.
type hostAudit struct {
	family *family
	counts AuditHost
	paths  map[string]int // requests by path and query, at most maxPaths
	open   []*visit
	last   *visit // the one that ended last
	times  []time.Time
	order  []string // what was asked for at these
}

// maxPaths bounds the paths that are remembered of a host, maxTimes the moments of requests.
const (
	maxPaths = 5000
	maxTimes = 5000
)

// visit is one request while it is being answered.
type visit struct {
	host    *hostAudit
	conn    *conn
	path    string
	begun   time.Time
	ended   time.Time
	dropped bool // the client went away before the end
	met     []time.Time
}

// begin notes a request. Robots says that it is for robots.txt.
func (a *audit) begin(f *family, host, path string, c *conn, forbidden bool) *visit {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.hosts[host]
	if h == nil {
		h = &hostAudit{family: f, counts: AuditHost{Host: host}, paths: make(map[string]int)}
		a.hosts[host] = h
	}
	h.note(path, forbidden, now)
	v := &visit{host: h, conn: c, path: strings.Clone(path), begun: now}
	for _, o := range h.open {
		o.met = append(o.met, now)
	}
	if len(h.open) == 0 {
		h.gap(now, path)
	}
	h.open = append(h.open, v)
	return v
}

func (h *hostAudit) note(path string, forbidden bool, now time.Time) {
	c := &h.counts
	c.Requests++
	if len(h.times) < maxTimes {
		h.times = append(h.times, now)
		h.order = append(h.order, strings.Clone(path))
	}
	if _, known := h.paths[path]; known || len(h.paths) < maxPaths {
		h.paths[strings.Clone(path)]++
	}
	switch {
	case path == "/robots.txt":
		c.Robots++
		return
	case c.Robots == 0 && !viaRobots(path):
		c.BeforeRobots++
		c.First = cmp.Or(c.First, "before robots.txt: "+clip(path))
	}
	if forbidden {
		c.Disallowed++
		c.First = cmp.Or(c.First, "disallowed: "+clip(path))
	}
}

// viaRobots are paths that a redirect of robots.txt leads to.
func viaRobots(path string) bool { return strings.HasPrefix(path, "/robots-at/") }

func clip(s string) string { return s[:min(len(s), 120)] }

// gap notes how long after the end of the last answer a request came. One that the client broke off
// ended when it says, not when the server noticed.
func (h *hostAudit) gap(now time.Time, path string) {
	if h.last == nil || h.last.dropped {
		return
	}
	end := h.last.ended
	if h.last.conn != nil {
		if w := h.last.conn.lastWrite(); !w.IsZero() && w.Before(end) {
			end = w
		}
	}
	ms := float64(now.Sub(end).Microseconds()) / 1000
	if h.counts.SmallestGapMS == nil || *h.counts.SmallestGapMS > ms {
		h.counts.SmallestGapMS = &ms
		if ms < milliseconds(trialDelay-delaySlack) {
			h.counts.First = cmp.Or(h.counts.First, fmt.Sprintf("request %d, for %s, %.1f ms after the answer to %s, which began %.1f ms before", h.counts.Requests, clip(path), ms, clip(h.last.path), milliseconds(end.Sub(h.last.begun))))
		}
	}
}

// noticed is how long it may take the server to see that a client went away.
const noticed = 250 * time.Millisecond

// end notes that a request is answered, or that its client went away. The first call counts.
func (a *audit) end(v *visit, dropped bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !v.ended.IsZero() {
		return
	}
	v.ended, v.dropped = now, dropped
	h := v.host
	if i := slices.Index(h.open, v); i >= 0 {
		h.open = slices.Delete(h.open, i, i+1)
	}
	for _, at := range v.met {
		if dropped && now.Sub(at) < noticed {
			continue
		}
		h.counts.Parallel++
		h.counts.First = cmp.Or(h.counts.First, "two requests at once")
	}
	v.met = nil
	h.last = v
}

// sent notes bytes of answers.
func (a *audit) sent(v *visit, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v.host.counts.Bytes += n
}

// forget begins anew.
func (a *audit) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = make(map[string]*hostAudit)
}

// asked is how often a path of a host was asked for.
func (a *audit) asked(host, path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hosts[host]; h != nil {
		return h.paths[path]
	}
	return 0
}

// times are the moments of the requests to a host.
func (a *audit) times(host string) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hosts[host]; h != nil {
		return slices.Clone(h.times)
	}
	return nil
}

// order are the paths that a host was asked for, one after another.
func (a *audit) order(host string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hosts[host]; h != nil {
		return slices.Clone(h.order)
	}
	return nil
}

// paths are the paths of a host that were asked for, with how often.
func (a *audit) paths(host string) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hosts[host]; h != nil {
		return maps.Clone(h.paths)
	}
	return nil
}

// report sums up a family, and returns all of its hosts besides.
func (a *audit) report(f *family) (*Audit, []AuditHost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := &Audit{Family: f.name}
	var all []AuditHost
	for _, h := range a.hosts {
		if h.family != f {
			continue
		}
		c := h.counts
		all = append(all, c)
		sum.Hosts++
		sum.Requests += c.Requests
		sum.Bytes += c.Bytes
		sum.Disallowed += c.Disallowed
		sum.BeforeRobots += c.BeforeRobots
		sum.Parallel += c.Parallel
		if c.SmallestGapMS != nil && (sum.SmallestGapMS == nil || *c.SmallestGapMS < *sum.SmallestGapMS) {
			sum.SmallestGapMS = c.SmallestGapMS
		}
	}
	slices.SortFunc(all, func(a, b AuditHost) int { return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Host, b.Host)) })
	sum.Most = all[:min(len(all), mostShown)]
	return sum, all
}
