package visits

import (
	"math"
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Config is the configuration of a machine.
type Config struct {
	Sessions session.Config
	// Politeness towards hosts, addresses and registrable domains. Its GroupDelay applies to all
	// workers together, through Permits.
	Politeness frontier.Config
	// Agent is the crawler's product token, matched by robots.txt and robots directives.
	Agent string

	Fetchers int // concurrent exchanges, until Allow changes it; zero: no limit
	// MaxInFlight bounds what a crash causes to be fetched again: exchanges under way, pages being
	// processed, and outcomes that a responsive owner has not acknowledged. At the bound all batches
	// are sent at once, so that the bound flushes batches and does not stall them. Zero: no limit.
	//
	// It applies to each owner that acknowledges within ackUnit. A slower one, because of replicas or
	// distance, gets up to mostUnits times as much, and all owners together mostUnitsAll times.
	MaxInFlight int
	MaxDepth    int // queue positions that a governor examines
	// MaxWindowBytes bounds the bytes of all windows. Beyond it a host requests one URL at a time,
	// when it has none left. Zero: no limit.
	MaxWindowBytes int64
	// NoCookies ignores the cookies that sites set. Without it, a host's cookies are sent back to it
	// until its lease ends.
	NoCookies bool

	Known     *reports.Known       // links that owners have on disk
	Permits   Permits              // nil: requests are not limited
	Estimates *bandwidth.Estimates // rates of servers; owned by the machine from then on
}

// Driver executes the actions of a machine at once. Its methods are called within those of Machine,
// and must not call these.
type Driver interface {
	// Wake reports that a session is due sooner, or may be over, as in session.Driver.
	Wake(s *session.Session)
	// Acknowledged reports that a report is on disk at the owner.
	Acknowledged(r *session.Report)
	// Job returns the job of a grant being processed.
	Job(id job.ID) *reports.Job
}

// Counts are counters since the machine was created.
type Counts struct {
	// Admitted is the number of visits that a governor admitted, Passed that of those admitted ahead
	// of a higher score, Known that of those at a server with estimates.
	Admitted, Passed, Known int64
	// Lapsed is the number of leases that expired without being given back.
	Lapsed int64
}

// Machine decides which requests a worker makes. Not safe for concurrent use.
type Machine struct {
	cfg      Config
	sessions *session.Machine
	frontier *frontier.Frontier[reports.Item]
	hosts    map[string]*host    // with a granted lease
	leaving  map[*Visit]struct{} // those under way whose lease was revoked
	windows  windows
	chooser  chooser
	held     map[string]struct{} // hosts whose visits stay open for lack of permits
	across   crossHosts
	shelf    shelf
	counts   Counts

	allowed int // concurrent exchanges
	running int // visits under way
	piped   int // pages between the exchange and the report
}

// New returns a machine without leases.
func New(cfg Config, driver Driver) *Machine {
	m := &Machine{
		cfg: cfg, frontier: frontier.New[reports.Item](cfg.Politeness), allowed: math.MaxInt,
		hosts: make(map[string]*host), leaving: make(map[*Visit]struct{}), held: make(map[string]struct{}),
	}
	m.windows = windows{frontier: m.frontier, most: cfg.MaxWindowBytes}
	m.chooser = chooser{m: m, visits: make(map[uint64]*governed)}
	m.shelf.idle, _ = simplelru.NewLRU[string, idleFile](math.MaxInt, nil) // bounded by its bytes
	m.across = crossHosts{m: m, until: make(map[string]time.Time)}
	m.sessions = session.New(cfg.Sessions, hands{m, driver})
	if cfg.Fetchers > 0 {
		m.Allow(cfg.Fetchers)
	}
	return m
}

// Sessions returns the machine of the sessions with owners.
func (m *Machine) Sessions() *session.Machine { return m.sessions }

// Allow limits the concurrent visits; with 0 none is begun. Visits under way continue. A share is
// for hosts that answer quickly: slow ones would take all otherwise.
func (m *Machine) Allow(visits int) {
	m.allowed = max(visits, 0)
	m.frontier.Fetchers(m.allowed)
}

// Allowed returns that limit.
func (m *Machine) Allowed() int { return m.allowed }

// Busy reports whether the limit of concurrent visits is reached.
func (m *Machine) Busy() bool { return m.running >= m.allowed }

// Next opens the next visit. Without one, due is when to call again; the zero time if only another
// event can change that.
func (m *Machine) Next(now time.Time) (v *Visit, due time.Time) {
	for !m.Busy() {
		name, by, due := m.chooser.pick(now)
		if name == "" {
			return nil, due
		}
		h := m.hosts[name]
		if at := m.across.busy(now, name); !at.IsZero() {
			m.frontier.Free(name)
			m.frontier.NotBefore(name, at)
			m.chooser.ended(now, by)
			continue
		}
		p, held := m.hold(now, h)
		if held {
			m.chooser.ended(now, by)
			continue
		}
		it, ok := m.windows.pop(name, h)
		if h == nil || !ok {
			m.giveBack(now, &p)
			m.frontier.Free(name)
			m.chooser.ended(now, by)
			continue
		}
		v := &h.turn
		*v = Visit{Lease: h.Lease, Item: it, cfg: &m.cfg, host: h, origin: h.originOf(it.URL), pass: p, governed: by}
		v.rules = m.shelf.get(v.origin)
		v.read = v.rules != nil || v.origin.packed == nil
		h.visit, h.Running = v, true
		m.running++
		return v, now
	}
	return nil, time.Time{}
}

// Frontier returns the frontier, for reading and for requests that are in no window.
func (m *Machine) Frontier() *frontier.Frontier[reports.Item] { return m.frontier }

// Lapse revokes leases that have expired by the lease clock, and cancels exchanges whose lease was
// revoked and has expired now. Next is when the next lease expires, if it is not renewed; zero if
// there is none.
func (m *Machine) Lapse(now time.Time, clock time.Duration) (next time.Duration) {
	lapsed, next := m.sessions.Lapse(now, clock)
	m.counts.Lapsed += int64(len(lapsed))
	for v := range m.leaving {
		if clock >= v.Lease.Until() {
			v.interrupt(ErrLapsed)
		}
	}
	return next
}

// Holds reports whether there are leases, lease requests, or exchanges under ended leases.
func (m *Machine) Holds() bool { return m.sessions.Leases()+len(m.leaving) > 0 }

// BreakOff cancels exchanges with hosts that are being given back, or are gone; their URLs are
// given back untried.
func (m *Machine) BreakOff() {
	for _, h := range m.hosts {
		if h.Closing() && h.visit != nil {
			h.visit.interrupt(ErrClosing)
		}
	}
	for v := range m.leaving {
		v.interrupt(ErrClosing)
	}
}

// Backlog is the number of URLs held.
func (m *Machine) Backlog() int { return m.frontier.Items() + m.running + m.piped }

// Counts returns the counters.
func (m *Machine) Counts() Counts { return m.counts }

// Load returns the number of hosts with a lease, of visits under way, and of pages between exchange
// and report.
func (m *Machine) Load() (hosts, running, piped int) { return len(m.hosts), m.running, m.piped }

// Weight returns the bytes of waiting URLs, of robots.txt files beyond the small ones, and of
// parsed rules.
func (m *Machine) Weight() (windows int64, states, rules int) {
	return m.windows.bytes, m.shelf.states, m.shelf.made
}

// Held is a host with a lease, its address if known, and the number of its waiting URLs.
type Held struct {
	Host, Owner string     // name of the host, and the peer that granted the lease
	Addr        netip.Addr // zero: unknown
	URLs        int        // in hand
}

// Held returns the leases in no particular order.
func (m *Machine) Held() (list []Held) {
	for _, h := range m.hosts {
		list = append(list, Held{Host: h.Host, Owner: h.Owner(), Addr: h.addr(), URLs: m.frontier.Len(h.Host)})
	}
	return list
}

// has reports whether a host is held or offered, under the lease that a visit began with or a later
// one; otherwise the frontier has dropped it for good.
func (m *Machine) has(name string) bool { return m.sessions.Lease(name) != nil }

// close begins to give a host back: its URLs are not tried; it is released once its pages are
// reported.
func (m *Machine) close(now time.Time, h *host, backoff time.Duration, reason string) {
	m.sessions.Close(now, h.Lease, backoff, reason)
}

// report queues a report, behind its pieces.
func (m *Machine) report(now time.Time, r *reports.Report) {
	for _, one := range r.Ahead {
		m.sessions.Report(now, &one.Report)
	}
	r.Ahead = nil
	m.sessions.Report(now, &r.Report)
}

// Processed ends the work on a page with its report.
func (m *Machine) Processed(now time.Time, r *reports.Report) {
	r.Lease.Piped--
	m.piped--
	m.report(now, r)
	m.sessions.Changed(now, r.Lease)
}

// putBack returns a URL to the front of its host's window, or gives it back untried with a host
// that is being given back; it reports whether the URL waits again.
func (m *Machine) putBack(l *session.Lease, it *reports.Item) bool {
	switch {
	case l.Closing():
		l.Return(it.Job.ID, it.URL)
	case !l.Over():
		m.windows.unpop(m.hosts[l.Host], it)
		return true
	}
	return false
}

const (
	// ackUnit is the acknowledgment time for which Config.MaxInFlight is chosen: a single peer that is
	// its own owner takes a hundredth of a second.
	ackUnit = 50 * time.Millisecond
	// mostUnits bounds what one owner adds to the limit in flight, as a multiple of
	// Config.MaxInFlight, and mostUnitsAll the sum.
	mostUnits    = 4
	mostUnitsAll = 16
)

// units returns how many times Config.MaxInFlight an owner adds to the limit in flight: the longer
// it takes to acknowledge, the more arrives meanwhile.
func units(s *session.Session) float64 {
	return min(max(float64(s.Took())/float64(ackUnit), 1), mostUnits)
}

// Laden reports whether so much is unacknowledged that acknowledgments must come first. Outcomes
// for unresponsive owners are not counted: they must not block the hosts of others, and have a
// separate bound. The bound is the units of all owners with a session, or twice the visits allowed
// if these are more than the Config has.
func (m *Machine) Laden() bool {
	if m.cfg.MaxInFlight == 0 {
		return false
	}
	sum := 0.0
	for _, s := range m.sessions.Sessions() {
		sum += units(s)
	}
	most := int(min(max(sum, 1), mostUnitsAll) * float64(m.cfg.MaxInFlight))
	if m.allowed > m.cfg.Fetchers {
		most = max(most, 2*m.allowed)
	}
	return m.running+m.piped+m.sessions.Answering() >= most
}
