package session

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// hungry is how long an owner that has URLs and grants none, as while a budget is drawn, is not
// asked only for that.
const hungry = 200 * time.Millisecond

// Answered takes in what an owner said to a message that was sent at that time of the lease clock.
// Routes are the peers believed to own the hosts that have moved, empty where none is.
func (m *Machine) Answered(now time.Time, s *Session, t *Turn, reply *wire.SessionReply, sent time.Duration, routes map[string]string) {
	s.ack, s.sending = t.Message.GetSeq(), nil
	if len(reply.GetRefused()) == 0 {
		s.failures = 0
	}
	if ms := reply.GetTtlMs(); ms > 0 {
		m.ttl = time.Duration(ms) * time.Millisecond
	}
	until := m.Renewed(s, t.held, reply, sent)
	for _, l := range t.held {
		l.asked = false
	}
	for _, g := range reply.GetGrants() {
		s.recall(g)
	}
	m.acknowledge(now, s, t, reply)
	for _, host := range reply.GetRevoked() {
		if l := s.hosts[host]; l != nil && (slices.Contains(t.held, l) || slices.Contains(t.offered, l)) {
			m.Revoke(now, l)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(routes)) {
		m.Reroute(now, s, host, routes[host])
	}
	for _, g := range reply.GetGrants() {
		m.granted(now, s, g, until)
	}
	for _, l := range t.offered {
		if l.epoch == nil && s.hosts[l.Host] == l {
			m.forget(now, l) // the owner thought otherwise
		}
	}
	for _, l := range s.leases {
		m.Changed(now, l)
	}
	if len(s.leases) > 0 {
		s.kick(t.at.Add(m.ttl / renewShare))
	}
}

// Renewal is a message that renews the leases of a session and does nothing else, at a time of the
// lease clock. Nil: none is due, as an answer has renewed them not long ago.
func (m *Machine) Renewal(s *Session, clock time.Duration) (message *wire.Session, held []*Lease) {
	if clock-s.renewed < m.ttl*renewalNum/renewalDen {
		return nil, nil
	}
	message = &wire.Session{Incarnation: m.cfg.Incarnation}
	for _, l := range s.leases {
		if l.epoch != nil && len(held) < wire.MaxHeld {
			held = append(held, l)
			message.Held = append(message.Held, &wire.HostLease{Host: l.Host, Epoch: l.epoch})
		}
	}
	if held == nil {
		return nil, nil
	}
	return message, held
}

// Renewed prolongs leases that a message listed, which was sent at that time of the lease clock,
// but for those that its answer does not renew. It returns until when they hold.
func (m *Machine) Renewed(s *Session, held []*Lease, reply *wire.SessionReply, sent time.Duration) (until time.Duration) {
	until = sent + Safe(m.ttl)
	s.renewed = max(s.renewed, sent)
	asIs := setOf(reply.GetRevoked(), reply.GetMoved(), reply.GetNotRenewed()) // whoever is to renew these has yet to say so
	for _, l := range held {
		if !asIs[l.Host] {
			l.prolong(until)
			l.turns = 0
		}
	}
	return until
}

func setOf(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, list := range lists {
		for _, host := range list {
			set[host] = true
		}
	}
	return set
}

// Kept says of which hosts an answer takes nothing in: what was told of them is told again.
func Kept(reply *wire.SessionReply) map[string]bool {
	return setOf(reply.GetRefused(), reply.GetMoved())
}

// acknowledge deals with what the message told: it is on disk at the owner, but for hosts that were
// refused or have moved.
func (m *Machine) acknowledge(now time.Time, s *Session, t *Turn, reply *wire.SessionReply) {
	kept := Kept(reply)
	var again []*Report
	for _, r := range t.Reports {
		if kept[r.Lease.Host] {
			again = append(again, r)
			continue
		}
		r.Lease.untold--
		r.Lease.turns = 0
		s.bytes -= int64(r.size)
		m.acknowledged++
		m.driver.Acknowledged(r)
	}
	s.reports = append(again, s.reports...)
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		return slices.Contains(t.releases, r) && !kept[r.work.GetHost()]
	})
	if len(reply.GetRefused()) > 0 {
		s.failures++
		m.dropped += s.shed(m.cfg.MaxReports, m.cfg.MaxReportBytes)
		s.holdBack(now)
	}
}

// Unanswered keeps what a message told for the next one.
func (m *Machine) Unanswered(now time.Time, s *Session, t *Turn) {
	s.failures++
	s.reports, s.sending = append(t.Reports, s.reports...), nil
	m.dropped += s.shed(m.cfg.MaxReports, m.cfg.MaxReportBytes)
	for _, l := range s.leases {
		l.asked = false
	}
	s.holdBack(now)
}

// shed forgets the oldest reports for an owner that does not take them, beyond the bounds on them.
func (s *Session) shed(most int, mostBytes int64) (dropped int64) {
	for len(s.reports) > most || s.bytes > mostBytes && len(s.reports) > 1 {
		s.drop()
		dropped++
	}
	return dropped
}

// drop forgets the oldest report, with the pieces of it that are still here: the page is fetched
// again.
func (s *Session) drop() {
	for more := true; more; {
		r := s.reports[0]
		r.Lease.untold--
		s.bytes -= int64(r.size)
		s.reports, more = s.reports[1:], r.Piece
	}
}

// holdBack leaves an owner alone for a while that grows with each failure in a row.
func (s *Session) holdBack(now time.Time) {
	s.hold = now.Add(pause(max(s.failures, 1))) // none: somebody else is to be told, and is not known yet
	s.at = time.Time{}
	s.kick(s.hold)
}

// pause is the wait after so many failures in a row.
func pause(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(retryFirst<<min(failures-1, 8), retryMost)
}

// Hosts are those that the owner is to hear of: leases and wishes for them, reports, releases.
func (s *Session) Hosts() []string {
	var hosts []string
	for _, l := range s.leases {
		hosts = append(hosts, l.Host)
	}
	for _, r := range s.reports {
		hosts = append(hosts, r.Lease.Host)
	}
	for _, r := range s.releases {
		hosts = append(hosts, r.work.GetHost())
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Reroute tells another owner what was to be told to this one of a host; a lease that still holds
// goes along. While nobody else is known, this one is asked again after a while.
func (m *Machine) Reroute(now time.Time, s *Session, host, owner string) {
	if owner == "" || owner == s.owner {
		s.holdBack(now)
		return
	}
	to := m.session(owner)
	sent := make(map[*Lease]struct{})
	if l := s.hosts[host]; l != nil {
		s.remove(l)
		l.owner = owner
		to.add(l)
		sent[l] = struct{}{}
	}
	s.reports = slices.DeleteFunc(s.reports, func(r *Report) bool {
		if r.Lease.Host != host {
			return false
		}
		r.Lease.owner = owner
		sent[r.Lease] = struct{}{}
		to.reports = append(to.reports, r)
		s.bytes -= int64(r.size)
		to.bytes += int64(r.size)
		return true
	})
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		if r.work.GetHost() != host {
			return false
		}
		sent[r.lease] = struct{}{}
		to.releases = append(to.releases, r)
		return true
	})
	turns := 0
	for l := range sent {
		l.turns++
		turns = max(turns, l.turns)
	}
	to.kick(now.Add(pause(turns - 1))) // two that send us to each other are not asked without a pause
}

// Follow is Reroute for all hosts of a session that did not answer which another peer is believed
// to own.
func (m *Machine) Follow(now time.Time, s *Session, routes map[string]string) {
	for _, host := range slices.Sorted(maps.Keys(routes)) {
		if owner := routes[host]; owner != "" && owner != s.owner {
			m.Reroute(now, s, host, owner)
		}
	}
}

// granted takes URLs of a host under a lease.
func (m *Machine) granted(now time.Time, s *Session, g *wire.Grant, until time.Duration) {
	l := s.hosts[g.GetHost()]
	if l == nil || l.epoch != nil && !sameEpoch(l.epoch, g.GetEpoch()) {
		m.decline(now, s, l, g)
		return
	}
	if l.epoch == nil {
		m.leaveOut(g)
	}
	l.again, l.asked = false, false
	l.epoch = g.GetEpoch()
	l.prolong(until)
	l.more, l.giveBack = g.GetMore(), g.GetGiveBack()
	if backoff, reason := m.driver.Learn(now, l, g); backoff > 0 {
		m.Close(now, l, backoff, reason)
	}
	if m.closed || l.closing {
		for u := range URLs(g) {
			l.Return(u.Job, u.URL)
		}
		m.Close(now, l, 0, "")
		return
	}
	if m.driver.Take(l, g) == 0 {
		l.askAgain = now.Add(hungry)
		return
	}
	l.askAgain = time.Time{}
}

// leaveOut takes out of a grant what was fetched under an earlier lease and could not be told yet,
// as the host moved from owner to owner. Its outcome comes to this owner too, and settles it.
func (m *Machine) leaveOut(g *wire.Grant) {
	untold := func(reports []*Report) {
		for _, r := range reports {
			if r.Lease.Host != g.GetHost() {
				continue
			}
			for i, url := range g.GetUrl() {
				if bytes.Equal(url, r.Fetched.GetUrl()) && jobOf(g, i) == job.ID(r.Fetched.GetJob()) {
					g.Url[i] = nil // of no host, see URLs
				}
			}
		}
	}
	for _, s := range m.order {
		untold(s.reports)
		untold(s.sending)
	}
}

// jobOf is the job of a URL of a grant.
func jobOf(g *wire.Grant, i int) job.ID {
	index := uint32(0)
	if len(g.GetJob()) > 0 {
		index = g.GetJob()[i]
	}
	return job.ID(g.GetJobIds()[index])
}

// decline gives back what was granted under a lease that is not held any more.
func (m *Machine) decline(now time.Time, s *Session, l *Lease, g *wire.Grant) {
	if l != nil {
		m.Revoke(now, l) // the owner has made a new lease of it: what is held is void
	}
	gone := &Lease{Host: g.GetHost(), owner: s.owner, epoch: g.GetEpoch(), over: true}
	for u := range URLs(g) {
		gone.Return(u.Job, u.URL)
	}
	s.releases = append(s.releases, &release{gone, &wire.HostWork{
		Host: g.GetHost(), Epoch: g.GetEpoch(), Release: true, Returned: gone.returned, OwedMs: g.GetNotBeforeMs(),
	}})
	s.kick(now)
}

// URL is one of a grant.
type URL struct {
	Job      job.ID    // that asked for it
	URL      string    // canonical
	Depth    uint32    // links from a seed
	Hops     uint8     // redirects followed to come here
	Kind     link.Kind // what it was found as
	Tries    uint8     // tries before this one
	MaxBytes int64     // bound of the body that the job's budget sets; 0: none
}

// URLs reads the columns of a grant. What is not of its host is left out.
func URLs(g *wire.Grant) iter.Seq[URL] {
	return func(yield func(URL) bool) {
		for i, url := range g.GetUrl() {
			u := URL{URL: string(url)}
			if link.Host(u.URL) != g.GetHost() {
				continue
			}
			u.Job = jobOf(g, i)
			if len(g.GetDepth()) > 0 {
				u.Depth = g.GetDepth()[i]
			}
			if len(g.GetHops()) > 0 {
				u.Hops = g.GetHops()[i]
			}
			if len(g.GetKind()) > 0 {
				u.Kind = link.Kind(g.GetKind()[i])
			}
			if len(g.GetTries()) > 0 {
				u.Tries = g.GetTries()[i]
			}
			if len(g.GetMaxBytes()) > 0 {
				u.MaxBytes = int64(min(g.GetMaxBytes()[i], 1<<62)) // bounded
			}
			if !yield(u) {
				return
			}
		}
	}
}

func sameEpoch(a, b *wire.Epoch) bool {
	return a.GetCounter() == b.GetCounter() && string(a.GetPeer()) == string(b.GetPeer())
}
