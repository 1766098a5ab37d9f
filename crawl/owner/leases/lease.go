package leases

import (
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// aloneAfter is the number of lapses after which a URL is granted alone, so that a URL that
	// crashes its worker affects no other; after quarantineAfter it is quarantined. With churn most
	// lapses in company are unrelated to the URL; two lapses alone, each of seconds, hardly are.
	aloneAfter      = 2
	quarantineAfter = 4
)

// PurgePerStep bounds the URLs purged in one step; the scan of a host counts as purgeHost of them.
const PurgePerStep = 512

// Leases begins and ends the leases of hosts.
type Leases struct {
	*hosts.Step
	jobs   *hosts.JobTable
	hosts  *hosts.Table
	agenda *hosts.Agenda
	placer *Placer
	checks *hosts.Checks
	N      int // number of leased hosts
}

// Begin leases a host to a worker, under the next epoch.
func (ls *Leases) Begin(h *hosts.Host, s *hosts.Session) {
	h.Rec.NextEpoch(ls.Cfg.Self, s.Peer)
	var signed []byte
	if ls.Cfg.Sign != nil {
		signed = ls.Cfg.Sign(hosts.SignedLease(h.Rec.Name, s.Peer, h.Rec.Epoch))
	}
	h.Tenure.Begin(&hosts.Lease{
		Signed: signed, Session: s, Epoch: h.Rec.Epoch, Expires: ls.Now + ls.Cfg.TTL.Milliseconds(), Out: make(map[uint64]*hosts.Item), Fresh: true,
		Check: h.Search.Check, Bounded: h.Search.URLs > 0, Left: h.Search.URLs, Pace: h.Search.Pace,
	})
	s.Leases[h] = struct{}{}
	ls.N++
	ls.placer.End(h)
	ls.agenda.Searches.Taken()
	h.Search.Taken()
	ls.hosts.Touched(h)
}

// Ending is the reason of a lease's end.
type Ending uint8

const (
	// Untouched: the worker never got the URLs, or returned them. Their reserved budget is free again.
	Untouched Ending = iota
	// Released: URLs that are out are pending again, but a report may still arrive.
	Released
	// lapsed: no outcome of the URLs that are out was reported.
	lapsed
)

// Lapse returns how an expired lease ends. If the same process of the worker sent a message after
// it last renewed the lease, it dropped the lease because replies were late or lost. That is
// unrelated to the URLs.
func (ls *Leases) Lapse(l *hosts.Lease) Ending {
	if l.Session.Heard > l.Expires-ls.Cfg.TTL.Milliseconds() {
		return Released
	}
	return lapsed
}

// End makes URLs that are out pending again. The host is not leased again before bar.
func (ls *Leases) End(h *hosts.Host, how Ending, bar int64) {
	l := h.Tenure.End(bar)
	if !h.Barred(ls.Now) {
		h.Rec.Names("")
	}
	delete(l.Session.Leases, h)
	ls.N--
	for _, hash := range slices.Sorted(maps.Keys(l.Out)) {
		it := l.Out[hash]
		delete(l.Out, hash)
		ls.takeBack(it, how)
	}
	for _, hj := range h.Jobs { // another owner or process may continue with the trap state
		if hj.Trap != nil && hj.Trap.Pages() >= hosts.FewPages && !hj.TrapMod {
			ls.hosts.Learnt(h, hj)
		}
	}
	ls.hosts.Touched(h)
}

// takeBack makes a URL pending again that is no longer in its lease's list.
func (ls *Leases) takeBack(it *hosts.Item, how Ending) {
	hj := it.Job
	if it.Check != nil {
		it.Check.Out = false
		return
	}
	if it.Again {
		hj.Visitable(uint32(it.Due)) // in seconds
		return
	}
	hj.Return(&it.Pending)
	if how == Released || how == Untouched && (!it.Promised || it.Foreign) {
		return
	}
	p, ok := hj.Pending(it.Spot)
	if !ok {
		return
	}
	if how == Untouched {
		hj.Settle(&p, 0, 0)
		hj.Rewrite(&p)
		return
	}
	if p.Lapses++; p.Lapses >= quarantineAfter {
		hj.Settle(&p, 1, p.PromisedBytes) // it may have been fetched
		hj.Conclude(&p, ondisk.Final{Outcome: link.OutcomeQuarantined, Detail: "four leases ended without a report, two of them with this URL alone"})
		return
	}
	hj.Rewrite(&p)
}

// SessionOf returns the session of a worker; nil if there is none.
func (ls *Leases) SessionOf(worker string) *hosts.Session { return ls.placer.Sessions[worker] }

// Session returns the session of a worker, and ends the leases of its earlier processes. It is nil
// if the message is of an earlier process than one already known.
func (ls *Leases) Session(from string, m *wire.Session) *hosts.Session {
	s := ls.placer.Sessions[from]
	if s == nil {
		s = &hosts.Session{Peer: from, Incarnation: m.GetIncarnation(), Leases: make(map[*hosts.Host]struct{})}
		ls.placer.Sessions[from] = s
	}
	switch {
	case m.GetIncarnation() > s.Incarnation:
		for _, h := range s.Held() { // the process has ended: only the politeness delay remains
			h.Rec.Owe(ls.Now + ls.Cfg.Delay.Milliseconds())
			ls.End(h, lapsed, 0)
		}
	case m.GetIncarnation() < s.Incarnation && s.Told:
		ls.endUnknown(s)
	case m.GetIncarnation() < s.Incarnation:
		return nil
	}
	s.Incarnation, s.Told = m.GetIncarnation(), false
	s.Seq, s.Ack = m.GetSeq(), m.GetAck()
	s.Capacity, s.Backlog, s.Heard = m.GetCapacity(), m.GetBacklog(), ls.Now
	return s
}

// endUnknown ends leases of a process that the worker does not confirm. The note of the earlier
// owner may still be right, and this message a late one: the leases are waited out.
func (ls *Leases) endUnknown(s *hosts.Session) {
	for _, h := range s.Held() {
		ls.End(h, Released, h.Lease.Expires)
	}
}

// TakeBackLost takes back URLs granted in lost replies: a worker has one Session in flight, so a
// reply between the last one received and this request is lost.
func (ls *Leases) TakeBackLost(h *hosts.Host, s *hosts.Session) {
	l := h.Lease
	if s.Seq == 0 || l.Last <= s.Ack || l.Last >= s.Seq {
		return
	}
	for _, hash := range slices.Sorted(maps.Keys(l.Out)) {
		if it := l.Out[hash]; it.Seq > s.Ack && it.Seq < s.Seq {
			delete(l.Out, hash)
			ls.takeBack(it, Untouched)
		}
	}
	l.Last = s.Ack
}

// Returned takes back URLs that the worker did not fetch.
func (ls *Leases) Returned(h *hosts.Host, list []*wire.Unfetched) {
	for _, u := range list {
		it := h.Lease.Item(u.GetHash())
		if it == nil || it.Job.State.ID != job.ID(u.GetJob()) {
			continue
		}
		delete(h.Lease.Out, u.GetHash())
		ls.takeBack(it, Untouched)
	}
}
