package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// A robots.txt may lead to another host, as that of example.com does to www.example.com. What is
// found there are the rules of the host that it was asked for at (RFC 9309, 2.3.1.2). The request
// is made under the lease of the first host, which waits meanwhile. Towards the other host:
//
// The request is not made if that host has opted out. The guard of addresses and the permits hold.
// If the redirect leads to anything but its robots.txt, that is asked for first and obeyed. This
// worker makes one such request at a time, and keeps the delay between two of them, and between
// them and its other requests to the host.
//
// One thing is not kept: another peer may ask the host meanwhile. Its lease is not asked for, for
// one small request a day for each host that leads there.

// errBorrowed: the host that has the robots.txt may not be asked for it.
var errBorrowed = errors.New("robots.txt leads to another host, which may not be asked for it")

const (
	// abroadLook is when to look again at another host that is being asked for something.
	abroadLook = 250 * time.Millisecond
	// abroadTime is how long a request to another host counts as under way at most.
	abroadTime = 10 * time.Minute
)

// depart begins a request to another host. If it must not be made, or not now, the visit is over.
func (v *visitor) depart(h *host, it reports.Item, o *origin, q *robotsQuestion) bool {
	w, now := v.w, time.Now()
	if w.deps.OptOuts != nil {
		if why := w.deps.OptOuts.URL(q.url); why != "" {
			v.borrowed(h, it, o, why, 0, now)
			return false
		}
	}
	if other := link.Origin(q.url); o.leave != other && q.url != other+"/robots.txt" {
		q.url, q.forLeave = other+"/robots.txt", true
	}
	w.mu.Lock()
	again := w.abroad.enter(now, q)
	w.mu.Unlock()
	switch {
	case again.IsZero():
		return true
	case again.Sub(now) > heldPause:
		v.borrowed(h, it, o, "it is left alone for "+again.Sub(now).String(), 0, now)
	default:
		v.later(h, it, again)
	}
	return false
}

// abroad are the hosts asked for the sake of another's robots.txt. Its methods are called under the worker's mutex.
type abroad struct {
	frontier *frontier.Frontier[reports.Item]
	delay    time.Duration        // between two requests to a host
	until    map[string]time.Time // when a host may be asked for it again
}

// enter opens the visit of another host, or says when to look again.
func (a *abroad) enter(now time.Time, q *robotsQuestion) (again time.Time) {
	name := link.Host(q.url)
	maps.DeleteFunc(a.until, func(_ string, until time.Time) bool { return !until.After(now) })
	if until, ok := a.until[name]; ok {
		if look := now.Add(abroadLook); until.After(look) {
			return look
		}
		return until
	}
	if owed := a.frontier.Owed(now, name); owed > 0 {
		return now.Add(owed)
	}
	if a.frontier.Visited(name) {
		return now.Add(abroadLook)
	}
	q.opened = a.frontier.Visit(now, name)
	a.until[strings.Clone(name)] = now.Add(abroadTime)
	return time.Time{}
}

// back closes what enter has opened; held says whether this worker has the host as well.
func (a *abroad) back(now time.Time, q *robotsQuestion, took time.Duration, held bool) {
	name := link.Host(q.url)
	rest := now.Add(a.delay)
	a.until[name] = rest
	switch {
	case q.opened:
		a.frontier.Done(now, name, took)
	case held:
		a.frontier.NotBefore(name, rest)
	}
}

// back ends a request to another host.
func (v *visitor) back(now time.Time, q *robotsQuestion, took time.Duration) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.abroad.back(now, q, took, w.has(link.Host(q.url)))
	w.wakeNext(now)
}

// leave takes in the robots.txt of another host, which is asked whether what ours leads to may be asked for. Where it leads on in turn, it counts as having no rules.
func (v *visitor) leave(ctx context.Context, h *host, it reports.Item, o *origin, answer robots.Answer, took time.Duration, now time.Time) {
	other := robots.FromFetch(answer, now, nil)
	done, err := v.w.shelf.turn(ctx, len(other.Body))
	if err != nil {
		v.again(h, it, took, now, nil)
		return
	}
	allowed := other.Allowed(v.w.cfg.Agent, link.PathQuery(o.next))
	done()
	if !allowed {
		v.borrowed(h, it, o, "its own robots.txt forbids it, or cannot be had", took, now)
		return
	}
	o.leave = link.Origin(o.next)
	v.again(h, it, took, now, nil)
}

// borrowed deals with a robots.txt at another host that may not be asked for it.
func (v *visitor) borrowed(h *host, it reports.Item, o *origin, why string, took time.Duration, now time.Time) {
	o.failure, o.status = link.OutcomeRobotsUnreachable, 0
	v.unread(h, it, o, robots.Answer{Err: errBorrowed}, errBorrowed.Error()+": "+why, took, now)
}

// later puts a URL back until then, whose visit came to no request.
func (v *visitor) later(h *host, it reports.Item, at time.Time) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frontier.Free(h.Host)
	v.left(h)
	switch {
	case h.Closing():
		h.Return(it.Job.ID, it.URL)
	case !h.Over():
		w.frontier.NotBefore(h.Host, at)
		w.windows.unpop(h, &it)
		w.wakeNext(time.Now())
	}
	w.changed(h.Lease)
}
