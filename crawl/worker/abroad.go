package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// A robots.txt may lead to another host, as that of example.com does to www.example.com. What is
// found there are the rules of the host that it was asked for at (RFC 9309, 2.3.1.2). The lease of
// the first host, which waits meanwhile, says nothing of the other one, and one worker at a time may
// ask that as well. If this worker has the other host itself, the request is made under its lease
// of that, which is not given back before the request is over. Else the host's owner lends it for
// the request, see borrow.go. Towards the other host also:
//
// The request is not made if that host has opted out. The guard of addresses and the permits hold.
// If the redirect leads to anything but its robots.txt, that is asked for first and obeyed. This
// worker makes one such request at a time, and keeps the delay between two of them, and between
// them and its other requests to the host.
//
// Two peers may still ask at once in two cases: the host's owner is of a version that lends nothing;
// or the owner has lent a host without a record, another peer becomes its owner, and links to the
// host come there before the loan is over.

// Why another host is not asked for a robots.txt, or not any more.
var (
	errBorrowed = errors.New("robots.txt leads to another host, which may not be asked for it")
	errLoanOver = errors.New("the loan of the host, or the lease, has ended")
)

const (
	// abroadLook is when to look again at another host that is being asked for something.
	abroadLook = 250 * time.Millisecond
	// abroadTime is how long a request to another host counts as under way at most, and for how long
	// its owner is asked for it.
	abroadTime = 10 * time.Minute
	// abroadAhead is how long before a host of this worker may be asked again its turn is taken: its
	// own URLs would come first each time.
	abroadAhead = 5 * time.Millisecond
)

// depart begins a request to another host. If it must not be made, or not now, the visit is over.
func (v *visitor) depart(ctx context.Context, h *host, it reports.Item, o *origin, q *robotsQuestion) bool {
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
	again, owed := w.abroad.enter(now, q)
	since, why := now, ""
	if again.IsZero() && q.loan == nil {
		if o.waits.IsZero() {
			o.waits = now
		}
		since = o.waits
		again, why = w.borrow(ctx, now, q, h.Host)
	}
	if again.IsZero() && why == "" {
		w.abroad.begin(now, q)
	}
	w.mu.Unlock()
	switch {
	case why != "":
		v.borrowed(h, it, o, why, 0, now)
	case again.IsZero():
		select {
		case <-time.After(owed):
		case <-ctx.Done(): // and the request ends before it begins
		}
		return true
	case again.Sub(since) > abroadTime:
		v.borrowed(h, it, o, "it is left alone, or others are at it, for "+again.Sub(since).Round(time.Second).String(), 0, now)
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

// abroad are the hosts asked for the sake of another's robots.txt. Its methods are called under the worker's mutex.
type abroad struct {
	frontier *frontier.Frontier[reports.Item]
	hosts    map[string]*host       // the worker's
	has      func(name string) bool // whether the worker has a host, or wishes for it
	delay    time.Duration          // between two requests to a host
	until    map[string]time.Time   // when a host may be asked for it again
	open     map[*loan]struct{}     // under which a request is under way
	asked    map[string]*lending    // hosts whose owners were asked
}

// enter says when to look again at another host; zero if it may be asked as far as this worker knows, once what is owed to it is over, a moment at most. One that the
// worker has itself is then asked under its lease.
func (a *abroad) enter(now time.Time, q *robotsQuestion) (again time.Time, owed time.Duration) {
	name := link.Host(q.url)
	maps.DeleteFunc(a.until, func(_ string, until time.Time) bool { return !until.After(now) })
	look := now.Add(abroadLook)
	if until, ok := a.until[name]; ok {
		return earliest(until, look), 0
	}
	if owed = a.frontier.Owed(now, name); owed > abroadAhead {
		return now.Add(owed - abroadAhead), 0
	}
	own := a.hosts[name]
	switch {
	case a.frontier.Visited(name) || own == nil && a.has(name):
		return look, 0
	case own == nil:
		return time.Time{}, owed
	case own.Closing() || !a.frontier.Visit(now.Add(owed), name): // it is given back; or soon has URLs, or is given back
		return look, 0
	}
	own.Running, q.opened, q.loan = true, true, &loan{own: own}
	return time.Time{}, owed
}

// begin notes that the request is under way.
func (a *abroad) begin(now time.Time, q *robotsQuestion) {
	a.until[strings.Clone(link.Host(q.url))] = now.Add(abroadTime)
	if q.loan != nil {
		a.open[q.loan] = struct{}{}
	}
}

// back closes what enter has opened; held says whether this worker has the host as well.
func (a *abroad) back(now time.Time, q *robotsQuestion, took time.Duration, held bool) {
	name := link.Host(q.url)
	rest := now.Add(a.delay)
	a.until[name] = rest
	delete(a.open, q.loan)
	switch {
	case q.opened:
		a.frontier.Done(now, name, took)
	case held:
		a.frontier.NotBefore(name, rest)
	}
}

// back ends a request to another host.
func (v *visitor) back(ctx context.Context, now time.Time, q *robotsQuestion, took time.Duration) {
	w := v.w
	name := link.Host(q.url)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.abroad.back(now, q, took, w.has(name))
	switch {
	case q.loan == nil:
	case q.loan.own != nil:
		q.loan.own.Running = false
		w.changed(q.loan.own.Lease)
	default:
		w.abroad.restoring(name)
		w.wg.Go(func() { w.restore(ctx, name, q.loan) })
	}
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

// overdue deals with a request to another host that was not made, or was broken off, as its time was over. One that took all the time of a loan would take that of
// the next as well.
func (v *visitor) overdue(h *host, it reports.Item, o *origin, q *robotsQuestion, err error, took time.Duration, now time.Time) {
	if q.loan.own != nil || errors.Is(err, fetch.ErrNotPermitted) {
		v.again(h, it, took, now, nil)
		return
	}
	o.failure, o.status = link.OutcomeRobotsUnreachable, 0
	v.unread(h, it, o, robots.Answer{Err: err}, err.Error(), took, now)
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
