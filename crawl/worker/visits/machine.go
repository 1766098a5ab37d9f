package visits

import (
	"math"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Config holds the knobs of a machine. worker.Config says what each means.
type Config struct {
	Sessions   session.Config
	Politeness frontier.Config
	Agent      string

	Fetchers       int   // exchanges at once, until Allow says another number; zero: no bound
	MaxInFlight    int   // zero: no bound
	MaxDepth       int   // queue positions that a governor looks at
	MaxWindowBytes int64 // zero: no bound
	NoCookies      bool

	Known     *reports.Known       // links that owners have on disk
	Permits   Permits              // nil: there is no limit to requests
	Estimates *bandwidth.Estimates // of the rates of servers; the machine's from then on
}

// Driver is told by a machine what it wants done at once. Its methods are called within those of
// Machine, and must not call these.
type Driver interface {
	// Wake says that a session is due sooner, or may be over, as session.Driver has it.
	Wake(s *session.Session)
	// Acknowledged says that a report is on disk at the owner.
	Acknowledged(r *session.Report)
	// Job is the job of a grant that is being taken in.
	Job(id job.ID) *reports.Job
	// GoOn says that there is room again for what Crowded kept waiting.
	GoOn()
}

// Counts is what happened since the machine was made.
type Counts struct {
	// Admitted is the number of visits that a governor let begin, Passed that of those which passed
	// a higher score, Known that of those at a server with estimates.
	Admitted, Passed, Known int64
	// Lapsed is the number of leases that ended without being given back.
	Lapsed int64
}

// Machine decides what a worker does. Not safe for concurrent use.
type Machine struct {
	cfg      Config
	sessions *session.Machine
	frontier *frontier.Frontier[reports.Item]
	hosts    map[string]*host    // those granted
	leaving  map[*Visit]struct{} // those under way whose lease was revoked
	hung     hung                // what is remembered of hosts without a lease
	windows  windows
	chooser  chooser
	held     map[string]struct{} // hosts whose visits are kept open for want of permits
	across   crossHosts
	shelf    shelf
	counts   Counts

	allowed int // exchanges at once
	running int // visits under way
	piped   int // pages between the exchange and the report
}

// New returns a machine that holds nothing.
func New(cfg Config, driver Driver) *Machine {
	m := &Machine{
		cfg: cfg, frontier: frontier.New[reports.Item](cfg.Politeness), allowed: math.MaxInt,
		hosts: make(map[string]*host), leaving: make(map[*Visit]struct{}), hung: make(hung), held: make(map[string]struct{}),
	}
	m.windows = windows{frontier: m.frontier, most: cfg.MaxWindowBytes}
	m.chooser = chooser{m: m, visits: make(map[uint64]*governed)}
	m.shelf.learnt = aging.New[digest, struct{}](mostDigests, nil)
	m.across = crossHosts{m: m, until: make(map[string]time.Time)}
	m.sessions = session.New(cfg.Sessions, hands{m, driver})
	if cfg.Fetchers > 0 {
		m.Allow(cfg.Fetchers)
	}
	return m
}

// Sessions is what is said to the owners of hosts.
func (m *Machine) Sessions() *session.Machine { return m.sessions }

// Allow bounds the visits under way at once; with 0 none is begun. Those under way go on. Some are
// for hosts that answer soon: those that do not would have all, however many they are.
func (m *Machine) Allow(visits int) {
	m.allowed = max(visits, 0)
	m.frontier.Fetchers(m.allowed)
}

// Allowed is that bound.
func (m *Machine) Allowed() int { return m.allowed }

// Busy says that as many visits are under way as may be.
func (m *Machine) Busy() bool { return m.running >= m.allowed }

// Next opens the visit whose turn it is. Without one, due is when to ask again; the zero time if
// only another event can change that.
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
		v.read = v.rules != nil || v.origin.length < 0
		h.visit, h.Running = v, true
		m.running++
		return v, now
	}
	return nil, time.Time{}
}

// Frontier is what knows when hosts are due, for reading and for requests that are in no window.
func (m *Machine) Frontier() *frontier.Frontier[reports.Item] { return m.frontier }

// Lapse revokes leases that have ended by the lease clock, and breaks off exchanges that were under
// way when theirs ended earlier. The next one ends at the time that is returned, if it is not
// renewed; zero if there is none.
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

// Holds says that there are leases, wishes for one, or exchanges under those that are gone.
func (m *Machine) Holds() bool { return m.sessions.Leases()+len(m.leaving) > 0 }

// BreakOff breaks off exchanges with hosts that are being given back, or are gone; their URLs are
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

// Counts returns what happened.
func (m *Machine) Counts() Counts { return m.counts }

// Load says how many hosts have a lease, how many visits are under way, and how many pages are
// between exchange and report.
func (m *Machine) Load() (hosts, running, piped int) { return len(m.hosts), m.running, m.piped }

// Weight is the bytes of URLs that wait, of what is known of robots.txt beyond the small ones, and
// of the rules made of them.
func (m *Machine) Weight() (windows int64, states, rules int) {
	return m.windows.bytes, m.shelf.states, m.shelf.made
}

// Held is a host with a lease, the address under which it is reached if that is known, and the URLs
// of it that wait.
type Held struct {
	Host, Owner string     // name of the host, and the peer it was granted by
	Addr        netip.Addr // zero: not known
	URLs        int        // in hand
}

// Held lists the leases in no order.
func (m *Machine) Held() (list []Held) {
	for _, h := range m.hosts {
		list = append(list, Held{Host: h.Host, Owner: h.Owner(), Addr: h.addr(), URLs: m.frontier.Len(h.Host)})
	}
	return list
}

// has says whether a host is held or offered, under the lease that a visit began with or a later
// one: else the frontier has forgotten it for good.
func (m *Machine) has(name string) bool { return m.sessions.Lease(name) != nil }

// close begins to give a host back: its URLs are not tried; it is released once its pages are
// reported.
func (m *Machine) close(now time.Time, h *host, backoff time.Duration, reason string) {
	m.sessions.Close(now, h.Lease, backoff, reason)
}

// tell puts a report on its way, behind what goes ahead of it.
func (m *Machine) tell(now time.Time, r *reports.Report) {
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
	m.tell(now, r)
	m.sessions.Changed(now, r.Lease)
}

// Unprocessed ends the work on a page of which nothing is said: its URL waits again.
func (m *Machine) Unprocessed(now time.Time, l *session.Lease, it *reports.Item) {
	l.Piped--
	m.piped--
	m.putBack(l, it)
	m.sessions.Changed(now, l)
}

// putBack puts a URL back in front of its host's window, or gives it back untried with a host that
// is being given back; it says whether it waits again.
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

// Laden says that so much is fetched or being fetched and not acknowledged that acknowledgements
// are to come first. Outcomes for owners that do not answer are left out: they must not keep the
// hosts of the others waiting, and have a bound of their own. The bound is the units of all owners
// spoken to, or twice the visits allowed if these are more than the Config has.
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

// Crowded says that owners are to be told before another visit is opened: too much is in flight, or
// was learnt of robots.txt.
func (m *Machine) Crowded() bool { return m.shelf.full() || m.Laden() }
