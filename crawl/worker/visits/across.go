package visits

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
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

// crossHosts are the hosts asked for the sake of another's robots.txt.
type crossHosts struct {
	m     *Machine
	until map[string]time.Time // when a host may be asked for it again
}

// Depart begins a visit's question to another host, once what is owed to that is over, a moment; or
// it says when to look again, and the visit is over: Visit.Defer.
func (m *Machine) Depart(now time.Time, v *Visit) (owed time.Duration, again time.Time) {
	q := v.question
	if other := link.Origin(q.URL); v.origin.leave != other && q.URL != other+"/robots.txt" {
		q.URL, q.forLeave = other+"/robots.txt", true
	}
	again, owed = m.across.enter(now, v.host.Host, q)
	q.departed = again.IsZero()
	return owed, again
}

// Defer ends a visit whose question is not to be asked before then.
func (v *Visit) Defer(now, again time.Time) Result {
	if wait := again.Sub(now); wait > crossTime {
		return v.Barred(now, "it is left alone for "+wait.Round(time.Second).String(), 0)
	}
	return later{earliest(again, now.Add(heldPause))}
}

// Barred ends a visit whose robots.txt is at another host that may not be asked for it.
func (v *Visit) Barred(now time.Time, why string, took time.Duration) Result {
	return v.unread(now, robots.Answer{Err: errCrossHost}, errCrossHost.Error()+": "+why, took)
}

// ask takes in the robots.txt of another host, which is asked whether what ours leads to may be
// asked for. Where it leads on in turn, it counts as having no rules.
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

// enter begins a request to another host, once what is owed to it is over, a moment at most; or it
// says when to look again. One that the machine has itself has its visit for it.
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
	case own != nil && (own.Closing() || !c.m.frontier.Beside(now.Add(owed), name, from)): // given back; or it has URLs soon, or is given back
		return look, 0
	case own != nil:
		own.Running, q.own = true, own
	case !c.m.frontier.EnterGroup(now, name, from):
		return look, 0
	}
	c.until[strings.Clone(name)] = now.Add(crossTime)
	return time.Time{}, owed
}

// busy is when to look again at a host that was asked before it became the machine's own; zero: it
// may be visited.
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
