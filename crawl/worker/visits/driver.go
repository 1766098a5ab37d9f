package visits

import (
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// hands implements session.Driver.
type hands struct {
	*Machine
	Driver
}

var _ session.Driver = hands{}

// Full implements session.Driver.
func (m hands) Full() bool { return m.windows.full() }

// Left implements session.Driver.
func (m hands) Left(l *session.Lease) int { return m.frontier.Len(l.Host) }

// Pace implements session.Driver.
func (m hands) Pace(l *session.Lease) time.Duration { return m.frontier.Pace(l.Host) }

// Owed implements session.Driver.
func (m hands) Owed(now time.Time, l *session.Lease) time.Duration {
	return m.frontier.Owed(now, l.Host)
}

// Learn implements session.Driver: a host's politeness state and addresses.
func (m hands) Learn(now time.Time, l *session.Lease, g *wire.Grant) (backoff time.Duration, reason string) {
	h := m.hosts[l.Host]
	pace := g.GetPacePct()
	if h == nil {
		h = &host{Lease: l, origins: make(map[string]*origin)}
		h.domain = m.cfg.domain(l.Host)
		m.hosts[l.Host] = h
		m.frontier.Slow(l.Host, float64(pace)/100)
	} else if pace > 0 {
		m.frontier.Slow(l.Host, float64(pace)/100)
	}
	if owed := time.Duration(g.GetNotBeforeMs()) * time.Millisecond; owed > 0 {
		m.frontier.NotBefore(l.Host, now.Add(owed))
	}
	backoff, reason = m.learnRobots(h, g)
	m.learnAddrs(h, g)
	for _, id := range g.GetJobIds() {
		if m.Job(job.ID(id)).NotTaken {
			backoff, reason = notTakenPause, notTaken
		}
	}
	return backoff, reason
}

// learnRobots takes the robots.txt files of granted URLs that are retained from earlier leases.
func (m hands) learnRobots(h *host, g *wire.Grant) (backoff time.Duration, reason string) {
	for u := range session.URLs(g) {
		f, ok := m.shelf.idle.Peek(link.Origin(u.URL))
		if !ok || h.origins[f.origin] != nil {
			continue
		}
		o := &origin{name: f.origin, state: f.state}
		if !m.shelf.take(o, f.packed) {
			return roomPause, noRoom
		}
		m.shelf.remove(f.origin)
		h.origins[o.name] = o
	}
	return 0, ""
}

// learnAddrs stores where others reached the host, to find other hosts at the same address. The
// addresses are not dialed, because an owner could have named any.
func (m hands) learnAddrs(h *host, g *wire.Grant) {
	if len(h.addrs) > 0 {
		return
	}
	for _, raw := range g.GetAddrs() {
		if addr, ok := netip.AddrFromSlice(raw); ok {
			h.addrs = append(h.addrs, addr.Unmap())
		}
	}
	if len(h.addrs) > 0 {
		m.frontier.SetAddr(h.Host, h.addrs[0])
	}
}

// Take implements session.Driver.
func (m hands) Take(l *session.Lease, g *wire.Grant) int {
	items := make([]reports.Item, 0, len(g.GetUrl()))
	sources := wire.SourcesOf(g, false)
	again := make(map[int]*wire.Revisit, len(g.GetRevisits()))
	for _, r := range g.GetRevisits() {
		again[int(r.GetAt())] = r
	}
	for u := range session.URLs(g) {
		items = append(items, reports.Item{
			Job: m.Job(u.Job), URL: u.URL, Depth: u.Depth, Hops: u.Hops, Kind: u.Kind, Tries: u.Tries, MaxBytes: u.MaxBytes, Source: sources.Of(u.Index),
			Revisit: again[u.Index],
		})
	}
	if len(items) > 0 {
		m.windows.push(m.hosts[l.Host], items)
	}
	return len(items)
}

// Drain implements session.Driver. The host is not forgotten, as its politeness state is still to
// be reported.
func (m hands) Drain(now time.Time, l *session.Lease, backoff time.Duration) {
	if backoff > 0 {
		m.frontier.NotBefore(l.Host, now.Add(backoff))
	}
	h := m.hosts[l.Host]
	for it, ok := m.windows.pop(l.Host, h); ok; it, ok = m.windows.pop(l.Host, h) {
		h.Return(it.Job.ID, it.URL)
	}
}

// Forget implements session.Driver. An exchange under way may end, within the former validity of
// the lease.
func (m hands) Forget(l *session.Lease) {
	if h := m.hosts[l.Host]; h != nil && h.Lease == l {
		if h.visit != nil && h.visit.cancel != nil {
			m.leaving[h.visit] = struct{}{}
		}
		for _, o := range h.origins {
			m.shelf.forget(o)
		}
		delete(m.hosts, l.Host)
		m.windows.weigh(h, -int(h.window))
	}
	m.frontier.Remove(l.Host)
}
