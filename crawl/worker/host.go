package worker

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Why a request is not made, or canceled.
var (
	errLapsed   = errors.New("the lease has ended")
	errStopping = errors.New("the worker is stopping")
)

// host is one lease, or the wish for one while its epoch is nil. Guarded by the worker's mutex, except for what says otherwise.
type host struct {
	name  string
	owner string
	epoch *wire.Epoch

	until  atomic.Int64 // lease clock: no request is written from then on; read by permits
	ended  atomic.Bool  // the lease is gone: dropped, or given back
	cancel context.CancelCauseFunc

	more     bool      // the owner has further URLs
	asked    bool      // a message that asks for URLs is under way
	askAgain time.Time // the owner has further URLs and grants none at present: not asked for before
	again    bool      // it was offered while held: the owner knows of an end that we have yet to hear of
	giveBack bool      // to be released when its window is done
	running  bool
	pass     pass  // of the visit under way
	window   int64 // bytes of its URLs that wait
	piped    int   // pages between the exchange and the report
	turns    int   // owners in a row that sent us on, or did not answer
	untold   int   // outcomes that the owner has not acknowledged
	dryAt    time.Time

	closing  bool // no further request; released when its pages are reported
	backoff  time.Duration
	reason   string
	returned []item

	origins map[string]*origin
	addrs   []netip.Addr
	// lentUntil is how long the addresses that the owner told are dialled: they have no TTL, so the resolver takes over soon.
	lentUntil time.Time
	fresh     bool // addrs are news to the owner

	governed   *governed // the visit, if a governor admitted it
	governedID uint64

	strikes int // answers in a row that asked for less
}

// item is one URL of a window.
type item struct {
	job      *jobRef
	url      string
	depth    uint32
	hops     uint8
	kind     link.Kind
	tries    uint8
	maxBytes int64
	serial   uint64 // grows with each URL granted: its age
}

// bound is how many bytes of its body are taken, zero for as many as the fetcher takes of any. A sitemap may be as large as its protocol allows.
func (it *item) bound() int64 {
	if it.maxBytes == 0 && it.kind == link.KindSitemap {
		return extract.MaxSitemap
	}
	return it.maxBytes
}

// origin is what is known of the robots.txt of one origin of a host. Only the visitor of the host touches it, but for news.
type origin struct {
	name    string
	state   robots.State // without its body
	length  int          // of the body, -1 if there is none
	encoded []byte       // the state with its body, as owners keep it; written by the visitor under the worker's mutex, and by it alone
	parsed  bool         // its rules were made, and their delay is kept
	next    string       // where a redirect of robots.txt leads
	hops    int
	leave   string    // the other origin that lets next be asked for
	told    []*jobRef // jobs that were told of its sitemaps
	untold  bool      // the state is to be reported; guarded by the worker's mutex
	newsSeq uint64
	failure link.Outcome // why robots.txt could not be had
	status  uint32       // of that, where it is a name's
	detail  string

	// Guarded by the shelf's mutex.
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

func newHost(owner, name string) *host {
	return &host{name: name, owner: owner, origins: make(map[string]*origin)}
}

// permit is asked right before a request is written.
func (h *host) permit(clock Clock) error {
	if h.ended.Load() || int64(clock.Now()) >= h.until.Load() {
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

// dry says that nothing is to be done for the host, here or on its way to the owner.
func (w *Worker) dry(h *host) bool {
	return !h.running && h.piped == 0 && h.untold == 0 && w.frontier.Len(h.name) == 0
}

// drop forgets a lease that has ended: no further request is written, and one under way is broken off. What was fetched is reported all the same.
func (w *Worker) drop(h *host, why error) {
	w.revoke(h)
	h.interrupt(why)
}

// revoke forgets a lease that its owner does not know of (any more). No further request is written, but an exchange that is under way may end, as long as the
// lease would have held: nobody else is at the host before that, and what is broken off is fetched twice.
func (w *Worker) revoke(h *host) {
	if h.running && h.cancel != nil {
		w.leaving[h] = struct{}{}
	}
	h.ended.Store(true)
	w.forget(h)
	if h.again {
		w.take(h.owner, h.name)
	}
}

// forget ends what is known of a host that is neither held nor offered any more, its queue with it.
func (w *Worker) forget(h *host) {
	awaited := false
	for _, o := range h.origins {
		awaited = w.shelf.forget(o) || awaited
	}
	if awaited {
		w.wakeAll()
	}
	if w.hosts[h.name] == h {
		delete(w.hosts, h.name)
		if kin := domain.Of(h.name); w.kin[kin] > 1 {
			w.kin[kin]--
		} else {
			delete(w.kin, kin)
		}
		w.frontier.Remove(h.name)
		w.weighWindow(h, -int(h.window))
	}
	if s := w.sessions[h.owner]; s != nil && s.hosts[h.name] == h {
		delete(s.hosts, h.name)
		if len(s.hosts) == 0 {
			poke(s.wake) // it may have nothing left to say
		}
	}
}

// has says whether a host is held or offered, under the lease that a visit began with or a later one: else the frontier has forgotten it for good.
func (w *Worker) has(name string) bool { return w.hosts[name] != nil }

// close begins to give a host back: its URLs are not tried; it is released once its pages are reported.
func (w *Worker) close(h *host, backoff time.Duration, reason string) {
	if backoff > h.backoff {
		h.backoff, h.reason = backoff, reason
	}
	if h.closing || h.ended.Load() {
		return
	}
	if h.epoch == nil {
		w.forget(h) // nothing is held; should a grant be under way, it is given back
		return
	}
	h.closing = true
	if backoff > 0 {
		w.frontier.NotBefore(h.name, time.Now().Add(backoff))
	}
	h.returned = append(h.returned, w.takeWindow(h)...)
	w.settle(h)
}

// takeWindow empties the window without forgetting the host, whose politeness is still to be told.
func (w *Worker) takeWindow(h *host) (rest []item) {
	for {
		it, ok := w.pop(h.name, h)
		if !ok {
			return rest
		}
		rest = append(rest, it)
	}
}

// settle looks at a host after something changed, and has its session speak when there is reason to.
func (w *Worker) settle(h *host) {
	s := w.sessions[h.owner]
	if s == nil || s.hosts[h.name] != h || h.epoch == nil {
		return
	}
	now := time.Now()
	left := w.frontier.Len(h.name)
	switch {
	case h.closing:
		if !h.running && h.piped == 0 {
			s.kick(now)
		}
	case left == 0 && !h.running && h.piped == 0 && h.untold > 0:
		s.kick(now) // nothing to do before the owner answers
	case w.dry(h):
		if h.dryAt.IsZero() {
			h.dryAt = now
		}
		if h.giveBack {
			s.kick(now)
		} else {
			s.kick(h.dryAt.Add(w.cfg.ReleaseLinger))
		}
		return
	case h.more && !h.giveBack && !h.asked && left <= w.low(h):
		s.kick(latest(now, h.askAgain))
	}
	h.dryAt = time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// target is the size of the window: what is fetched in Config.Horizon, at least a few.
func (w *Worker) target(h *host) int {
	const least = 8
	pace := w.frontier.Pace(h.name)
	if pace <= 0 {
		return w.cfg.Window
	}
	return int(min(max(w.cfg.Horizon/pace, least), time.Duration(w.cfg.Window)))
}

// watchLeases drops what has lapsed, and everything when it wakes up late: the process was stopped, and knows nothing of what happened.
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
		for _, h := range w.hosts {
			if h.epoch != nil && (late || int64(now) >= h.until.Load()) {
				w.stats.lapsed.Add(1)
				w.drop(h, errLapsed)
			}
		}
		for h := range w.leaving {
			if late || int64(now) >= h.until.Load() {
				h.interrupt(errLapsed)
			}
		}
		held := len(w.hosts)+len(w.leaving) > 0
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
