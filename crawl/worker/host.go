package worker

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Why a request is not made, or canceled.
var (
	errLapsed   = errors.New("the lease has ended")
	errStopping = errors.New("the worker is stopping")
)

// maxLate is how late a tick may be. A process that was stopped for longer drops all it holds,
// rather than reason about what happened meanwhile.
const maxLate = time.Second

// host is a lease that was granted, with what is known of its host. Guarded by the worker's mutex.
type host struct {
	*session.Lease

	cancel context.CancelCauseFunc
	held   heldPermit // of the visit under way
	window int64      // bytes of its URLs that wait

	origins map[string]*origin
	addrs   []netip.Addr // replaced, never changed
	// lentUntil is how long the addresses that the owner told are dialled: they have no TTL, so the
	// resolver takes over soon.
	lentUntil time.Time
	fresh     bool // addrs are news to the owner

	governed   *governed // the visit, if a governor admitted it
	governedID uint64

	strikes int // answers in a row that asked for less
	hangs
}

// bound is how many bytes of the body of a URL are taken, zero for as many as the fetcher takes of
// any. A sitemap may be as large as its protocol allows.
func bound(it *reports.Item) int64 {
	if it.MaxBytes == 0 && it.Kind == link.KindSitemap {
		return extract.MaxSitemap
	}
	return it.MaxBytes
}

// origin is what is known of the robots.txt of one origin of a host. Only the visitor of the host
// touches it, but for news.
type origin struct {
	name    string
	state   robots.State // without its body
	length  int          // of the body, -1 if there is none
	encoded []byte       // the state with its body, as owners keep it; written by the visitor under the worker's mutex, and by it alone
	parsed  bool         // its rules were made, and their delay is kept
	next    string       // where a redirect of robots.txt leads
	hops    int
	leave   string         // the other origin that lets next be asked for
	told    []*reports.Job // jobs that were told of its sitemaps
	untold  bool           // the state is to be reported; guarded by the worker's mutex
	newsSeq uint64
	failure link.Outcome // why robots.txt could not be had
	status  uint32       // of that, where it is a name's
	detail  string

	// Guarded by the cache's mutex.
	counted int           // bytes of encoded there
	place   *list.Element // of the rules there, nil without any
	gone    bool          // its host was forgotten
}

// set has the state of an origin be this one, which lies encoded as well.
func (o *origin) set(s robots.State) {
	if o.length = len(s.Body); s.Body == nil {
		o.length = -1
	}
	s.Body = nil
	o.state, o.parsed, o.told = s, false, nil
}

// whole is the state with its body.
func (o *origin) whole() (s robots.State, err error) {
	if o.encoded == nil {
		return o.state, nil
	}
	err = s.UnmarshalBinary(o.encoded)
	return s, err
}

func newHost(l *session.Lease) *host { return &host{Lease: l, origins: make(map[string]*origin)} }

// originOf is what is known of the robots.txt of a URL's origin; nothing yet where it is met first.
// Only the visitor of a host adds to its origins, but sessions read them. Under the worker's mutex.
func (h *host) originOf(url string) *origin {
	name := link.Origin(url)
	o := h.origins[name]
	if o == nil {
		name = strings.Clone(name) // it is part of a URL
		o = &origin{name: name, length: -1}
		h.origins[name] = o
	}
	return o
}

// permit is asked right before a request is written. It takes no lock, as each page comes by.
func (h *host) permit(clock Clock) error {
	if !h.Holds(clock.Now()) {
		return errLapsed
	}
	return nil
}

// interrupt cancels the request under way.
func (h *host) interrupt(why error) {
	if h.cancel != nil {
		h.cancel(why)
	}
}

// putBack puts a URL back in front of its host's window, or gives it back untried with a host that
// is being given back. Under the mutex.
func (w *Worker) putBack(now time.Time, l *session.Lease, it *reports.Item) {
	switch {
	case l.Closing():
		l.Return(it.Job.ID, it.URL)
	case !l.Over():
		w.windows.unpop(w.hosts[l.Host], it)
		w.wakeNext(now)
	}
}

// has says whether a host is held or offered, under the lease that a visit began with or a later
// one: else the frontier has forgotten it for good.
func (w *Worker) has(name string) bool { return w.sessions.Lease(name) != nil }

// close begins to give a host back: its URLs are not tried; it is released once its pages are
// reported. Under the mutex.
func (w *Worker) close(h *host, backoff time.Duration, reason string) {
	w.sessions.Close(time.Now(), h.Lease, backoff, reason)
}

// changed has the session of a host look at it after something of it is another. Under the mutex.
func (w *Worker) changed(l *session.Lease) { w.sessions.Changed(time.Now(), l) }

// watchLeases drops what has lapsed, and everything when it wakes up late: the process was stopped,
// and knows nothing of what happened.
func (w *Worker) watchLeases(ctx context.Context) {
	period := min(250*time.Millisecond, w.cfg.TTL/16)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	last := w.clock.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := w.clock.Now()
		late := now-last > period+maxLate
		last = now
		w.mu.Lock()
		lapsed, _ := w.sessions.Lapse(time.Now(), now, late)
		w.stats.lapsed.Add(int64(len(lapsed)))
		for h := range w.leaving {
			if late || now >= h.Until() {
				h.interrupt(errLapsed)
			}
		}
		held := w.sessions.Leases()+len(w.leaving) > 0
		w.mu.Unlock()
		if held {
			continue
		}
		// Nothing is held: sleep until something is.
		ticker.Stop()
		select {
		case <-w.watch:
		case <-ctx.Done():
			return
		}
		last = w.clock.Now()
		ticker.Reset(period)
	}
}
