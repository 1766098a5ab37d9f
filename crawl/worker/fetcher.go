package worker

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

const (
	// lentFor is how long addresses that came with a grant are dialled.
	lentFor = time.Minute
	// hostPause is asked for a host that could not be reached.
	hostPause = 5 * time.Second
	// heldPause is the longest pause that a host is kept for; for a longer one it is given back.
	heldPause = 5 * time.Second
	// busyPause and deniedPause are the first pauses after a 503 and a 429 that name none; they
	// double with each in a row, up to maxPause.
	busyPause   = time.Second
	deniedPause = 5 * time.Second
	maxPause    = 10 * time.Minute
)

// fetchLoop is one fetcher: it visits whatever host is due.
func (w *Worker) fetchLoop(ctx context.Context) {
	v := visitor{w: w, wake: make(chan struct{}, 1)}
	for {
		h, it, o, ok := v.next(ctx)
		if !ok {
			return
		}
		v.visit(ctx, h, it, o)
	}
}

// visitor makes the visits of one fetcher.
type visitor struct {
	w    *Worker
	wake chan struct{}
}

// next waits for a host that is due and takes one URL of it, with its origin; false when the worker
// stops.
func (v *visitor) next(ctx context.Context) (h *host, it reports.Item, o *origin, ok bool) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopping && ctx.Err() == nil {
		now := time.Now()
		var name string
		var due time.Time
		if int(w.running.Load()) >= w.allowed {
			due = time.Time{} // who ends an exchange looks for the next one, and a change of allowed wakes all
		} else if w.inFlight() >= w.mostInFlight() || w.reportsFull() || w.rules.crowded() {
			w.hurry(now) // what is acknowledged then wakes us
		} else if w.pipe.Full() {
			due = time.Time{} // who gives memory back wakes us
		} else if name, due = w.chooser.pick(now); name != "" {
			h = w.hosts[name]
			if w.holds.hold(now, name, h) {
				w.chooser.ended(now, h)
				continue
			}
			it, ok = w.windows.pop(name, h)
			if h == nil || !ok {
				if h != nil {
					w.permits.giveBack(&h.held)
				}
				w.frontier.Free(name)
				if h != nil {
					w.chooser.ended(now, h)
				}
				continue
			}
			h.Running = true
			w.running.Add(1)
			w.wakeNext(now)
			return h, it, h.originOf(it.URL), true
		}
		w.idle.add(v.wake, now, due)
		w.mu.Unlock()
		select {
		case <-v.wake:
		case <-ctx.Done():
		}
		w.mu.Lock()
	}
	return nil, reports.Item{}, nil, false
}

// inFlight counts what is fetched or being fetched and not acknowledged. Outcomes for owners that
// do not answer are left out: they must not keep the hosts of the others waiting, and have a bound
// of their own. Under the worker's mutex.
func (w *Worker) inFlight() int {
	return int(w.running.Load()) + w.piped + w.sessions.Answering()
}

const (
	// ackUnit is the time of an acknowledgement for which Config.MaxInFlight is made: a peer that
	// is its own owner, alone, takes a hundredth of a second.
	ackUnit = 50 * time.Millisecond
	// mostUnits bounds what one owner adds to what may be in flight, in terms of
	// Config.MaxInFlight, and mostUnitsAll the sum.
	mostUnits    = 4
	mostUnitsAll = 16
)

// units is how many times Config.MaxInFlight an owner adds to what may be in flight: the longer it
// takes to acknowledge, the more comes in meanwhile.
func units(s *session.Session) float64 {
	return min(max(float64(s.Took())/float64(ackUnit), 1), mostUnits)
}

// mostInFlight bounds inFlight: the units of all owners spoken to, or twice the fetchers allowed if
// these are more than the Config has. Under the mutex.
func (w *Worker) mostInFlight() int {
	sum := 0.0
	for _, s := range w.sessions.Sessions() {
		sum += units(s)
	}
	most := int(min(max(sum, 1), mostUnitsAll) * float64(w.cfg.MaxInFlight))
	if w.allowed <= w.cfg.Fetchers {
		return most
	}
	return max(most, 2*w.allowed)
}

// hurry has what waits for company go on its way. Under the worker's mutex.
func (w *Worker) hurry(now time.Time) {
	w.pipe.Urge()
	w.sessions.Hurry(now)
}

// wakeNext wakes another fetcher if another host is due as well, and sets the alarm for the next.
func (w *Worker) wakeNext(now time.Time) {
	if !w.idle.none() {
		w.idle.wakeAt(now, w.frontier.Due())
	}
}

// visit does one URL of a host, or what must come before it.
func (v *visitor) visit(ctx context.Context, h *host, it reports.Item, o *origin) {
	w := v.w
	if w.deps.OptOuts != nil {
		if why := w.deps.OptOuts.URL(it.URL); why != "" {
			v.refused(h, it, link.OutcomeOptedOut, reports.Clip(why), nil)
			return
		}
	}
	if it.Kind == link.KindRobots {
		v.fetch(ctx, h, it) // robots.txt is always allowed
		return
	}
	now := time.Now()
	if o.state.NotBefore.After(now) && o.state.Verdict == robots.Obey {
		v.silent(h, it, o, now)
		return
	}
	if o.state.Due(now) {
		v.fetchRobots(ctx, h, it, o)
		return
	}
	rules, err := v.parse(ctx, h, o)
	if err != nil {
		v.untried(h, it, err, 0, now)
		return
	}
	sitemaps := v.sitemapsOf(h, o, rules, it.Job)
	switch {
	case o.state.Verdict == robots.DisallowAll || o.state.Verdict == robots.Unknown:
		v.closed(h, it, o, 0)
	case o.state.Verdict == robots.Obey && !rules.Allowed(link.PathQuery(it.URL)):
		v.refused(h, it, link.OutcomeRobotsDenied, "", sitemaps)
	default:
		v.tell(h, sitemaps)
		v.fetch(ctx, h, it)
	}
}

// refused gives a URL an outcome without a request.
func (v *visitor) refused(h *host, it reports.Item, outcome link.Outcome, detail string, with []*reports.Report) {
	w := v.w
	r := reports.New(h.Lease, &it, outcome)
	r.Fetched.Detail = reports.Clip(detail)
	w.mu.Lock()
	w.frontier.Free(h.Host)
	v.left(h)
	for _, r := range with {
		w.queue(r)
	}
	w.queue(r)
	w.changed(h.Lease)
	w.mu.Unlock()
	w.event(r, 0)
}

// tell queues reports beside a visit.
func (v *visitor) tell(h *host, reports []*reports.Report) {
	if len(reports) == 0 {
		return
	}
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	for _, r := range reports {
		v.w.queue(r)
	}
	v.w.changed(h.Lease)
}

// left notes the end of a visit.
func (v *visitor) left(h *host) {
	h.Running = false
	h.cancel = nil
	v.w.chooser.ended(time.Now(), h)
	v.w.permits.giveBack(&h.held)
	delete(v.w.leaving, h)
	v.w.running.Add(-1)
}

// get makes one exchange under the lease.
func (v *visitor) get(ctx context.Context, h *host, req *fetch.Request) (*fetch.Response, error) {
	w := v.w
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mu.Lock()
	switch {
	case h.Over():
		w.mu.Unlock()
		return nil, errLapsed
	case h.Closing():
		w.mu.Unlock()
		return nil, errStopping
	}
	h.cancel = cancel
	if time.Now().Before(h.lentUntil) && link.Host(req.URL) == h.Host {
		req.Addrs = h.addrs
	}
	g := h.governed // of this visit until its end
	w.mu.Unlock()
	var lacks netip.Addr
	req.Permit = func(addr netip.Addr) error {
		if err := h.permit(w.clock); err != nil {
			return err
		}
		if err := w.permits.use(&h.held, addr); err != nil {
			lacks = addr
			return err
		}
		return nil
	}
	w.stats.requests.Add(1)
	req.Once = true
	if g != nil {
		req.Progress = &g.progress
	}
	resp, err := w.deps.Fetch.Get(ctx, req)
	if g != nil && err == nil {
		g.result = bandwidth.Result{Bytes: resp.WireBytes, Took: resp.Duration, Wait: resp.TTFB, Held: resp.Held}
	}
	if err != nil && lacks.IsValid() {
		err = &withoutPermit{err, lacks}
	}
	return resp, err
}

// withoutPermit is an exchange that ended for want of a permit for that address.
type withoutPermit struct {
	error
	addr netip.Addr
}

// Unwrap returns what the exchange ended with.
func (e *withoutPermit) Unwrap() error { return e.error }

// fetch makes the exchange for a URL.
func (v *visitor) fetch(ctx context.Context, h *host, it reports.Item) {
	w := v.w
	begun := time.Now()
	room := w.pipe.Room()
	w.mu.Lock()
	within := h.headWithin(&it)
	w.mu.Unlock()
	resp, err := v.get(ctx, h, &fetch.Request{
		URL: it.URL, HeadWithin: within, MaxBytes: bound(&it), Room: room,
		Cut: it.MaxBytes == 0, // what is over the bound of a budget is not for the archive; what is over our own begins there
	})
	now := time.Now()
	if err != nil {
		room.Release()
		v.failed(h, it, err, begun, now)
		return
	}
	w.stats.wireBytes.Add(resp.WireBytes)
	pause := v.pauseAfter(h, resp, now)
	p := pages.New(h.Lease, &it, resp, room, now.Sub(begun), pause)
	w.mu.Lock()
	w.frontier.Done(now, h.Host, now.Sub(begun))
	v.left(h)
	h.answered(resp.TTFB)
	v.reached(h, resp.Addr.Addr())
	h.Piped++
	w.piped++
	if pause > 0 {
		v.rest(h, pause, resp.Status, now)
	}
	w.changed(h.Lease)
	w.mu.Unlock()
	w.pipe.Push(p)
}

// reached notes the address that answered.
func (v *visitor) reached(h *host, addr netip.Addr) {
	addr = addr.Unmap()
	if !addr.IsValid() || len(h.addrs) > 0 && h.addrs[0] == addr {
		return
	}
	h.addrs, h.fresh = []netip.Addr{addr}, true
	h.lentUntil = time.Time{}
	if v.w.has(h.Host) {
		v.w.frontier.SetAddr(h.Host, addr)
	}
}

// pauseAfter is how long the site asks to be left alone.
func (v *visitor) pauseAfter(h *host, resp *fetch.Response, now time.Time) time.Duration {
	var pause time.Duration
	switch resp.Status {
	case http.StatusTooManyRequests:
		pause = deniedPause
	case http.StatusServiceUnavailable:
		pause = busyPause
	default:
		h.strikes = 0
		return 0
	}
	h.strikes++
	if asked := fetch.RetryAfter(resp.Header, now); asked > 0 {
		return asked
	}
	return min(pause<<min(h.strikes-1, 16), maxPause)
}

// rest leaves a host alone for a while: kept if the while is short, given back with the reason if
// not.
func (v *visitor) rest(h *host, pause time.Duration, status int, now time.Time) {
	if pause <= heldPause {
		if v.w.has(h.Host) {
			v.w.frontier.NotBefore(h.Host, now.Add(pause))
		}
		return
	}
	v.w.close(h, pause, http.StatusText(status))
}

// failed deals with an exchange that came to no response.
func (v *visitor) failed(h *host, it reports.Item, err error, begun, now time.Time) {
	w := v.w
	if errors.Is(err, fetch.ErrStale) {
		v.again(h, it, now.Sub(begun), now, nil) // over a new connection, after the host's rest
		return
	}
	fe, known := errors.AsType[*fetch.Error](err)
	if !known {
		v.untried(h, it, err, now.Sub(begun), now)
		return
	}
	w.mu.Lock()
	if fe.Status() == link.Hung {
		w.frontier.Hung(now, h.Host, h.hung(now.Sub(begun)))
	} else {
		w.frontier.Done(now, h.Host, now.Sub(begun))
	}
	v.left(h)
	if fe.HostWide() && v.lent(h) {
		w.windows.unpop(h, &it) // once more, with addresses of our own
		w.changed(h.Lease)
		w.mu.Unlock()
		return
	}
	r := reports.New(h.Lease, &it, fe.Outcome)
	r.Fetched.Status = uint32(fe.Status()) // a handful
	r.Fetched.Detail = reports.Clip(fe.Error())
	r.Fetched.FetchedMs = begun.UnixMilli()
	r.Fetched.DurationMs = session.Milliseconds(now.Sub(begun))
	w.queue(r)
	if fe.HostWide() {
		var pause time.Duration
		if fe.Outcome.Retryable(fe.Status()) {
			pause = hostPause
		}
		w.close(h, pause, fe.Outcome.String())
	}
	w.changed(h.Lease)
	w.mu.Unlock()
	w.event(r, 0)
}

// lent says whether the addresses dialled were those that came with the grant, and has the resolver
// asked from now on.
func (v *visitor) lent(h *host) bool {
	if h.lentUntil.IsZero() || h.Closing() || h.Over() {
		return false
	}
	h.addrs, h.lentUntil = nil, time.Time{}
	return true
}

// untried deals with an exchange that was not permitted, or ended because the lease or the worker
// did: nothing is said of the URL.
func (v *visitor) untried(h *host, it reports.Item, err error, took time.Duration, now time.Time) {
	if lacks, ok := errors.AsType[*withoutPermit](err); ok && errors.Is(err, errNoPermit) {
		v.noPermit(h, it, lacks.addr, now)
		return
	}
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frontier.Done(now, h.Host, took)
	v.left(h)
	switch {
	case h.Closing():
		h.Return(it.Job.ID, it.URL)
	case !h.Over(): // the permit was refused before anybody looked at the lease
		w.stats.lapsed.Add(1)
		w.sessions.Revoke(now, h.Lease)
	}
	w.changed(h.Lease)
}
