package worker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// fetchRobots makes one request for an origin's robots.txt, before a URL of it; the URL waits. A
// redirect is followed by the next visit, so that the host has its rest in between. Where it leads
// to another host, see crosshost.go.
func (v *visitor) fetchRobots(ctx context.Context, h *host, it reports.Item, o *origin) {
	w := v.w
	url := o.next
	if url == "" {
		url = o.name + "/robots.txt"
	}
	q := robotsQuestion{url: url, crossHost: link.Host(url) != h.Host}
	if q.crossHost && !v.depart(ctx, h, it, o, &q) {
		return
	}
	begun := time.Now()
	room := w.pipe.Room()
	defer room.Release()
	resp, err := v.get(ctx, h, &fetch.Request{URL: q.url, MaxBytes: robots.MaxBody + 1, Cut: true, Accept: "text/plain,*/*;q=0.1", Room: room})
	if err == nil {
		if lerr := resp.Load(); lerr != nil {
			resp.Release()
			err = &fetch.Error{Outcome: link.OutcomeHTTPError, Phase: fetch.PhaseBody, URL: q.url, Err: lerr}
		}
	}
	now := time.Now()
	took := now.Sub(begun)
	if q.crossHost {
		v.back(now, &q, took)
	}
	if err != nil {
		v.robotsFailed(h, it, o, &q, err, took, now)
		return
	}
	w.stats.wireBytes.Add(resp.WireBytes)
	defer resp.Release()
	answer := robots.Answer{Status: resp.Status, Header: resp.Header, Body: resp.Body, Truncated: resp.Truncated}
	if q.forLeave {
		v.leave(ctx, h, it, o, answer, took, now)
		return
	}
	if target := redirect(q.url, resp); target != "" && o.hops < robots.MaxRedirects {
		o.next = target
		o.hops++
		v.again(h, it, took, now, nil)
		return
	}
	o.begin()
	o.failure = link.OutcomeNone
	o.detail = "robots.txt is answered with status " + strconv.Itoa(resp.Status)
	v.learn(h, o, answer, now)
	_, _ = v.parse(ctx, h, o) // else the next visit does
	if q.crossHost {
		resp = nil // it did not come from an address of this host
	}
	v.again(h, it, took, now, resp)
}

// robotsQuestion is one request for a robots.txt.
type robotsQuestion struct {
	url       string
	crossHost bool  // at another host
	forLeave  bool  // for that host's own robots.txt
	own       *host // the other host, if it is this worker's: its visit is open in the frontier
}

// begin has the next request be for the origin's own robots.txt.
func (o *origin) begin() { o.next, o.hops, o.leave = "", 0, "" }

// redirect is where an answer leads, empty if nowhere.
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

// learn takes in what an answer means. Where there is no room for it the host is given back as soon
// as its owner was told.
func (v *visitor) learn(h *host, o *origin, a robots.Answer, now time.Time) {
	before, err := o.whole()
	if err != nil {
		before = robots.State{} // as if nothing were known
	}
	state := robots.FromFetch(a, now, &before)
	encoded, err := state.MarshalBinary()
	if err != nil { // a body over the bound, which FromFetch does not keep
		state = robots.FromFetch(robots.Answer{Err: err}, now, nil)
		encoded, _ = state.MarshalBinary()
	}
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o.set(state)
	o.untold = true
	o.newsSeq++
	if !w.rules.take(o, encoded, true) {
		w.close(h, roomPause, noRoom)
	}
	if h.Over() { // nothing more is said under its lease
		w.sessions.Learnt(now, h.Lease, []*wire.Robots{{Origin: o.name, State: encoded}})
	}
}

// noRoom is why a host is given back whose robots.txt is too large for what is left of mostStates.
const noRoom = "there is no room for its robots.txt"

// parse returns the rules of an origin's state, and has their delay kept from the next request on.
// The error is that of ctx.
func (v *visitor) parse(ctx context.Context, h *host, o *origin) (*robots.Rules, error) {
	rules := v.w.rules.get(o)
	if rules == nil {
		var err error
		if rules, err = v.w.rules.make(ctx, o, v.w.cfg.Agent); err != nil {
			return nil, err
		}
	}
	if o.parsed {
		return rules, nil
	}
	o.parsed = true
	if d, ok := rules.CrawlDelay(); ok {
		v.w.mu.Lock()
		if v.w.has(h.Host) {
			v.w.frontier.CrawlDelay(h.Host, d)
		}
		v.w.mu.Unlock()
	}
	return rules, nil
}

// again ends a visit that was made for robots.txt, or that came to nothing through no fault of the
// URL's, and puts the URL back.
func (v *visitor) again(h *host, it reports.Item, took time.Duration, now time.Time, resp *fetch.Response) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frontier.Done(now, h.Host, took)
	v.left(h)
	if resp != nil {
		v.reached(h, resp.Addr.Addr())
	}
	w.putBack(now, h.Lease, &it)
	w.changed(h.Lease)
}

// robotsFailed deals with a robots.txt that could not be had. A host that cannot be reached at all
// has that as its outcome.
func (v *visitor) robotsFailed(h *host, it reports.Item, o *origin, q *robotsQuestion, err error, took time.Duration, now time.Time) {
	if errors.Is(err, fetch.ErrStale) {
		v.again(h, it, took, now, nil) // over a new connection, after the host's rest
		return
	}
	if _, lacks := errors.AsType[*withoutPermit](err); lacks && q.crossHost {
		v.later(h, it, now.Add(permitLook))
		return
	}
	fe, known := errors.AsType[*fetch.Error](err)
	if !known {
		v.untried(h, it, err, took, now)
		return
	}
	if q.crossHost {
		o.failure, o.status = link.OutcomeRobotsUnreachable, 0
		v.unread(h, it, o, robots.Answer{Err: err}, fe.Error(), took, now)
		return
	}
	if fe.Outcome == link.OutcomeOptedOut || fe.Outcome == link.OutcomeOutOfScope { // by its address; or its name is none that can be asked for
		v.failed(h, it, err, now.Add(-took), now)
		return
	}
	w := v.w
	w.mu.Lock()
	lent := fe.HostWide() && v.lent(h)
	w.mu.Unlock()
	if lent {
		v.again(h, it, took, now, nil)
		return
	}
	answer := robots.Answer{Err: err}
	if fe.Outcome == link.OutcomeTooLarge {
		// Only a head can be, as the body is cut: the site answers, and what it says cannot be
		// read.
		answer = robots.Answer{Status: http.StatusInternalServerError}
	}
	if fe.HostWide() {
		o.failure, o.status = fe.Outcome, uint32(fe.Status()) // a handful
	} else {
		o.failure, o.status = link.OutcomeRobotsUnreachable, 0
	}
	v.unread(h, it, o, answer, fe.Error(), took, now)
}

// unread takes in that robots.txt could not be had, for the reason in the origin's failure, and
// ends the visit.
func (v *visitor) unread(h *host, it reports.Item, o *origin, answer robots.Answer, detail string, took time.Duration, now time.Time) {
	o.begin()
	o.detail = reports.Clip(detail)
	v.learn(h, o, answer, now)
	if o.state.Verdict != robots.DisallowAll {
		v.again(h, it, took, now, nil) // what is known of it still holds
		return
	}
	v.closed(h, it, o, took)
}

// silent gives a host back that asked for silence, though the rules once read still hold.
func (v *visitor) silent(h *host, it reports.Item, o *origin, now time.Time) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frontier.Free(h.Host)
	v.left(h)
	if !h.Over() {
		h.Return(it.Job.ID, it.URL)
		w.close(h, o.state.NotBefore.Sub(now), "robots.txt is answered with a wish for silence")
	}
	w.changed(h.Lease)
}

// closed deals with a URL whose robots.txt cannot be had: the rest of the window goes back, and the
// host is left alone until it may be asked again. Took is how long the request for it was under
// way, zero if none was made.
func (v *visitor) closed(h *host, it reports.Item, o *origin, took time.Duration) {
	w := v.w
	outcome, detail := o.failure, o.detail
	if outcome == link.OutcomeNone {
		outcome = link.OutcomeRobotsUnreachable
	}
	r := reports.New(h.Lease, &it, outcome)
	r.Fetched.Detail = reports.Clip(detail)
	if outcome == link.OutcomeDNS {
		r.Fetched.Status = o.status
	}
	now := time.Now()
	pause := max(o.state.Expires.Sub(now), 0)
	r.Fetched.RetryAfterMs = session.Wish(pause)
	w.mu.Lock()
	if took > 0 {
		w.frontier.Done(now, h.Host, took)
	} else {
		w.frontier.Free(h.Host)
	}
	v.left(h)
	w.queue(r)
	w.close(h, pause, outcome.String())
	w.changed(h.Lease)
	w.mu.Unlock()
	w.event(r, 0)
}

// sitemapsOf makes the report that tells a job of the sitemaps in a robots.txt, once a lease.
func (v *visitor) sitemapsOf(h *host, o *origin, rules *robots.Rules, ref *reports.Job) []*reports.Report {
	if rules == nil || slices.Contains(o.told, ref) {
		return nil
	}
	o.told = append(o.told, ref)
	if ref.Spec != nil && ref.Spec.NoSitemaps {
		return nil
	}
	var found []link.Link
	for _, raw := range rules.Sitemaps() {
		if url, err := link.Canonical(raw); err == nil {
			found = append(found, link.Link{URL: url, Kind: link.KindSitemap})
		}
	}
	if len(found) == 0 {
		return nil
	}
	r := reports.Of(h.Lease, &wire.Fetched{Job: ref.ID[:], Url: []byte(o.name + "/robots.txt"), Kind: uint32(link.KindRobots)})
	if _, n := reports.NewFollower(v.w.known).Tell(r, ref, "", found); n == 0 {
		return nil
	}
	return []*reports.Report{r}
}
