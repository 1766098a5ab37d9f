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

// hungry is the delay before an owner that has URLs and grants none, as while a budget is being
// drawn, is sent a message only to request them.
const hungry = 200 * time.Millisecond

// Answered processes an owner's answer to a message that was sent at time sent of the lease clock.
// Routes are the presumed owners of the hosts that have moved, empty where none is known.
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
			m.forget(l) // the owner holds it released
		}
	}
	for _, l := range s.leases {
		m.Changed(now, l)
	}
	if len(s.leases) > 0 {
		s.kick(t.at.Add(m.ttl / renewShare))
	}
}

// Renewal returns a message that only renews the leases of a session, at a time of the lease clock.
// It returns nil if no renewal is due because an answer has renewed them recently.
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

// Renewed prolongs the leases listed in a message sent at time sent of the lease clock, except
// those that its answer does not renew. It returns until when they are valid.
func (m *Machine) Renewed(s *Session, held []*Lease, reply *wire.SessionReply, sent time.Duration) (until time.Duration) {
	until = sent + Safe(m.ttl)
	s.renewed = max(s.renewed, sent)
	asIs := setOf(reply.GetRevoked(), reply.GetMoved(), reply.GetNotRenewed()) // not renewed by this answer
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

// Kept returns the hosts of which an answer accepts nothing: their reports are sent again.
func Kept(reply *wire.SessionReply) map[string]bool {
	return setOf(reply.GetRefused(), reply.GetMoved())
}

// acknowledge marks the content of a message as stored by the owner, except for hosts that were
// rejected or have moved.
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

// Unanswered retains the content of a message for the next one.
func (m *Machine) Unanswered(now time.Time, s *Session, t *Turn) {
	s.failures++
	s.reports, s.sending = append(t.Reports, s.reports...), nil
	m.dropped += s.shed(m.cfg.MaxReports, m.cfg.MaxReportBytes)
	for _, l := range s.leases {
		l.asked = false
	}
	s.holdBack(now)
}

// shed drops the oldest reports for an owner that does not accept them, beyond their bounds.
func (s *Session) shed(most int, mostBytes int64) (dropped int64) {
	for len(s.reports) > most || s.bytes > mostBytes && len(s.reports) > 1 {
		for more := true; more; { // a report with its remaining pieces: the page is fetched again
			r := s.reports[0]
			r.Lease.untold--
			s.bytes -= int64(r.size)
			s.reports, more = s.reports[1:], r.Piece
		}
		dropped++
	}
	return dropped
}

// holdBack starts a backoff for an owner, which grows with each consecutive failure.
func (s *Session) holdBack(now time.Time) {
	s.hold = now.Add(pause(max(s.failures, 1))) // no failure: the new owner is not known yet
	s.at = time.Time{}
	s.kick(s.hold)
}

// pause returns the backoff after a number of consecutive failures.
func pause(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(retryFirst<<min(failures-1, 8), retryMost)
}

// Hosts returns the hosts with pending messages to the owner: leases and requests for them,
// reports, releases.
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

// Reroute moves the pending messages of a host to another owner, with a lease that is still valid.
// While no other owner is known, this one is sent them again after a backoff.
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
	to.kick(now.Add(pause(turns - 1))) // backoff between two owners that each name the other
}

// Follow calls Reroute for all hosts of an unanswered session that another peer is presumed to own.
func (m *Machine) Follow(now time.Time, s *Session, routes map[string]string) {
	for _, host := range slices.Sorted(maps.Keys(routes)) {
		if owner := routes[host]; owner != "" && owner != s.owner {
			m.Reroute(now, s, host, owner)
		}
	}
}

// granted adds granted URLs of a host under a lease.
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
	if l.epoch == nil {
		l.certificate = &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
	}
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

// leaveOut removes URLs from a grant that were fetched under an earlier lease and are not reported
// yet, as the host moved between owners. This owner receives their outcomes too.
func (m *Machine) leaveOut(g *wire.Grant) {
	untold := func(reports []*Report) {
		for _, r := range reports {
			if r.Lease.Host != g.GetHost() {
				continue
			}
			for i, url := range g.GetUrl() {
				if bytes.Equal(url, r.Fetched.GetUrl()) && jobOf(g, i) == job.ID(r.Fetched.GetJob()) {
					g.Url[i] = nil // belongs to no host, see URLs
				}
			}
		}
	}
	for _, s := range m.order {
		untold(s.reports)
		untold(s.sending)
	}
}

// jobOf returns the job of a URL of a grant.
func jobOf(g *wire.Grant, i int) job.ID {
	index := uint32(0)
	if len(g.GetJob()) > 0 {
		index = g.GetJob()[i]
	}
	return job.ID(g.GetJobIds()[index])
}

// decline gives back what was granted under a lease that is no longer held.
func (m *Machine) decline(now time.Time, s *Session, l *Lease, g *wire.Grant) {
	if l != nil {
		m.Revoke(now, l) // the owner has replaced the lease: the one held is void
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

// URL is one URL of a grant.
type URL struct {
	Job      job.ID    // that requested it
	URL      string    // canonical
	Depth    uint32    // links from a seed
	Hops     uint8     // redirects followed to come here
	Kind     link.Kind // how it was found
	Tries    uint8     // tries before this one
	MaxBytes int64     // bound of the body that the job's budget sets; 0: none
	Index    int       // in the columns of the grant
}

// URLs iterates over the columns of a grant. It skips URLs that are not of its host.
func URLs(g *wire.Grant) iter.Seq[URL] {
	return func(yield func(URL) bool) {
		for i, url := range g.GetUrl() {
			u := URL{URL: string(url), Index: i}
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
