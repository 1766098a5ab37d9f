package visits

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

const (
	// hostPause is the backoff of an unreachable host.
	hostPause = 5 * time.Second
	// heldPause is the longest backoff for which a host is retained and not given back.
	heldPause = 5 * time.Second
	// busyPause and deniedPause are the first backoffs after a 503 and a 429 without Retry-After; they
	// double with each in a row, up to maxPause.
	busyPause   = time.Second
	deniedPause = 5 * time.Second
	maxPause    = 10 * time.Minute
)

// Result is the end of a visit that produced no page.
type Result interface {
	// end applies it, and returns the outcome of the URL if it has one now.
	end(m *Machine, now time.Time, v *Visit) *reports.Report
}

// Ended ends a visit without a page. It returns the outcome of its URL if it has one now, which is
// queued for its owner.
func (m *Machine) Ended(now time.Time, v *Visit, r Result) *reports.Report {
	if q := v.question; q != nil && q.departed {
		m.across.back(now, q)
		if q.own != nil {
			m.sessions.Changed(now, q.own.Lease)
		}
	}
	out := r.end(m, now, v)
	m.sessions.Changed(now, v.Lease)
	return out
}

// asked closes a visit whose request took that long, free one without a request.
func (m *Machine) asked(now time.Time, v *Visit, took time.Duration) {
	m.frontier.Done(now, v.host.Host, took)
	m.left(now, v)
}

func (m *Machine) free(now time.Time, v *Visit) {
	m.frontier.Free(v.host.Host)
	m.left(now, v)
}

// left records the end of a visit.
func (m *Machine) left(now time.Time, v *Visit) {
	v.host.Running, v.host.visit, v.cancel = false, nil, nil
	m.chooser.ended(now, v.governed)
	m.giveBack(now, &v.pass)
	delete(m.leaving, v)
	m.running--
}

// Refused gives a URL an outcome without a request.
type Refused struct {
	Outcome link.Outcome
	Detail  string
}

func (r Refused) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	m.free(now, v)
	m.reportSitemaps(now, v)
	out := reports.New(v.Lease, &v.Item, r.Outcome)
	out.Fetched.Detail = reports.Clip(r.Detail)
	m.report(now, out)
	return out
}

// Fetched ends a visit with a page, whose request took that long; pause is the backoff that the
// site requested, see Visit.Pause. The driver processes the page from then on, and ends that with
// Processed.
func (m *Machine) Fetched(now time.Time, v *Visit, resp *fetch.Response, took, pause time.Duration) {
	h := v.host
	v.came(resp)
	if resp.Truncated == fetch.TruncatedTime {
		m.frontier.Hung(now, h.Host, h.hung(took))
		m.left(now, v)
	} else {
		m.asked(now, v, took)
	}
	h.answered(resp.TTFB)
	m.reached(h, resp.Addr.Addr(), resp.Connect)
	h.Piped++
	m.piped++
	switch {
	case pause > heldPause:
		m.close(now, h, pause, http.StatusText(resp.Status))
	case pause > 0 && m.has(h.Host):
		m.frontier.NotBefore(h.Host, now.Add(pause))
	}
	m.sessions.Changed(now, h.Lease)
}

// reached records the address that answered, and the connect time.
func (m *Machine) reached(h *host, addr netip.Addr, connect time.Duration) {
	addr = addr.Unmap()
	if !addr.IsValid() {
		return
	}
	if connect > 0 && (h.connect == 0 || connect < h.connect-h.connect/10 || h.addr() != addr) {
		h.connect, h.fresh = connect, true
	}
	if h.addr() == addr {
		return
	}
	h.addrs, h.fresh = []netip.Addr{addr}, true
	if m.has(h.Host) {
		m.frontier.SetAddr(h.Host, addr)
	}
}

// Failed is a request without an answer, or one that could not be sent.
type Failed struct {
	Err  error // a *fetch.Error, or why there was no request
	Took time.Duration
}

func (f Failed) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	if errors.Is(f.Err, fetch.ErrStale) {
		return again{took: f.Took}.end(m, now, v) // over a new connection, after the host's delay
	}
	fe, known := errors.AsType[*fetch.Error](f.Err)
	if !known {
		f.untried(m, now, v)
		return nil
	}
	h := v.host
	if fe.Status() == link.Hung {
		m.frontier.Hung(now, h.Host, h.hung(f.Took))
		m.left(now, v)
	} else {
		m.asked(now, v, f.Took)
	}
	out := reports.New(v.Lease, &v.Item, fe.Outcome)
	out.Fetched.Status = uint32(fe.Status()) // few values
	out.Fetched.Detail = reports.Clip(fe.Error())
	out.Fetched.FetchedMs = now.Add(-f.Took).UnixMilli()
	out.Fetched.DurationMs = session.Milliseconds(f.Took)
	m.report(now, out)
	if fe.HostWide() {
		var pause time.Duration
		if fe.Outcome.Retryable(fe.Status()) {
			pause = hostPause
		}
		m.close(now, h, pause, fe.Outcome.String())
	}
	return out
}

// untried handles an exchange that was not permitted, or ended because the lease or the worker did:
// the URL gets no outcome.
func (f Failed) untried(m *Machine, now time.Time, v *Visit) {
	h := v.host
	if lacks := v.lacks; lacks.IsValid() && errors.Is(f.Err, ErrNoPermit) {
		m.left(now, v)
		m.reached(h, lacks, 0) // it is known now
		if m.putBack(v.Lease, &v.Item) {
			m.keep(h.Host)
		} else {
			m.frontier.Free(h.Host)
		}
		return
	}
	m.asked(now, v, f.Took)
	switch {
	case h.Closing():
		h.Return(v.Item.Job.ID, v.Item.URL)
	case !h.Over(): // the permit was refused before the lease was checked
		m.counts.Lapsed++
		m.sessions.Revoke(now, h.Lease)
	}
}

// again is a request that was made for robots.txt, or that failed for a reason other than the URL,
// which waits again.
type again struct {
	took    time.Duration
	addr    netip.Addr    // that answered; invalid: not of this host
	connect time.Duration // to it
}

func (a again) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	m.asked(now, v, a.took)
	m.reached(v.host, a.addr, a.connect)
	m.putBack(v.Lease, &v.Item)
	return nil
}

// later is a visit without a request: its URL waits until then.
type later struct{ at time.Time }

func (l later) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	m.free(now, v)
	if m.putBack(v.Lease, &v.Item) {
		m.frontier.NotBefore(v.host.Host, l.at)
	}
	return nil
}

// silent gives a host back that requested a backoff, though its cached rules are still valid.
type silent struct{}

func (silent) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	m.free(now, v)
	if h := v.host; !h.Over() {
		h.Return(v.Item.Job.ID, v.Item.URL)
		m.close(now, h, v.origin.state.NotBefore.Sub(now), "the answer for robots.txt requests a backoff")
	}
	return nil
}

// closed is a URL whose robots.txt is unavailable: the rest of the window is given back, and the
// host deferred until robots.txt may be requested again.
type closed struct {
	took time.Duration // of the request for it; zero without one
}

func (c closed) end(m *Machine, now time.Time, v *Visit) *reports.Report {
	o := v.origin
	outcome := o.failure
	if outcome == link.OutcomeNone {
		outcome = link.OutcomeRobotsUnreachable
	}
	out := reports.New(v.Lease, &v.Item, outcome)
	out.Fetched.Detail = reports.Clip(o.detail)
	if outcome == link.OutcomeDNS {
		out.Fetched.Status = o.status
	}
	pause := max(o.state.Expires.Sub(now), 0)
	out.Fetched.RetryAfterMs = session.OwnerMilliseconds(pause)
	if c.took > 0 {
		m.asked(now, v, c.took)
	} else {
		m.free(now, v)
	}
	m.report(now, out)
	m.close(now, v.host, pause, outcome.String())
	return out
}
