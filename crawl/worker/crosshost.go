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
// is made under the lease of the first host, which waits meanwhile, and within these bounds: it is
// not made if the other host has opted out; the guard of addresses and the permits of the address
// hold; if the redirect leads to anything but the other host's robots.txt, that is asked for first
// and obeyed. This worker makes one such request at a time to a host, and keeps the delay between
// two of them, and between them and its other requests to the host. The worker that crawls the
// other host, where that is not this one, may ask it for something at the same time.

// errCrossHost: another host is not asked for a robots.txt.
var errCrossHost = errors.New("robots.txt leads to another host, which may not be asked for it")

const (
	// crossLook is when to look again at another host that is being asked for something.
	crossLook = 250 * time.Millisecond
	// crossTime is how long a request to another host counts as under way at most, and how long one
	// that is to be left alone is waited for.
	crossTime = 10 * time.Minute
	// crossAhead is how long before a host of this worker may be asked again its turn is taken: its
	// own URLs would come first each time.
	crossAhead = 5 * time.Millisecond
)

// crossHosts are the hosts asked for the sake of another's robots.txt. Its methods are called under
// the worker's mutex.
type crossHosts struct {
	frontier *frontier.Frontier[reports.Item]
	hosts    map[string]*host       // the worker's
	has      func(name string) bool // whether the worker has a host, or wishes for it
	delay    time.Duration          // between two requests to a host
	until    map[string]time.Time   // when a host may be asked for it again
}

// depart begins a request to another host. If it must not be made, or not now, the visit is over.
func (v *visitor) depart(ctx context.Context, h *host, it reports.Item, o *origin, q *robotsQuestion) bool {
	w, now := v.w, time.Now()
	if w.deps.OptOuts != nil {
		if why := w.deps.OptOuts.URL(q.url); why != "" {
			v.notAcross(h, it, o, why, 0, now)
			return false
		}
	}
	if other := link.Origin(q.url); o.leave != other && q.url != other+"/robots.txt" {
		q.url, q.forLeave = other+"/robots.txt", true
	}
	w.mu.Lock()
	again, owed := w.cross.enter(now, q)
	w.mu.Unlock()
	switch {
	case again.IsZero():
		select {
		case <-time.After(owed):
		case <-ctx.Done(): // and the request ends before it begins
		}
		return true
	case again.Sub(now) > crossTime:
		v.notAcross(h, it, o, "it is left alone for "+again.Sub(now).Round(time.Second).String(), 0, now)
	default:
		v.later(h, it, earliest(again, now.Add(heldPause)))
	}
	return false
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// enter begins a request to another host, once what is owed to it is over, a moment at most; or it
// says when to look again. One that the worker has itself has its visit for it.
func (c *crossHosts) enter(now time.Time, q *robotsQuestion) (again time.Time, owed time.Duration) {
	name := link.Host(q.url)
	maps.DeleteFunc(c.until, func(_ string, until time.Time) bool { return !until.After(now) })
	look := now.Add(crossLook)
	if until, ok := c.until[name]; ok {
		return earliest(until, look), 0
	}
	if owed = c.frontier.Owed(now, name); owed > crossAhead {
		return now.Add(owed - crossAhead), 0
	}
	own := c.hosts[name]
	switch {
	case c.frontier.Visited(name) || own == nil && c.has(name):
		return look, 0
	case own != nil && (own.Closing() || !c.frontier.Visit(now.Add(owed), name)): // given back; or it has URLs soon, or is given back
		return look, 0
	case own != nil:
		own.Running, q.own = true, own
	}
	c.until[strings.Clone(name)] = now.Add(crossTime)
	return time.Time{}, owed
}

// back closes what enter has opened.
func (c *crossHosts) back(now time.Time, q *robotsQuestion, took time.Duration) {
	name := link.Host(q.url)
	rest := now.Add(c.delay)
	c.until[name] = rest
	switch {
	case q.own != nil:
		c.frontier.Done(now, name, took)
		q.own.Running = false
	case c.has(name):
		c.frontier.NotBefore(name, rest)
	}
}

// back ends a request to another host.
func (v *visitor) back(now time.Time, q *robotsQuestion, took time.Duration) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cross.back(now, q, took)
	if q.own != nil {
		w.changed(q.own.Lease)
	}
	w.wakeNext(now)
}

// leave takes in the robots.txt of another host, which is asked whether what ours leads to may be
// asked for. Where it leads on in turn, it counts as having no rules.
func (v *visitor) leave(ctx context.Context, h *host, it reports.Item, o *origin, answer robots.Answer, took time.Duration, now time.Time) {
	other := robots.FromFetch(answer, now, nil)
	done, err := v.w.rules.turn(ctx, len(other.Body))
	if err != nil {
		v.again(h, it, took, now, nil)
		return
	}
	allowed := other.Allowed(v.w.cfg.Agent, link.PathQuery(o.next))
	done()
	if !allowed {
		v.notAcross(h, it, o, "its own robots.txt forbids it, or cannot be had", took, now)
		return
	}
	o.leave = link.Origin(o.next)
	v.again(h, it, took, now, nil)
}

// notAcross deals with a robots.txt at another host that may not be asked for it.
func (v *visitor) notAcross(h *host, it reports.Item, o *origin, why string, took time.Duration, now time.Time) {
	o.failure, o.status = link.OutcomeRobotsUnreachable, 0
	v.unread(h, it, o, robots.Answer{Err: errCrossHost}, errCrossHost.Error()+": "+why, took, now)
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
