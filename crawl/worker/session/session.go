package session

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// MaxMessage bounds the bytes of outcomes and robots states of one Session; the rest waits for the
	// next one. A frame holds twice as much, and no outcome takes much more than wire.PieceBytes.
	MaxMessage = 2 << 20
	// MaxTold bounds the links of one Session, because its answer renews leases and is sent only when
	// all links are processed.
	MaxTold = 2 * wire.PieceLinks
	// retryFirst and retryMost bound the backoff for an owner that did not answer, or was busy; it
	// doubles in between.
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
	// firstWindow is the most URLs requested for a host without history.
	firstWindow = 64
	// perReport is the overhead of a report in a message, in bytes.
	perReport = 8
)

// Session is the state of the messages to one owner.
type Session struct {
	owner    string
	driver   Driver
	hosts    map[string]*Lease // leases held from it, and requests to be sent
	leases   []*Lease          // the same, in an order
	reports  []*Report         // to be sent, in this order
	sending  []*Report         // those under way
	bytes    int64             // of both
	releases []*release        // hosts given back, until acknowledged
	ack      uint64            // last message answered; of a new session, the last to any owner
	at       time.Time         // when to send; zero: never
	hold     time.Time         // not before
	failures int
	renewed  time.Duration // when the last message was sent whose answer renewed its leases
	took     time.Duration // moving average of the time to acknowledge
}

// Report is an outcome in transit to its owner.
type Report struct {
	Lease   *Lease        // of its host
	Fetched *wire.Fetched // the outcome as it is sent
	// Piece reports whether it contains some of the links of the report behind it, without an outcome:
	// both are sent or dropped.
	Piece bool
	// Note is for use by the driver.
	Note any

	size int // in a message
}

// release gives a host back.
type release struct {
	lease *Lease
	work  *wire.HostWork
}

// Owner returns the peer at the other end of the session.
func (s *Session) Owner() string { return s.owner }

// Due returns when to send the next message; zero if there is nothing to send yet.
func (s *Session) Due() time.Time { return s.at }

// Over reports whether nothing is left to send to the owner.
func (s *Session) Over() bool {
	return len(s.leases) == 0 && len(s.reports) == 0 && len(s.releases) == 0
}

// Begin begins a message, and returns how many reports it may contain: later ones make the session
// due again.
func (s *Session) Begin() (ready int) {
	s.at = time.Time{}
	return len(s.reports)
}

// Ready is the number of reports that wait to be sent, Bytes the size of these and of those under
// way in messages.
func (s *Session) Ready() int { return len(s.reports) }

// Bytes is the size of the reports waiting and under way, in messages.
func (s *Session) Bytes() int64 { return s.bytes }

// Took returns a moving average of the time to acknowledge; zero if there was no acknowledgment.
func (s *Session) Took() time.Duration { return s.took }

// Timed records how long an acknowledgment took.
func (s *Session) Timed(took time.Duration) {
	if s.took == 0 {
		s.took = took
	}
	s.took += (took - s.took) / 8
}

func (s *Session) add(l *Lease) {
	s.hosts[l.Host] = l
	l.place = len(s.leases)
	s.leases = append(s.leases, l)
}

// remove removes a lease from the list; the last one takes its place.
func (s *Session) remove(l *Lease) {
	delete(s.hosts, l.Host)
	last := len(s.leases) - 1
	s.leases[l.place] = s.leases[last]
	s.leases[l.place].place = l.place
	s.leases[last] = nil
	s.leases = s.leases[:last]
}

// kick makes the session due at that time or earlier.
func (s *Session) kick(at time.Time) {
	if at.Before(s.hold) {
		at = s.hold
	}
	if !s.at.IsZero() && !at.Before(s.at) {
		return
	}
	s.at = at
	s.driver.Wake(s)
}

// Report queues reports in their order. They are sent with others, or after a delay. It reports
// whether the batch is full and leaves at once.
func (m *Machine) Report(now time.Time, r *Report) (full bool) {
	s := m.session(r.Lease.owner)
	r.size = proto.Size(r.Fetched) + perReport
	r.Lease.untold++
	s.reports = append(s.reports, r)
	s.bytes += int64(r.size)
	if full = len(s.reports) >= m.cfg.ReportBatch; full {
		s.kick(now)
	} else {
		s.kick(now.Add(m.cfg.ReportLinger))
	}
	return full
}

// Turn is one message with the objects that it refers to.
type Turn struct {
	Message *wire.Session // to be sent as it is
	// Reports are those in the message.
	Reports []*Report

	at       time.Time
	held     []*Lease
	offered  []*Lease
	told     map[string]int // reports of a host in it
	releases []*release
	done     []*Lease
	bytes    int
	links    int
	works    map[string]*wire.HostWork
}

// Work returns the entry of a host in the message.
func (t *Turn) Work(l *Lease) *wire.HostWork { return t.work(l.Host, l.epoch) }

// Grow adds bytes that were appended to the message.
func (t *Turn) Grow(bytes int) { t.bytes += bytes }

func (t *Turn) work(host string, epoch *wire.Epoch) *wire.HostWork {
	work := t.works[host]
	if work == nil {
		work = &wire.HostWork{Host: host, Epoch: epoch}
		t.works[host] = work
		t.Message.Hosts = append(t.Message.Hosts, work)
	}
	return work
}

func (t *Turn) full() bool {
	return len(t.Message.GetHosts()) >= wire.MaxHosts-1 || t.bytes >= MaxMessage
}

// Turn builds the message that was begun, with at most the first n reports. News, unless it is nil,
// adds what was learned about a host to the message, by Turn.Work and Turn.Grow.
func (m *Machine) Turn(now time.Time, s *Session, n int, news func(t *Turn, l *Lease)) *Turn {
	m.seq++
	t := &Turn{
		at: now,
		Message: &wire.Session{
			Incarnation: m.cfg.Incarnation, Seq: m.seq, Ack: s.ack,
			Capacity: uint32(m.cfg.Capacity), Backlog: uint32(max(m.driver.Backlog(), 0)), // some thousands
		},
		told: make(map[string]int), works: make(map[string]*wire.HostWork),
	}
	m.buildReports(now, s, t, n)
	for i := range s.leases { // messages begin at different leases, as a large answer may exclude the last
		m.buildLease(now, t, s.leases[(uint64(i)+m.seq)%uint64(len(s.leases))], news) // an index
	}
	for _, l := range t.done {
		m.release(now, s, l)
	}
	s.addReleases(t)
	for _, l := range s.leases {
		if l.epoch != nil && len(t.held) < wire.MaxHeld {
			t.held = append(t.held, l)
			t.Message.Held = append(t.Message.Held, &wire.HostLease{Host: l.Host, Epoch: l.epoch})
		}
	}
	return t
}

// buildReports adds outcomes to the message, each under the lease that is held now, if any: the
// certificate of any lease of the host admits them.
func (m *Machine) buildReports(now time.Time, s *Session, t *Turn, n int) {
	for _, r := range s.reports[:n] {
		host := r.Lease.Host
		epoch := r.Lease.epoch
		if l := s.hosts[host]; l != nil {
			epoch = l.epoch
		}
		links := len(r.Fetched.GetLinks())
		if t.full() || t.bytes > 0 && t.bytes+r.size > MaxMessage || t.links > 0 && t.links+links > MaxTold || len(t.works[host].GetFetched()) == wire.MaxFetched {
			s.kick(now)
			break
		}
		work := t.work(host, epoch)
		work.Certificate = r.Lease.certificate
		work.Fetched = append(work.Fetched, r.Fetched)
		t.told[host]++
		t.bytes += r.size
		t.links += links
		t.Reports = append(t.Reports, r)
	}
	s.sending = t.Reports // s.bytes has both
	s.reports = slices.Clone(s.reports[len(t.Reports):])
}

// buildLease adds the entry of a lease, or of a lease request.
func (m *Machine) buildLease(now time.Time, t *Turn, l *Lease, news func(*Turn, *Lease)) {
	if t.full() {
		return
	}
	if l.epoch == nil {
		t.work(l.Host, nil).Want = uint32(min(m.appetite.ask(l, 0), firstWindow)) // at most Window
		l.asked = true
		t.offered = append(t.offered, l)
		return
	}
	if news != nil {
		news(t, l)
	}
	if m.done(now, l, t.told[l.Host]) {
		t.done = append(t.done, l)
		return
	}
	if l.closing || l.giveBack {
		return
	}
	if left := m.driver.Left(l); left <= m.appetite.low(l) {
		t.work(l.Host, l.epoch).Want = uint32(max(m.appetite.ask(l, left), 0)) // at most Window
		l.asked = true
	}
}

// done reports whether a host is to be given back in a message with that many of its reports.
func (m *Machine) done(now time.Time, l *Lease, told int) bool {
	switch {
	case l.busy() || l.untold > told:
		return false
	case l.closing:
		return true
	default:
		return m.dry(l) && (l.giveBack || !l.dryAt.IsZero() && now.Sub(l.dryAt) >= m.cfg.ReleaseLinger)
	}
}

// release gives a host back.
func (m *Machine) release(now time.Time, s *Session, l *Lease) {
	s.releases = append(s.releases, &release{l, &wire.HostWork{
		Host: l.Host, Epoch: l.epoch, Release: true, Returned: l.returned,
		OwedMs:    OwnerMilliseconds(m.driver.Owed(now, l)),
		BackoffMs: OwnerMilliseconds(l.backoff), BackoffReason: l.reason,
	}})
	m.forget(l)
}

// addReleases adds the hosts that are given back.
func (s *Session) addReleases(t *Turn) {
	for _, r := range s.releases {
		if t.full() {
			break
		}
		t.releases = append(t.releases, r)
		host := r.work.GetHost()
		if work := t.works[host]; work != nil && s.hosts[host] == nil {
			work.Epoch, work.Release, work.Returned = r.work.GetEpoch(), true, r.work.GetReturned()
			work.OwedMs, work.BackoffMs, work.BackoffReason = r.work.GetOwedMs(), r.work.GetBackoffMs(), r.work.GetBackoffReason()
		} else {
			t.Message.Hosts = append(t.Message.Hosts, r.work)
		}
	}
}

// Milliseconds returns a duration as messages encode it, rounded up.
func Milliseconds(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), 1<<31)) // bounded
}

// OwnerMilliseconds returns a backoff in milliseconds as an owner counts it. It adds one: the
// owner's clock is truncated to the millisecond, and no request may come too early.
func OwnerMilliseconds(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return Milliseconds(d + time.Millisecond)
}
