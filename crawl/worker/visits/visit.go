package visits

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Reasons for not making a request, or canceling it.
var (
	ErrLapsed  = errors.New("the lease has ended")
	ErrClosing = errors.New("the host is being given back")
)

// Visit is one URL of a host that is due. It belongs to its fetcher.
type Visit struct {
	Lease *session.Lease // of the host
	Item  reports.Item

	cfg      *Config // the machine's
	host     *host
	origin   *origin // of the URL
	question *Question
	rules    *robots.Rules   // of the origin; nil: they allow everything
	read     bool            // rules match the origin's state
	sitemaps *reports.Report // to be sent; may be nil
	pass     pass            // for its request; unused permits are returned at the end
	lacks    netip.Addr      // that was reached without a permit
	governed *governed       // nil without a governor
	cancel   context.CancelCauseFunc
}

// Step is the next action of a visit.
type Step int

// The steps.
const (
	End   Step = iota // the visit is over, with a Result
	Read              // parse the rules of robots.txt
	Ask               // request robots.txt
	Fetch             // request the URL
)

// Plan returns the next step of a visit, and its result if the step is End.
func (v *Visit) Plan(now time.Time) (Step, Result) {
	state := &v.origin.state
	switch {
	case v.Item.Kind == link.KindRobots: // robots.txt is always allowed
		return Fetch, nil
	case state.NotBefore.After(now) && state.Verdict == robots.Obey:
		return End, silent{}
	case state.Due(now):
		return Ask, nil
	case !v.read:
		return Read, nil
	case state.Verdict == robots.DisallowAll || state.Verdict == robots.Unknown:
		return End, closed{}
	}
	v.sitemaps = v.sitemapsOf()
	if state.Verdict == robots.Obey && !v.rules.Allowed(link.PathQuery(v.Item.URL)) {
		return End, Refused{Outcome: link.OutcomeRobotsDenied}
	}
	return Fetch, nil
}

// Reading calls read when a file of that length may be parsed, or returns an error.
type Reading func(length int, read func()) error

// Read parses the rules of robots.txt; Machine.Keep must follow.
func (v *Visit) Read(reading Reading) (err error) {
	var whole robots.State
	late := reading(v.origin.state.Length, func() {
		if whole, err = v.origin.whole(); err == nil {
			v.rules, v.read = whole.Rules(v.cfg.Agent), true
		}
	})
	if late != nil {
		return late
	}
	return err
}

// Keep caches the rules that were parsed for a visit, and applies their delay from the next request
// on.
func (m *Machine) Keep(v *Visit) {
	o := v.origin
	if !v.host.Over() {
		m.shelf.keep(o, v.rules)
	}
	if o.parsed {
		return
	}
	o.parsed = true
	d, ok := v.rules.CrawlDelay()
	if home := v.rules.Allowed("/"); o.state.Home != home || o.state.Delay != d {
		o.state.Home, o.state.Delay = home, d
		o.report()
	}
	if ok && m.has(v.host.Host) {
		m.frontier.CrawlDelay(v.host.Host, d)
	}
}

// sitemapsOf returns the report of the sitemaps in robots.txt to the job of a visit, once a lease;
// nil: nothing to report.
func (v *Visit) sitemapsOf() *reports.Report {
	o, ref := v.origin, v.Item.Job
	if v.rules == nil || slices.Contains(o.told, ref) {
		return nil
	}
	o.told = append(o.told, ref)
	if ref.Spec != nil && ref.Spec.NoSitemaps {
		return nil
	}
	var found []link.Link
	base, err := link.NewBase(o.name + "/robots.txt")
	if err != nil {
		return nil
	}
	for _, raw := range v.rules.Sitemaps() { // some are relative
		if url, err := base.AppendResolve(nil, []byte(raw)); err == nil {
			found = append(found, link.Link{URL: string(url), Kind: link.KindSitemap})
		}
	}
	if len(found) == 0 {
		return nil
	}
	r := reports.Of(v.Lease, &wire.Fetched{Job: ref.ID[:], Url: []byte(o.name + "/robots.txt"), Kind: uint32(link.KindRobots), AskedBy: []byte(v.Item.URL)})
	if n := reports.NewFollower(v.cfg.Known).AddLinks(r, ref, "", found); n == 0 {
		return nil
	}
	return r
}

// Begin begins the request of a visit, which cancel cancels, and sets its parameters; the error is
// why it must not be made.
func (m *Machine) Begin(now time.Time, v *Visit, req *fetch.Request, cancel context.CancelCauseFunc) error {
	h := v.host
	m.reportSitemaps(now, v)
	switch {
	case h.Over():
		return ErrLapsed
	case h.Closing():
		return ErrClosing
	}
	v.cancel = cancel
	if v.question == nil {
		req.HeadWithin = h.headWithin(&v.Item)
	}
	if v.governed != nil {
		req.Progress = &v.governed.progress
	}
	return nil
}

// reportSitemaps queues the sitemaps found by Plan.
func (m *Machine) reportSitemaps(now time.Time, v *Visit) {
	if v.sitemaps != nil {
		m.report(now, v.sitemaps)
		v.sitemaps = nil
	}
}

// Permit checks the lease right before a request is written, at a time of the lease clock. It takes
// no lock, as it is called for each page.
func (v *Visit) Permit(clock time.Duration) error {
	if !v.Lease.Holds(clock) {
		return ErrLapsed
	}
	return nil
}

// Spend consumes a permit for the address, and one for the domain. It must follow Permit.
func (v *Visit) Spend(now time.Time, addr netip.Addr) error {
	domain := v.host.domain
	if q := v.question; q != nil && q.Across {
		domain = v.cfg.domain(link.Host(q.URL))
	}
	for i, k := range keysOf(domain, addr) {
		if k == (permit.Key{}) || v.pass.use(now, i, k) {
			continue
		}
		if ok, _ := v.cfg.Permits.Take(now, k, v.host.Host); !ok {
			v.lacks = addr
			return ErrNoPermit
		}
	}
	return nil
}

// came records the cost of an exchange, for the governor.
func (v *Visit) came(resp *fetch.Response) {
	if v.governed != nil {
		v.governed.result = bandwidth.Result{Bytes: resp.WireBytes, Took: resp.Duration, Wait: resp.TTFB, Held: resp.Held}
	}
}

// Pause returns the backoff that a site requests with its answer.
func (v *Visit) Pause(status int, header http.Header, now time.Time) time.Duration {
	var pause time.Duration
	switch status {
	case http.StatusTooManyRequests:
		pause = deniedPause
	case http.StatusServiceUnavailable:
		pause = busyPause
	default:
		v.host.strikes = 0
		return 0
	}
	v.host.strikes++
	if asked := fetch.RetryAfter(header, now); asked > 0 {
		return asked
	}
	return min(pause<<min(v.host.strikes-1, 16), maxPause)
}

// interrupt cancels the request under way.
func (v *Visit) interrupt(why error) {
	if v.cancel != nil {
		v.cancel(why)
	}
}
