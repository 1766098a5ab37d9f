package session

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// MaxMessage bounds outcomes and robots states of one Session; what is beyond it waits for the
	// next one. A frame holds twice as much, and no outcome takes more than wire.PieceBytes and a
	// little.
	MaxMessage = 2 << 20
	// MaxTold bounds the links of one Session in the same way: its answer renews leases, and comes
	// when they are all taken in.
	MaxTold = 2 * wire.PieceLinks
	// retryFirst and retryMost bound the wait before an owner that did not answer, or was busy, is
	// spoken to again; it doubles in between.
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
	// firstWindow is the most URLs asked for of a host that nothing is known of yet.
	firstWindow = 64
	// mostLearnt bounds the states of robots.txt that are kept for an owner after the leases under
	// which they were learnt.
	mostLearnt = 8 << 20
	// perReport is what a message takes for a report beside what it says.
	perReport = 8
)

// Session is what is said to one owner.
type Session struct {
	owner    string
	driver   Driver
	hosts    map[string]*Lease // leases held from it, and wishes to be told
	leases   []*Lease          // the same, in an order
	reports  []*Report         // to be told, in their order
	sending  []*Report         // those under way
	bytes    int64             // of both
	releases []*release        // hosts given back, and what else was learnt, until that is acknowledged
	ack      uint64            // the last message that was answered; of a session without one, the last to anybody
	at       time.Time         // when to speak; zero: never
	hold     time.Time         // not before
	failures int
	renewed  time.Duration // when the last message was sent whose answer renewed its leases
	took     time.Duration // to acknowledge, on an average of the last few
}

// Report is an outcome on its way to its owner.
type Report struct {
	Lease   *Lease        // of the host it is about
	Fetched *wire.Fetched // the outcome as it is told
	// Piece says that it is some of the links of the report behind it, without an outcome: both are
	// told or forgotten.
	Piece bool
	// Note is the driver's, for when it meets the report again.
	Note any

	size int // in a message
}

// release gives a host back, or tells what was learnt under a lease that is gone.
type release struct {
	lease *Lease
	work  *wire.HostWork
}

// learnt says that it gives nothing back.
func (r *release) learnt() bool { return !r.work.GetRelease() }

// bytes is what its states of robots.txt take.
func (r *release) bytes() (n int) {
	for _, state := range r.work.GetRobots() {
		n += len(state.GetState())
	}
	return n
}

// Owner is the peer that is spoken to.
func (s *Session) Owner() string { return s.owner }

// Due is when to speak; zero if there is nothing to say yet.
func (s *Session) Due() time.Time { return s.at }

// Over says that there is nothing left to say to the owner.
func (s *Session) Over() bool {
	return len(s.leases) == 0 && len(s.reports) == 0 && len(s.releases) == 0
}

// Begin begins a message, and returns how many reports may be in it: those that come from now on
// have the session speak again.
func (s *Session) Begin() (ready int) {
	s.at = time.Time{}
	return len(s.reports)
}

// Ready is the number of reports that wait to be told, Bytes what these and those under way take in
// messages.
func (s *Session) Ready() int { return len(s.reports) }

// Bytes is what the reports that wait, or are under way, take in messages.
func (s *Session) Bytes() int64 { return s.bytes }

// Took is how long an acknowledgement takes, on an average of the last few; zero if there was none.
func (s *Session) Took() time.Duration { return s.took }

// Timed notes how long an acknowledgement took.
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

// remove takes a lease off the list; the last one takes its place.
func (s *Session) remove(l *Lease) {
	delete(s.hosts, l.Host)
	last := len(s.leases) - 1
	s.leases[l.place] = s.leases[last]
	s.leases[l.place].place = l.place
	s.leases[last] = nil
	s.leases = s.leases[:last]
}

// kick has the session speak at that time or earlier.
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

// Report puts reports on their way, in their order: with others, or after a while. It says whether
// so many wait that they leave at once.
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

// Turn is one message with what it speaks of.
type Turn struct {
	Message *wire.Session // to be sent as it is
	// Reports are those that it tells.
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

// Work is what the message says of a host.
func (t *Turn) Work(l *Lease) *wire.HostWork { return t.work(l.Host, l.epoch) }

// Grow counts bytes that were added to the message.
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

// Turn makes the message that was begun, with at most the first n reports. News, unless it is nil,
// adds what was learnt of a host to the message, by Turn.Work and Turn.Grow.
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
	for i := range s.leases { // each message begins with another one, as the answer to a large one may have no room for the last
		m.buildLease(now, t, s.leases[(uint64(i)+m.seq)%uint64(len(s.leases))], news) // an index
	}
	for _, l := range t.done {
		m.release(now, s, l)
	}
	s.tellReleases(t)
	for _, l := range s.leases {
		if l.epoch != nil && len(t.held) < wire.MaxHeld {
			t.held = append(t.held, l)
			t.Message.Held = append(t.Message.Held, &wire.HostLease{Host: l.Host, Epoch: l.epoch})
		}
	}
	return t
}

// buildReports puts outcomes into the message, each under the lease that is held now, if any: they
// are taken under any.
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
		work.Fetched = append(work.Fetched, r.Fetched)
		t.told[host]++
		t.bytes += r.size
		t.links += links
		t.Reports = append(t.Reports, r)
	}
	s.sending = t.Reports // s.bytes has both
	s.reports = slices.Clone(s.reports[len(t.Reports):])
}

// buildLease says what there is to say of a lease, or of a wish.
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

// done says whether a host is to be given back in a message that tells that many of its reports.
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
	work := &wire.HostWork{
		Host: l.Host, Epoch: l.epoch, Release: true, Returned: l.returned,
		OwedMs:    Wish(m.driver.Owed(now, l)),
		BackoffMs: Wish(l.backoff), BackoffReason: l.reason,
	}
	work.Robots = m.end(l) // if this message does not arrive, a later one tells them
	s.releases = append(s.releases, &release{l, work})
}

// tellReleases puts into the message which hosts are given back, and what was learnt of others.
func (s *Session) tellReleases(t *Turn) {
	for _, r := range s.releases {
		if t.full() {
			break
		}
		t.releases = append(t.releases, r)
		host := r.work.GetHost()
		work, here := t.works[host], s.hosts[host]
		switch {
		case r.learnt():
			of := r.work.GetEpoch()
			if here != nil {
				of = here.epoch
			}
			t.learn(t.work(host, of), r)
		case work != nil && here == nil:
			work.Epoch, work.Release, work.Returned = r.work.GetEpoch(), true, r.work.GetReturned()
			work.OwedMs, work.BackoffMs, work.BackoffReason = r.work.GetOwedMs(), r.work.GetBackoffMs(), r.work.GetBackoffReason()
			t.learn(work, r)
		default:
			t.Message.Hosts = append(t.Message.Hosts, r.work)
			t.Grow(r.bytes())
		}
	}
}

// learn adds to what is said of a host what was learnt of its robots.txt.
func (t *Turn) learn(work *wire.HostWork, r *release) {
	before := len(work.GetRobots())
	work.Robots = withStates(work.GetRobots(), r.work.GetRobots())
	for _, state := range work.GetRobots()[before:] {
		t.Grow(len(state.GetState()))
	}
}

// withStates adds states of origins that are not among them yet, as far as a message may have them.
func withStates(states, more []*wire.Robots) []*wire.Robots {
	for _, state := range more {
		if len(states) < wire.MaxOrigins && !slices.ContainsFunc(states, func(s *wire.Robots) bool { return s.GetOrigin() == state.GetOrigin() }) {
			states = append(states, state)
		}
	}
	return states
}

// recall adds to a grant what was learnt of the host under an earlier lease and its owner did not
// know when it granted.
func (s *Session) recall(g *wire.Grant) {
	for _, r := range s.releases {
		if r.learnt() && r.work.GetHost() == g.GetHost() {
			g.Robots = withStates(g.GetRobots(), r.work.GetRobots())
		}
	}
}

// forgetLearnt forgets the oldest of what was learnt beyond so many bytes.
func (s *Session) forgetLearnt(most int) {
	sum := 0
	for _, r := range s.releases {
		if r.learnt() {
			sum += r.bytes()
		}
	}
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		if sum <= most || !r.learnt() {
			return false
		}
		sum -= r.bytes()
		return true
	})
}

// Milliseconds is a duration as messages have it, rounded up.
func Milliseconds(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), 1<<31)) // bounded
}

// Wish is a time for which a site is to be left alone, in milliseconds as an owner counts them. It
// has one more than was asked: the owner's clock is cut to the millisecond, and nobody may come too
// early.
func Wish(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return Milliseconds(d + time.Millisecond)
}
