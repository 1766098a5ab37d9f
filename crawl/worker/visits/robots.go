package visits

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// maxBreaks is how many consecutive truncated answers for robots.txt are retried.
const maxBreaks = 2

// Question is one request for an origin's robots.txt, before a URL of it; the URL waits. A redirect
// is followed by the next visit, after the host's delay.
type Question struct {
	URL    string // to be requested
	Across bool   // at another host: call Machine.Depart first

	forLeave bool          // for that host's own robots.txt
	own      *host         // the other host, if leased by this machine: its visit is open in the frontier
	departed bool          // it was begun
	took     time.Duration // until it ended
}

// Question returns the request of a visit at step Ask.
func (v *Visit) Question() *Question {
	q := &Question{URL: v.origin.next}
	q.URL = cmp.Or(q.URL, v.origin.name+"/robots.txt")
	q.Across = link.Host(q.URL) != v.host.Host
	v.question = q
	return q
}

// Learn processes the answer to a visit's Question. The response may be released once the visit has
// ended.
func (v *Visit) Learn(now time.Time, resp *fetch.Response, took time.Duration, reading Reading) Result {
	o, q := v.origin, v.question
	q.took = took
	v.came(resp)
	answer := robots.Answer{
		Status: resp.Status, Header: resp.Header, Body: resp.Body, Truncated: resp.Truncated == fetch.TruncatedLength,
		Broken: resp.Truncated != "" && resp.Truncated != fetch.TruncatedLength,
	}
	if resp.ContentEncoding == "" && resp.Header.Get("Content-Encoding") != "" && !strings.HasPrefix(http.DetectContentType(resp.Body), "text/") {
		answer.Body, answer.Broken = nil, true // it could not be decoded
	}
	if q.forLeave {
		return v.ask(now, answer, took, reading)
	}
	if target := redirect(q.URL, resp); target != "" && o.hops < robots.MaxRedirects {
		o.next = target
		o.hops++
		return again{took: took}
	}
	if answer.Broken && resp.Status < 300 && o.breaks < maxBreaks {
		o.breaks++
		return again{took: took}
	}
	l := v.learn(now, answer, took)
	l.detail = "robots.txt is answered with status " + strconv.Itoa(resp.Status)
	if answer.Broken {
		l.detail += ", and its body breaks off or does not decode"
	}
	if !q.Across {
		l.addr, l.connect = resp.Addr.Addr(), resp.Connect
	}
	if l.state.Body != nil {
		_ = reading(len(l.state.Body), func() { // otherwise the next visit parses it
			v.rules, v.read = l.state.Rules(v.cfg.Agent), true // the body is a copy
		})
	}
	return l
}

// redirect returns the target of a redirect, or "".
func redirect(from string, resp *fetch.Response) string {
	raw := resp.Location()
	if raw == "" {
		return ""
	}
	base, err := link.NewBase(from)
	if err != nil {
		return ""
	}
	target, err := base.AppendResolve(nil, []byte(raw))
	if err != nil || link.Host(string(target)) == "" {
		return ""
	}
	return string(target)
}

// Unasked processes a Question without an answer. A host that is unreachable has that as its
// outcome.
func (v *Visit) Unasked(now time.Time, f Failed) Result {
	q := v.question
	q.took = f.Took
	if errors.Is(f.Err, fetch.ErrStale) {
		return f
	}
	if v.lacks.IsValid() && q.Across {
		return later{now.Add(permitLook)}
	}
	fe, known := errors.AsType[*fetch.Error](f.Err)
	if !known {
		return f
	}
	answer := robots.Answer{Err: f.Err}
	switch {
	case q.Across:
	case fe.Outcome == link.OutcomeOptedOut || fe.Outcome == link.OutcomeOutOfScope: // rejected address, or invalid name
		return f
	case fe.Outcome == link.OutcomeTooLarge:
		// Only a head can be too large, as the body is cut: the site answers, but unreadably.
		answer = robots.Answer{Status: http.StatusInternalServerError}
	}
	l := v.unread(now, answer, fe.Error(), f.Took)
	if !q.Across && fe.HostWide() {
		l.failure, l.status = fe.Outcome, uint32(fe.Status()) // few values
	}
	return l
}

// unread processes a failure to get robots.txt.
func (v *Visit) unread(now time.Time, answer robots.Answer, detail string, took time.Duration) *learnt {
	l := v.learn(now, answer, took)
	l.failure, l.detail = link.OutcomeRobotsUnreachable, reports.Clip(detail)
	return l
}

// learn computes the new state of the visit's origin.
func (v *Visit) learn(now time.Time, a robots.Answer, took time.Duration) *learnt {
	v.rules, v.read = nil, false
	before, err := v.origin.whole()
	if err != nil {
		before = robots.State{} // as if it were new
	}
	l := &learnt{took: took, state: robots.FromFetch(a, now, &before)}
	if l.state.Length = len(l.state.Body); l.state.Body != nil {
		l.packed = s2.Encode(nil, l.state.Body)
	}
	return l
}

// learnt is a new state of an origin; the URL waits. If there is no memory for it, the host is
// given back.
type learnt struct {
	state   robots.State
	packed  []byte
	failure link.Outcome // why robots.txt is unavailable; else none
	status  uint32
	detail  string
	addr    netip.Addr // of the host that answered
	connect time.Duration
	took    time.Duration
}

func (l *learnt) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	h, o := v.host, v.origin
	o.next, o.hops, o.breaks, o.leave = "", 0, 0, "" // the next request is for its own robots.txt
	o.failure, o.status, o.detail = l.failure, l.status, l.detail
	o.set(l.state)
	switch {
	case h.Over(): // for its next lease
		m.shelf.store(idleFile{o.name, o.state, l.packed})
	case m.shelf.take(o, l.packed):
		o.report()
	default:
		m.shelf.store(idleFile{o.name, o.state, l.packed})
		o.set(robots.State{})
		v.read = false
		m.close(now, h, roomPause, noRoom)
	}
	if v.read {
		m.Keep(v)
	}
	if l.failure != link.OutcomeNone && o.state.Verdict == robots.DisallowAll {
		return closed{l.took}.end(m, now, v)
	}
	return again{l.took, l.addr, l.connect}.end(m, now, v) // the earlier state is still valid
}

// report queues the state of an origin for its owner.
func (o *origin) report() {
	o.untold = true
	o.newsSeq++
}
