package session

import (
	"math"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Config is the configuration of a worker's sessions. See worker.Config for the fields.
type Config struct {
	// Incarnation of this process: greater than that of any earlier one with the same peer ID, such
	// as its start in milliseconds.
	Incarnation uint64
	// MaxHosts bounds the leases held at once, Capacity the URLs. Offers beyond them are declined;
	// Capacity is reported to owners.
	MaxHosts, Capacity int
	// Window is the most URLs of a host requested ahead. A polite host has fewer: those fetched within
	// Horizon. A longer window means fewer messages, and more URLs that wait if this worker becomes
	// unavailable.
	Window  int
	Horizon time.Duration
	// TTL of a lease until an owner sets another. The worker stops at three quarters of it.
	TTL time.Duration
	// ReportLinger is how long an outcome waits for others before it is sent to the owner, unless
	// ReportBatch of them wait. Each report costs an fsync here and one at the owner; each delay
	// postpones the URLs that the page links to.
	ReportLinger time.Duration
	ReportBatch  int
	// ReleaseLinger is how long a host without work is retained, since links to it may be in transit.
	ReleaseLinger time.Duration
	// MaxReports and MaxReportBytes bound the outcomes retained for an unresponsive owner, with the
	// links of their pages; the oldest beyond them are dropped, and their URLs fetched again. Beyond
	// MaxReportBytes, fetching and processing also pause until owners have acknowledged some.
	MaxReports     int
	MaxReportBytes int64
}

// DefaultConfig returns the default configuration.
func DefaultConfig() Config {
	return Config{
		MaxHosts: 1024, Capacity: 16 * 256, Window: 256,
		Horizon: 4 * time.Second, TTL: 8 * time.Second, ReportLinger: 150 * time.Millisecond, ReleaseLinger: 250 * time.Millisecond,
		ReportBatch: 128, MaxReports: 4096, MaxReportBytes: 16 << 20,
	}
}

// Driver holds the windows, makes the requests and sends the messages. Its methods are called
// within those of Machine, and must not call these.
type Driver interface {
	// Wake reports that a session is due sooner than before, or may be over. A session that the driver
	// has not seen before is new.
	Wake(s *Session)

	Hunger
	// Backlog is the number of URLs held.
	Backlog() int
	// Left is the number of URLs in a host's window.
	Left(l *Lease) int
	// Owed returns the remaining backoff of a host.
	Owed(now time.Time, l *Lease) time.Duration

	// Learn processes what a grant contains about a host beside its URLs. If the host must be given
	// back because of it, backoff is its backoff.
	Learn(now time.Time, l *Lease, g *wire.Grant) (backoff time.Duration, reason string)
	// Take adds the URLs of a grant to the window; it returns how many there are.
	Take(l *Lease, g *wire.Grant) int
	// Drain empties the window of a host that is given back, and calls Lease.Return for its URLs. The
	// host is deferred for backoff.
	Drain(now time.Time, l *Lease, backoff time.Duration)
	// Forget drops the state of a host: its lease is over, or was never granted. No further request of
	// it begins.
	Forget(l *Lease)

	// Acknowledged reports that a report is on disk at the owner.
	Acknowledged(r *Report)
}

// Machine is the state of all sessions of a worker. Not safe for concurrent use.
type Machine struct {
	cfg       Config
	driver    Driver
	leases    map[string]*Lease
	perDomain map[string]int // number of leases by registrable domain
	owners    map[string]*Session
	// appetite determines how many URLs are requested for a host.
	appetite appetite
	// order lists the sessions in a fixed order, so that iteration is deterministic.
	order  []*Session
	seq    uint64
	ttl    time.Duration
	closed bool // no host is accepted, and grants are given back

	acknowledged, dropped int64
}

// New returns a machine without leases.
func New(cfg Config, driver Driver) *Machine {
	return &Machine{
		cfg: cfg, driver: driver, ttl: cfg.TTL, appetite: appetite{window: cfg.Window, horizon: cfg.Horizon, of: driver},
		leases: make(map[string]*Lease), perDomain: make(map[string]int), owners: make(map[string]*Session),
	}
}

// Accept sets whether hosts and URLs are accepted, as they are at first.
func (m *Machine) Accept(open bool) { m.closed = !open }

// Lease returns the lease on a host, or the request for one; nil without either.
func (m *Machine) Lease(host string) *Lease { return m.leases[host] }

// Leases is the number of leases held, and of requests for one.
func (m *Machine) Leases() int { return len(m.leases) }

// Sessions returns the open sessions. The slice is the machine's own and must not be modified.
func (m *Machine) Sessions() []*Session { return m.order }

// Acknowledged is the number of reports that owners have on disk.
func (m *Machine) Acknowledged() int64 { return m.acknowledged }

// Dropped is the number of reports dropped because their owners did not accept them.
func (m *Machine) Dropped() int64 { return m.dropped }

// UnackedBytes returns the bytes of reports in transit to responsive owners.
func (m *Machine) UnackedBytes() (bytes int64) {
	for _, s := range m.order {
		if s.failures == 0 {
			bytes += s.bytes
		}
	}
	return bytes
}

// Unreported returns the number of reports in transit.
func (m *Machine) Unreported() (n int) {
	for _, s := range m.order {
		n += len(s.reports) + len(s.sending)
	}
	return n
}

// Answering returns the number of reports in transit to responsive owners.
func (m *Machine) Answering() (n int) {
	for _, s := range m.order {
		if s.failures == 0 {
			n += len(s.reports) + len(s.sending)
		}
	}
	return n
}

// session returns the session with an owner. Leases from an earlier session with it are added: a
// host that went to another owner and came back may be held with it.
func (m *Machine) session(owner string) *Session {
	s := m.owners[owner]
	if s == nil {
		s = &Session{owner: owner, driver: m.driver, hosts: make(map[string]*Lease), ack: m.seq}
		m.owners[owner] = s
		m.order = append(m.order, s)
	}
	return s
}

// End removes a session.
func (m *Machine) End(s *Session) {
	if m.owners[s.owner] == s {
		delete(m.owners, s.owner)
		m.order = slices.DeleteFunc(m.order, func(other *Session) bool { return other == s })
	}
}

// Hurry flushes batches of reports now.
func (m *Machine) Hurry(now time.Time) {
	for _, s := range m.order {
		if len(s.reports) > 0 {
			s.kick(now)
		}
	}
}

// Speak makes all sessions due now.
func (m *Machine) Speak(now time.Time) {
	for _, s := range m.order {
		s.kick(now)
	}
}

// sparedShare of the hosts that a worker may hold is denied to any one registrable domain, so that
// a link farm does not exclude other hosts.
const sparedShare = 4

// Offer processes an owner's offer of hosts. It requests leases, in a session, on those that there
// is capacity for, and returns the indexes of the others.
func (m *Machine) Offer(now time.Time, owner string, hosts []string) (declined []int) {
	for i, host := range hosts {
		if !m.request(now, owner, host) {
			declined = append(declined, i)
		}
	}
	return declined
}

// request queues the lease request for a host that was offered.
func (m *Machine) request(now time.Time, owner, host string) bool {
	if l := m.leases[host]; l != nil {
		l.again = l.owner == owner && !l.closing
		return l.again
	}
	if m.closed || len(m.leases) >= m.cfg.MaxHosts || m.driver.Backlog() >= m.cfg.Capacity {
		return false
	}
	kin := domain.Of(host)
	if m.perDomain[kin] >= m.cfg.MaxHosts-m.cfg.MaxHosts/sparedShare {
		return false
	}
	m.perDomain[kin]++
	l := &Lease{Host: host, owner: owner}
	m.leases[host] = l
	s := m.session(owner)
	s.add(l)
	s.kick(now)
	return true
}

// forget ends a lease, or the request for one.
func (m *Machine) forget(l *Lease) {
	l.over = true
	l.holds.Store(math.MinInt64)
	if m.leases[l.Host] == l {
		delete(m.leases, l.Host)
		if kin := domain.Of(l.Host); m.perDomain[kin] > 1 {
			m.perDomain[kin]--
		} else {
			delete(m.perDomain, kin)
		}
	}
	m.driver.Forget(l)
	if s := m.owners[l.owner]; s != nil && s.hosts[l.Host] == l {
		if s.remove(l); len(s.leases) == 0 {
			m.driver.Wake(s) // nothing may be left to send
		}
	}
}

// Revoke drops a lease that has expired, or that its owner does not recognize, and requests the
// host again if it was offered meanwhile. The exchange under way continues for as long as the lease
// would have been valid: no other worker uses the host before, and a canceled exchange is fetched
// twice.
func (m *Machine) Revoke(now time.Time, l *Lease) {
	m.forget(l)
	if l.again {
		m.request(now, l.owner, l.Host)
	}
}

// Lapse revokes leases that have expired by the lease clock, and returns them. Next is when the
// next one expires, if it is not renewed; zero if there is none.
func (m *Machine) Lapse(now time.Time, clock time.Duration) (lapsed []*Lease, next time.Duration) {
	for _, s := range m.order {
		for _, l := range s.leases {
			switch {
			case l.epoch == nil:
			case clock >= l.until:
				lapsed = append(lapsed, l)
			case next == 0 || l.until < next:
				next = l.until
			}
		}
	}
	for _, l := range lapsed {
		m.Revoke(now, l)
	}
	return lapsed, next
}

// CloseAll begins to give all hosts back.
func (m *Machine) CloseAll(now time.Time) {
	for _, s := range m.order {
		// Lease requests leave the list at once: the lease that takes their place was visited.
		for _, l := range slices.Backward(s.leases) {
			m.Close(now, l, 0, "")
		}
	}
}

// Close begins to give a host back: its URLs are not tried, and it is released once its pages are
// reported. The host is deferred for backoff.
func (m *Machine) Close(now time.Time, l *Lease, backoff time.Duration, reason string) {
	if backoff > l.backoff {
		l.backoff, l.reason = backoff, reason
	}
	if l.closing || l.over {
		return
	}
	if l.epoch == nil {
		m.forget(l) // nothing is held; a grant in transit is given back
		return
	}
	l.closing = true
	m.driver.Drain(now, l, backoff)
	m.Changed(now, l)
}

// Changed examines a lease after the work on its host has changed, and makes its session due if
// necessary.
func (m *Machine) Changed(now time.Time, l *Lease) {
	s := m.owners[l.owner]
	if s == nil || s.hosts[l.Host] != l || l.epoch == nil {
		return
	}
	left := m.driver.Left(l)
	switch {
	case l.closing:
		if !l.busy() {
			s.kick(now)
		}
	case left == 0 && !l.busy() && l.untold > 0:
		s.kick(now) // nothing to do before the owner answers
	case m.dry(l):
		if l.dryAt.IsZero() {
			l.dryAt = now
		}
		if l.giveBack {
			s.kick(now)
		} else {
			s.kick(l.dryAt.Add(m.cfg.ReleaseLinger))
		}
		return
	case l.more && !l.giveBack && !l.asked && left <= m.appetite.low(l):
		s.kick(slices.MaxFunc([]time.Time{now, l.askAgain}, time.Time.Compare))
	}
	l.dryAt = time.Time{}
}

// dry reports whether the host has no work, here or in transit to the owner.
func (m *Machine) dry(l *Lease) bool { return !l.busy() && l.untold == 0 && m.driver.Left(l) == 0 }
