package worker

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// largeFile is the size from which robots.txt files are parsed one at a time: one takes a processor
// for some ten milliseconds, and megabytes of memory.
const largeFile = 16 << 10

// fetcher makes visits, one after another.
type fetcher struct {
	w    *Worker
	wake chan struct{}
}

// next waits for a visit that is due. It returns nil when the worker stops.
func (f *fetcher) next(ctx context.Context) (v *visits.Visit) {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopping && ctx.Err() == nil {
		now := time.Now()
		var due time.Time
		switch {
		case w.visits.Busy(): // the end of an exchange, or a change of the bound, wakes fetchers
		case w.reportsFull() || w.visits.Laden():
			w.hurry(now) // acknowledgments wake this fetcher
		case w.pipe.Full(): // released memory wakes this fetcher
		default:
			if v, due = w.visits.Next(now); v != nil {
				w.wakeNext(now)
				return v
			}
		}
		w.idle.add(f.wake, now, due)
		w.mu.Unlock()
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
		w.mu.Lock()
	}
	return nil
}

// hurry flushes all batches. The caller holds the mutex.
func (w *Worker) hurry(now time.Time) {
	w.pipe.Urge()
	w.sessions.Hurry(now)
}

// wakeNext wakes another fetcher if another host is due, and sets the alarm for the next one.
func (w *Worker) wakeNext(now time.Time) {
	if !w.idle.none() {
		w.idle.wakeAt(now, w.visits.Frontier().Due())
	}
}

// visit processes one URL of a host, or a request that must precede it.
func (f *fetcher) visit(ctx context.Context, v *visits.Visit) {
	if why := f.w.optedOut(v.Item.URL); why != "" {
		f.ended(v, visits.Refused{Outcome: link.OutcomeOptedOut, Detail: why})
		return
	}
	step, result := v.Plan(time.Now())
	if step == visits.Read {
		if err := v.Read(f.reading(ctx)); err != nil {
			f.ended(v, visits.Failed{Err: err})
			return
		}
		f.w.mu.Lock()
		f.w.visits.Keep(v)
		f.w.mu.Unlock()
		step, result = v.Plan(time.Now())
	}
	switch step {
	case visits.Ask:
		f.ask(ctx, v)
	case visits.Fetch:
		f.fetch(ctx, v)
	default:
		f.ended(v, result)
	}
}

// optedOut returns why a URL must not be fetched, or "" if it may be.
func (w *Worker) optedOut(url string) (why string) {
	if w.deps.OptOuts != nil {
		why = w.deps.OptOuts.URL(url)
	}
	return why
}

// reading limits the parsing of large files to one at a time, until ctx ends.
func (f *fetcher) reading(ctx context.Context) visits.Reading {
	return func(length int, read func()) error {
		if length >= largeFile {
			select {
			case f.w.slot <- struct{}{}:
				defer func() { <-f.w.slot }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		read()
		return nil
	}
}

// ended ends a visit.
func (f *fetcher) ended(v *visits.Visit, result visits.Result) {
	w := f.w
	w.mu.Lock()
	now := time.Now()
	r := w.visits.Ended(now, v, result)
	w.reportQueued(now)
	w.wakeNext(now)
	w.mu.Unlock()
	if w.permits != nil {
		poke(w.permits.wake) // its host may be held
	}
	if r != nil {
		w.event(r, 0)
	}
}

// get performs the exchange of a visit.
func (f *fetcher) get(ctx context.Context, v *visits.Visit, req *fetch.Request) (*fetch.Response, error) {
	w := f.w
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mu.Lock()
	err := w.visits.Begin(time.Now(), v, req, cancel)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	req.Permit = func(addr netip.Addr) error {
		if err := v.Permit(w.clock.Now()); err != nil || w.permits == nil {
			return err
		}
		return v.Spend(time.Now(), addr)
	}
	if cookie := v.CookieField(req.URL); cookie != "" && link.Host(req.URL) == v.Lease.Host {
		if req.Header == nil {
			req.Header = make(http.Header, 1)
		}
		req.Header.Set("Cookie", cookie)
	}
	w.stats.requests.Add(1)
	req.Once = true
	resp, err := w.deps.Fetch.Get(ctx, req)
	if err == nil {
		w.stats.wireBytes.Add(resp.WireBytes)
	}
	return resp, err
}

// fetch performs the exchange for a URL and passes on its result.
func (f *fetcher) fetch(ctx context.Context, v *visits.Visit) {
	w := f.w
	begun := time.Now()
	room := w.pipe.BodyMemory()
	req := &fetch.Request{
		URL: v.Item.URL, MaxBytes: v.Item.MaxBytes, Room: room, Header: v.Item.Conditions(),
		Cut: v.Item.MaxBytes == 0, // a body over a job's budget is not archived; one over the fetcher's limit is cut
	}
	if req.MaxBytes == 0 && v.Item.Kind == link.KindSitemap {
		req.MaxBytes = extract.MaxSitemap // as large as its protocol allows
	}
	resp, err := f.get(ctx, v, req)
	now := time.Now()
	took := now.Sub(begun)
	if err != nil {
		room.Release()
		f.ended(v, visits.Failed{Err: err, Took: took})
		return
	}
	if v.StoreCookies(req.URL, resp) {
		if again := v.Again(resp, took); again != nil {
			resp.Release()
			room.Release()
			f.ended(v, again)
			return
		}
	}
	pause := v.Pause(resp.Status, resp.Header, now)
	p := pages.New(v.Lease, &v.Item, resp, room, took, pause)
	w.mu.Lock()
	w.visits.Fetched(now, v, resp, took, pause)
	w.mu.Unlock()
	w.pipe.Push(p)
}

// ask sends one request for the robots.txt that a visit needs.
func (f *fetcher) ask(ctx context.Context, v *visits.Visit) {
	q := v.Question()
	if q.Across && !f.depart(ctx, v, q) {
		return
	}
	begun := time.Now()
	room := f.w.pipe.BodyMemory()
	defer room.Release()
	resp, err := f.get(ctx, v, &fetch.Request{URL: q.URL, MaxBytes: robots.MaxBody + 1, Cut: true, Accept: "text/plain,*/*;q=0.1", Room: room})
	if err == nil {
		defer resp.Release()
		if !q.Across {
			v.StoreCookies(q.URL, resp)
		}
	}
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.Answered != nil && fe.Answered.Status >= 300 {
		resp, err = fe.Answered, nil // the status is enough (RFC 9309, 2.3.1)
	}
	now := time.Now()
	took := now.Sub(begun)
	if err != nil {
		f.ended(v, v.Unasked(now, visits.Failed{Err: err, Took: took}))
		return
	}
	f.ended(v, v.Learn(now, resp, took, f.reading(ctx)))
}

// depart begins a request to another host. The visit ends if it is not allowed, or not yet.
func (f *fetcher) depart(ctx context.Context, v *visits.Visit, q *visits.Question) bool {
	w := f.w
	now := time.Now()
	if why := w.optedOut(q.URL); why != "" {
		f.ended(v, v.Barred(now, why, 0))
		return false
	}
	w.mu.Lock()
	owed, again := w.visits.Depart(now, v)
	w.mu.Unlock()
	if !again.IsZero() {
		f.ended(v, v.Defer(now, again))
		return false
	}
	select {
	case <-time.After(owed):
	case <-ctx.Done(): // and the request ends before it begins
	}
	return true
}
