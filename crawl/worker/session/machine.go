package session

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Config holds the knobs of a worker's sessions. worker.Config says what each means.
type Config struct {
	Incarnation uint64 // of the process

	MaxHosts, Capacity, Window int // leases held, URLs held, URLs of a host asked for ahead

	Horizon, TTL, ReportLinger, ReleaseLinger time.Duration // as in worker.Config

	ReportBatch, MaxReports int   // outcomes told at once, and kept for an owner that is silent
	MaxReportBytes          int64 // what outcomes take at most, with their links
}

// DefaultConfig is what a worker has if nothing else is said.
func DefaultConfig() Config {
	return Config{
		MaxHosts: 1024, Capacity: 16 * 256, Window: 256,
		Horizon: 4 * time.Second, TTL: 8 * time.Second, ReportLinger: 150 * time.Millisecond, ReleaseLinger: 250 * time.Millisecond,
		ReportBatch: 128, MaxReports: 4096, MaxReportBytes: 16 << 20,
	}
}

// Driver keeps the windows, makes the requests and carries the messages. Its methods are called
// within those of Machine, and must not call these.
type Driver interface {
	// Wake says that a session is due sooner than before, or may be over. One that was not heard of
	// is new.
	Wake(s *Session)

	Hunger
	// Backlog is the number of URLs in hand.
	Backlog() int
	// Left is the number of URLs in a host's window.
	Left(l *Lease) int
	// Owed is for how long a host is to be left alone from now on.
	Owed(now time.Time, l *Lease) time.Duration

	// Learn takes in what a grant says of a host beside its URLs; a host to be given back for that
	// is to be left alone for backoff.
	Learn(now time.Time, l *Lease, g *wire.Grant) (backoff time.Duration, reason string)
	// Take adds the URLs of a grant to the window; it returns how many there are.
	Take(l *Lease, g *wire.Grant) int
	// Drain empties the window of a host that is given back, and has Lease.Return take what was in
	// it. The host is to be left alone for backoff.
	Drain(now time.Time, l *Lease, backoff time.Duration)
	// Forget ends what is known of a host: its lease is over, or was never granted. No further
	// request of it begins. Returned is what was learnt of its robots.txt and is not known to be on
	// disk at the owner.
	Forget(l *Lease) (untold []*wire.Robots)

	// Acknowledged says that a report is on disk at the owner.
	Acknowledged(r *Report)
}

// Machine is the state of all sessions of a worker. Not safe for concurrent use.
type Machine struct {
	cfg    Config
	driver Driver
	leases map[string]*Lease
	kin    map[string]int // of them, by registrable domain
	owners map[string]*Session
	// appetite is how many URLs hosts ask for.
	appetite appetite
	// order has the sessions of owners, so that going over them is the same each time.
	order  []*Session
	seq    uint64
	ttl    time.Duration
	closed bool // nothing is taken on, and what is granted goes back

	acknowledged, dropped int64
}

// New returns a machine that holds nothing.
func New(cfg Config, driver Driver) *Machine {
	return &Machine{
		cfg: cfg, driver: driver, ttl: cfg.TTL, appetite: appetite{window: cfg.Window, horizon: cfg.Horizon, of: driver},
		leases: make(map[string]*Lease), kin: make(map[string]int), owners: make(map[string]*Session),
	}
}

// Accept says whether hosts and URLs are taken on, as they are at first.
func (m *Machine) Accept(open bool) { m.closed = !open }

// Lease is the lease on a host, or the wish for one; nil without either.
func (m *Machine) Lease(host string) *Lease { return m.leases[host] }

// Leases is the number of leases held, and of wishes for one.
func (m *Machine) Leases() int { return len(m.leases) }

// Sessions lists those under way. It is the machine's own, for reading.
func (m *Machine) Sessions() []*Session { return m.order }

// Acknowledged is the number of reports that owners have on disk.
func (m *Machine) Acknowledged() int64 { return m.acknowledged }

// Dropped is the number of reports forgotten since their owners did not take them.
func (m *Machine) Dropped() int64 { return m.dropped }

// Telling is the bytes of reports on their way to owners that answer.
func (m *Machine) Telling() (bytes int64) {
	for _, s := range m.order {
		if s.failures == 0 {
			bytes += s.bytes
		}
	}
	return bytes
}

// Unreported is the number of reports on their way.
func (m *Machine) Unreported() (n int) {
	for _, s := range m.order {
		n += len(s.reports) + len(s.sending)
	}
	return n
}

// Answering is the number of reports on their way to owners that answer.
func (m *Machine) Answering() (n int) {
	for _, s := range m.order {
		if s.failures == 0 {
			n += len(s.reports) + len(s.sending)
		}
	}
	return n
}

// session returns the session with an owner. What the owner granted in an earlier one is not lost:
// a host that went to another owner and came back may be held with it.
func (m *Machine) session(owner string) *Session {
	s := m.owners[owner]
	if s == nil {
		s = &Session{owner: owner, driver: m.driver, hosts: make(map[string]*Lease), ack: m.seq}
		m.owners[owner] = s
		m.order = append(m.order, s)
	}
	return s
}

// End forgets a session.
func (m *Machine) End(s *Session) {
	if m.owners[s.owner] == s {
		delete(m.owners, s.owner)
		m.order = slices.DeleteFunc(m.order, func(other *Session) bool { return other == s })
	}
}

// Hurry has what waits for company go on its way now.
func (m *Machine) Hurry(now time.Time) {
	for _, s := range m.order {
		if len(s.reports) > 0 {
			s.kick(now)
		}
	}
}

// Speak has all sessions speak now.
func (m *Machine) Speak(now time.Time) {
	for _, s := range m.order {
		s.kick(now)
	}
}

// sparedShare of the hosts that a worker may hold is kept from those of any one registrable domain,
// as a farm of hosts would leave no room for others.
const sparedShare = 4

// Offer asks for hosts to be taken from an owner. Those that there is room for are wished for in a
// session; the indexes of the others are returned.
func (m *Machine) Offer(now time.Time, owner string, hosts []string) (declined []int) {
	for i, host := range hosts {
		if !m.wish(now, owner, host) {
			declined = append(declined, i)
		}
	}
	return declined
}

// wish notes the wish for a host that was offered.
func (m *Machine) wish(now time.Time, owner, host string) bool {
	if l := m.leases[host]; l != nil {
		l.again = l.owner == owner && !l.closing
		return l.again
	}
	if m.closed || len(m.leases) >= m.cfg.MaxHosts || m.driver.Backlog() >= m.cfg.Capacity {
		return false
	}
	kin := domain.Of(host)
	if m.kin[kin] >= m.cfg.MaxHosts-m.cfg.MaxHosts/sparedShare {
		return false
	}
	m.kin[kin]++
	l := &Lease{Host: host, owner: owner}
	m.leases[host] = l
	s := m.session(owner)
	s.add(l)
	s.kick(now)
	return true
}

// forget ends a lease, or the wish for one. What was learnt under it is told nevertheless.
func (m *Machine) forget(now time.Time, l *Lease) { m.Learnt(now, l, m.end(l)) }

// Learnt has the owner of a lease that is over told of robots.txt: whoever has the host next would
// ask for it again. Beyond mostLearnt what was learnt first is forgotten.
func (m *Machine) Learnt(now time.Time, l *Lease, states []*wire.Robots) {
	if len(states) == 0 {
		return
	}
	s := m.session(l.owner)
	s.releases = append(s.releases, &release{l, &wire.HostWork{Host: l.Host, Epoch: l.epoch, Robots: states}})
	s.forgetLearnt(mostLearnt)
	s.kick(now)
}

// end ends a lease, or the wish for one, and returns what is to be told of it.
func (m *Machine) end(l *Lease) (untold []*wire.Robots) {
	l.end()
	if m.leases[l.Host] == l {
		delete(m.leases, l.Host)
		if kin := domain.Of(l.Host); m.kin[kin] > 1 {
			m.kin[kin]--
		} else {
			delete(m.kin, kin)
		}
	}
	untold = m.driver.Forget(l)
	if s := m.owners[l.owner]; s != nil && s.hosts[l.Host] == l {
		if s.remove(l); len(s.leases) == 0 {
			m.driver.Wake(s) // it may have nothing left to say
		}
	}
	return untold
}

// Revoke forgets a lease that has lapsed, or that its owner does not know of, and wishes for the
// host again if it was offered meanwhile. The exchange under way goes on for as long as the lease
// would have held: nobody else is at the host before that, and what is broken off is fetched twice.
func (m *Machine) Revoke(now time.Time, l *Lease) {
	m.forget(now, l)
	if l.again {
		m.wish(now, l.owner, l.Host)
	}
}

// Lapse revokes leases that have ended by the lease clock, and returns them. The next one ends at
// the time that is returned, if it is not renewed; zero if there is none.
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
		// Wishes go from the list at once: what moves into their place was met.
		for _, l := range slices.Backward(s.leases) {
			m.Close(now, l, 0, "")
		}
	}
}

// Close begins to give a host back: its URLs are not tried, and it is released once its pages are
// reported. It is to be left alone for backoff.
func (m *Machine) Close(now time.Time, l *Lease, backoff time.Duration, reason string) {
	if backoff > l.backoff {
		l.backoff, l.reason = backoff, reason
	}
	if l.closing || l.over {
		return
	}
	if l.epoch == nil {
		m.forget(now, l) // nothing is held; should a grant be under way, it is given back
		return
	}
	l.closing = true
	m.driver.Drain(now, l, backoff)
	m.Changed(now, l)
}

// Changed looks at a lease after what is done for its host is another, and has its session speak
// when there is reason to.
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
		s.kick(latest(now, l.askAgain))
	}
	l.dryAt = time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dry says that nothing is to be done for the host, here or on its way to the owner.
func (m *Machine) dry(l *Lease) bool { return !l.busy() && l.untold == 0 && m.driver.Left(l) == 0 }
