package worker

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// driver does for the sessions what they say. Its methods are called under the worker's mutex.
type driver struct{ w *Worker }

var _ session.Driver = driver{}

// Wake implements session.Driver: it wakes who speaks to an owner, or starts that.
func (d driver) Wake(s *session.Session) {
	w := d.w
	if wake := w.speakers[s]; wake != nil {
		poke(wake)
		return
	}
	w.speakers[s] = make(chan struct{}, 1)
	if w.ctx != nil {
		w.speak(s)
	}
}

// Backlog implements session.Driver.
func (d driver) Backlog() int { return d.w.backlog() }

// Full implements session.Driver.
func (d driver) Full() bool { return d.w.windows.full() }

// Left implements session.Driver.
func (d driver) Left(l *session.Lease) int { return d.w.frontier.Len(l.Host) }

// Pace implements session.Driver.
func (d driver) Pace(l *session.Lease) time.Duration { return d.w.frontier.Pace(l.Host) }

// Owed implements session.Driver.
func (d driver) Owed(now time.Time, l *session.Lease) time.Duration {
	return d.w.frontier.Owed(now, l.Host)
}

// Learn implements session.Driver: the manners towards a host, its robots.txt and its addresses.
func (d driver) Learn(now time.Time, l *session.Lease, g *wire.Grant) (backoff time.Duration, reason string) {
	w := d.w
	h := w.hosts[l.Host]
	if h == nil {
		h = newHost(l)
		h.hangs = w.hung.back(l.Host)
		w.hosts[l.Host] = h
		w.frontier.Slow(l.Host, float64(g.GetPacePct())/100)
		poke(w.watch)
	} else if pct := g.GetPacePct(); pct > 0 {
		w.frontier.Slow(l.Host, float64(pct)/100)
	}
	if owed := time.Duration(g.GetNotBeforeMs()) * time.Millisecond; owed > 0 {
		w.frontier.NotBefore(l.Host, now.Add(owed))
	}
	backoff, reason = d.learnRobots(h, g)
	d.learnAddrs(now, h, g)
	return backoff, reason
}

func (d driver) learnRobots(h *host, g *wire.Grant) (backoff time.Duration, reason string) {
	for _, r := range g.GetRobots() {
		if h.origins[r.GetOrigin()] != nil || len(h.origins) >= wire.MaxOrigins {
			continue
		}
		o := &origin{name: r.GetOrigin()}
		var state robots.State
		if state.UnmarshalBinary(r.GetState()) != nil {
			continue
		}
		if o.set(state); !d.w.rules.take(o, bytes.Clone(r.GetState()), false) {
			backoff, reason = roomPause, noRoom
			continue
		}
		h.origins[o.name] = o
	}
	return backoff, reason
}

func (d driver) learnAddrs(now time.Time, h *host, g *wire.Grant) {
	if len(h.addrs) > 0 {
		return
	}
	for _, raw := range g.GetAddrs() {
		if addr, ok := netip.AddrFromSlice(raw); ok {
			h.addrs = append(h.addrs, addr.Unmap())
		}
	}
	if len(h.addrs) > 0 {
		h.lentUntil = now.Add(lentFor)
		d.w.frontier.SetAddr(h.Host, h.addrs[0])
	}
}

// Take implements session.Driver.
func (d driver) Take(l *session.Lease, g *wire.Grant) int {
	w := d.w
	items := make([]reports.Item, 0, len(g.GetUrl()))
	for u := range session.URLs(g) {
		ref := w.granting[u.Job]
		if ref == nil {
			ref = &reports.Job{ID: u.Job}
		}
		items = append(items, reports.Item{
			Job: ref, URL: u.URL, Depth: u.Depth, Hops: u.Hops, Kind: u.Kind, Tries: u.Tries, MaxBytes: u.MaxBytes,
		})
	}
	if len(items) > 0 {
		w.windows.push(w.hosts[l.Host], items)
		w.idle.wakeOne()
	}
	return len(items)
}

// Drain implements session.Driver. The host is not forgotten, as its politeness is still to be
// told.
func (d driver) Drain(now time.Time, l *session.Lease, backoff time.Duration) {
	w := d.w
	if backoff > 0 {
		w.frontier.NotBefore(l.Host, now.Add(backoff))
	}
	h := w.hosts[l.Host]
	for it, ok := w.windows.pop(l.Host, h); ok; it, ok = w.windows.pop(l.Host, h) {
		h.Return(it.Job.ID, it.URL)
	}
}

// Forget implements session.Driver. An exchange that is under way may end, as long as the lease
// would have held.
func (d driver) Forget(l *session.Lease) (untold []*wire.Robots) {
	w := d.w
	if h := w.hosts[l.Host]; h != nil && h.Lease == l {
		if h.Running && h.cancel != nil {
			w.leaving[h] = struct{}{}
		}
		awaited := false
		for _, o := range h.origins {
			if o.untold && o.encoded != nil {
				untold = append(untold, &wire.Robots{Origin: o.name, State: o.encoded})
			}
			awaited = w.rules.forget(o) || awaited
		}
		if awaited {
			w.idle.wakeAll()
		}
		delete(w.hosts, l.Host)
		w.hung.leave(l.Host, h.hangs)
		w.windows.forget(h)
	}
	w.frontier.Remove(l.Host)
	return untold
}

// Acknowledged implements session.Driver.
func (d driver) Acknowledged(r *session.Report) { d.w.known.Acknowledged(r) }
