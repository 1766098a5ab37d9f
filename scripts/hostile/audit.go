package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// audit records the requests of all hosts, which it names with their port.
type audit struct {
	mu    sync.Mutex // guards hosts, and what they hold
	hosts map[string]*hostAudit
}

// hostAudit is what the server saw of one host.
type hostAudit struct {
	Host         string
	Requests     int
	Disallowed   int
	BeforeRobots int
	// Parallel counts requests that began while the server was still answering another one.
	Parallel int
	// SmallestGapMS is the least time from the end of an answer to the next request.
	SmallestGapMS *float64
	Bytes         int64
	First         string `json:",omitempty"` // the first violation

	family *family
	robots int
	log    []request // at most maxLogged
	open   []*visit
	last   *visit // the one that ended last
}

// maxLogged bounds the requests that are recorded of a host.
const maxLogged = 200_000

// request is one entry of a host's log.
type request struct {
	path  string // with the query
	at    time.Time
	whole bool // the answer was read to its end
}

// visit is one request while it is being answered.
type visit struct {
	host    *hostAudit
	entry   int // in the log, if that has room
	conn    *conn
	path    string
	begun   time.Time
	ended   time.Time
	dropped bool // the client closed the connection or stream before the end
	met     []time.Time
}

// begin records a request.
func (a *audit) begin(f *family, host, path string, c *conn, forbidden bool) *visit {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.hosts[host]
	if h == nil {
		h = &hostAudit{Host: host, family: f}
		a.hosts[host] = h
	}
	v := &visit{host: h, entry: len(h.log), conn: c, path: strings.Clone(path), begun: now}
	h.note(v, forbidden)
	for _, o := range h.open {
		o.met = append(o.met, now)
	}
	if len(h.open) == 0 {
		h.gap(v)
	}
	h.open = append(h.open, v)
	return v
}

func (h *hostAudit) note(v *visit, forbidden bool) {
	h.Requests++
	if len(h.log) < maxLogged {
		h.log = append(h.log, request{path: v.path, at: v.begun})
	}
	switch {
	case v.path == "/robots.txt":
		h.robots++
		return
	case h.robots == 0:
		h.BeforeRobots++
		h.First = cmp.Or(h.First, "before robots.txt: "+clip(v.path))
	}
	if forbidden {
		h.Disallowed++
		h.First = cmp.Or(h.First, "disallowed: "+clip(v.path))
	}
}

func clip(s string) string { return s[:min(len(s), 120)] }

// gap updates SmallestGapMS. An answer that the client dropped has no known end: it ended when the
// client closed it, not when the server noticed.
func (h *hostAudit) gap(v *visit) {
	if h.last == nil || h.last.dropped {
		return
	}
	end := h.last.ended
	if h.last.conn != nil {
		if w := h.last.conn.lastWrite(); !w.IsZero() && w.Before(end) {
			end = w
		}
	}
	ms := milliseconds(v.begun.Sub(end))
	if h.SmallestGapMS == nil || *h.SmallestGapMS > ms {
		h.SmallestGapMS = &ms
		if ms < milliseconds(trialDelay-delaySlack) {
			h.First = cmp.Or(h.First, fmt.Sprintf("request %d, for %s, %.1f ms after the answer to %s, which began %.1f ms before",
				h.Requests, clip(v.path), ms, clip(h.last.path), milliseconds(end.Sub(h.last.begun))))
		}
	}
}

// noticed is how long it may take the server to notice that a client closed a connection.
const noticed = 250 * time.Millisecond

// end records that a request is answered, or that its client dropped it. The first call counts.
func (a *audit) end(v *visit, dropped bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !v.ended.IsZero() {
		return
	}
	v.ended, v.dropped = now, dropped
	h := v.host
	if v.entry < len(h.log) {
		h.log[v.entry].whole = !dropped
	}
	if i := slices.Index(h.open, v); i >= 0 {
		h.open = slices.Delete(h.open, i, i+1)
	}
	for _, at := range v.met {
		if dropped && now.Sub(at) < noticed {
			continue
		}
		h.Parallel++
		h.First = cmp.Or(h.First, "two requests at once")
	}
	h.last = v
}

// sent counts bytes of answers.
func (a *audit) sent(v *visit, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v.host.Bytes += n
}

// forget drops all records.
func (a *audit) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = make(map[string]*hostAudit)
}

// of returns copies of the records of a family's hosts, most requests first.
func (a *audit) of(f *family) (all []*hostAudit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.hosts {
		if h.family == f {
			c := *h
			c.log = slices.Clone(h.log)
			all = append(all, &c)
		}
	}
	slices.SortFunc(all, func(a, b *hostAudit) int { return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Host, b.Host)) })
	return all
}

// asked returns how often a path was requested.
func (h *hostAudit) asked(path string) (n int) {
	for _, r := range h.log {
		if r.path == path {
			n++
		}
	}
	return n
}
