package visits

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
)

// A robots.txt may redirect to another host, as that of example.com does to www.example.com. The
// rules found there apply to the host that redirects (RFC 9309, 2.3.1.2). The request is made under
// the lease of the first host, which waits meanwhile, within these bounds: it is not made if the
// other host has opted out; the address guard and the permits of the address apply; if the redirect
// leads to anything but the other host's robots.txt, that is fetched first and obeyed. This worker
// makes one such request at a time to a host, and keeps the delay between two of them, and between
// them and its other requests to the host. If another worker crawls the other host, the two may
// send it requests at the same time.

// errCrossHost: the other host must not be sent a request for robots.txt.
var errCrossHost = errors.New("robots.txt redirects to another host, where it may not be fetched")

const (
	// crossLook is the delay before another host with a request under way is checked again.
	crossLook = 250 * time.Millisecond
	// crossTime bounds how long a request to another host counts as under way, and for how long a
	// backoff of that host is waited for.
	crossTime = 10 * time.Minute
	// crossAhead is by how much a request to a host of this worker may precede its due time: its own
	// URLs would always come first otherwise.
	crossAhead = 5 * time.Millisecond
)

// crossHosts are the hosts requested for another host's robots.txt.
type crossHosts struct {
	m     *Machine
	until map[string]time.Time // not-before time of a host
}

// Depart begins a visit's question to another host, after a short delay owed. If it is not possible
// now, again is when to retry, and the caller ends the visit with Visit.Defer.
func (m *Machine) Depart(now time.Time, v *Visit) (owed time.Duration, again time.Time) {
	q := v.question
	if other := link.Origin(q.URL); v.origin.leave != other && q.URL != other+"/robots.txt" {
		q.URL, q.forLeave = other+"/robots.txt", true
	}
	again, owed = m.across.enter(now, v.host.Host, q)
	q.departed = again.IsZero()
	return owed, again
}

// Defer ends a visit whose question must not be sent before then.
func (v *Visit) Defer(now, again time.Time) Result {
	if wait := again.Sub(now); wait > crossTime {
		return v.Barred(now, "deferred for "+wait.Round(time.Second).String(), 0)
	}
	return later{earliest(again, now.Add(heldPause))}
}

// Barred ends a visit whose robots.txt is at another host that must not be sent the request.
func (v *Visit) Barred(now time.Time, why string, took time.Duration) Result {
	return v.unread(now, robots.Answer{Err: errCrossHost}, errCrossHost.Error()+": "+why, took)
}

// ask processes the robots.txt of another host, which decides whether the target of the redirect
// may be fetched. If it redirects in turn, it counts as having no rules.
func (v *Visit) ask(now time.Time, answer robots.Answer, took time.Duration, reading Reading) Result {
	other, o := robots.FromFetch(answer, now, nil), v.origin
	allowed := false
	err := reading(len(other.Body), func() { allowed = other.Allowed(v.cfg.Agent, link.PathQuery(o.next)) })
	switch {
	case err != nil:
	case !allowed:
		return v.Barred(now, "its own robots.txt forbids it, or cannot be had", took)
	default:
		o.leave = link.Origin(o.next)
	}
	return again{took: took}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// enter begins a request to another host, after a short delay owed; or it returns when to retry. If
// the machine has a lease on that host, its visit is opened too.
func (c *crossHosts) enter(now time.Time, from string, q *Question) (again time.Time, owed time.Duration) {
	name := link.Host(q.URL)
	maps.DeleteFunc(c.until, func(_ string, until time.Time) bool { return !until.After(now) })
	look := now.Add(crossLook)
	if until, ok := c.until[name]; ok {
		return earliest(until, look), 0
	}
	if owed = c.m.frontier.Owed(now, name); owed > crossAhead {
		return now.Add(owed - crossAhead), 0
	}
	own := c.m.hosts[name]
	switch {
	case c.m.frontier.Visited(name) || own == nil && c.m.has(name):
		return look, 0
	case own != nil && (own.Closing() || !c.m.frontier.Beside(now.Add(owed), name, from)): // given back, or due soon
		return look, 0
	case own != nil:
		own.Running, q.own = true, own
	case !c.m.frontier.EnterGroup(now, name, from):
		return look, 0
	}
	c.until[strings.Clone(name)] = now.Add(crossTime)
	return time.Time{}, owed
}

// busy returns when a host that was sent such a request before it was leased may be visited; zero:
// now.
func (c *crossHosts) busy(now time.Time, name string) time.Time {
	if until := c.until[name]; until.After(now) {
		return earliest(until, now.Add(crossLook))
	}
	return time.Time{}
}

// back closes what enter has opened.
func (c *crossHosts) back(now time.Time, q *Question) {
	name := link.Host(q.URL)
	rest := now.Add(c.m.cfg.Politeness.Delay)
	c.until[name] = rest
	switch {
	case q.own != nil:
		c.m.frontier.Done(now, name, q.took)
		q.own.Running = false
	default:
		c.m.frontier.LeaveGroup(now, name)
		if c.m.has(name) {
			c.m.frontier.NotBefore(name, rest)
		}
	}
}
