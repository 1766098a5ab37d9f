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
	// aloneAfter lapses a URL is granted alone, so that what ends its worker ends no other URL's
	// lease; after quarantineAfter it is left alone. Of the lapses in company most say nothing
	// about the URL, where peers come and go; two alone, each of seconds, are hardly by chance.
	aloneAfter      = 2
	quarantineAfter = 4
)

// PurgePerStep bounds how many URLs meet their fate in one step; the search for those of a host
// counts as purgeHost of them.
const PurgePerStep = 512

// Leases begins and ends the leases of hosts.
type Leases struct {
	*hosts.Step
	jobs   *hosts.JobTable
	hosts  *hosts.Table
	agenda *hosts.Agenda
	placer *Placer
	N      int // of hosts that are leased
}

// Begin gives a host to a worker, under the next epoch.
func (ls *Leases) Begin(h *hosts.Host, s *hosts.Session) {
	h.Rec.NextEpoch(ls.Cfg.Self, s.Peer)
	h.Tenure.Begin(&hosts.Lease{
		Session: s, Epoch: h.Rec.Epoch, Expires: ls.Now + ls.Cfg.TTL.Milliseconds(), Out: make(map[uint64]*hosts.Item), Fresh: true,
		Bounded: h.Search.URLs > 0, Left: h.Search.URLs, Pace: h.Search.Pace,
	})
	s.Leases[h] = struct{}{}
	ls.N++
	ls.placer.End(h)
	ls.agenda.Searches.Taken()
	h.Search.Taken()
	ls.hosts.Touched(h)
}

// Ending is why a lease ends.
type Ending uint8

const (
	// Untouched: the worker never got the URLs, or handed them back. What was promised to them is
	// free again.
	Untouched Ending = iota
	// Released: what is out goes back, but a report may still come.
	Released
	// lapsed: nobody said what became of what is out.
	lapsed
)

// Lapse is how a lease ends whose time is over. A worker that spoke since it named the lease last,
// and is the same process, has let it go: as answers came late, or went lost. That says nothing
// about the URLs.
func (ls *Leases) Lapse(l *hosts.Lease) Ending {
	if l.Session.Heard > l.Expires-ls.Cfg.TTL.Milliseconds() {
		return Released
	}
	return lapsed
}

// End puts what is out back. Nobody else gets the host before bar.
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
	ls.keepNovelty(h)
	ls.hosts.Touched(h)
}

// takeBack makes a URL pending again that is no longer in its lease's list.
func (ls *Leases) takeBack(it *hosts.Item, how Ending) {
	hj := it.Job
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
		hj.Settle(&p, 1, p.PromisedBytes) // it may well have been fetched
		hj.Conclude(&p, ondisk.Final{Outcome: link.OutcomeQuarantined, Detail: "four leases on it ended without a report, two of them when it was out alone"})
		return
	}
	hj.Rewrite(&p)
}

// Session returns the session of a worker, its earlier leases ended if the process is another. Nil
// if the message is of an earlier process than one heard already.
func (ls *Leases) Session(from string, m *wire.Session) *hosts.Session {
	s := ls.placer.Sessions[from]
	if s == nil {
		s = &hosts.Session{Peer: from, Incarnation: m.GetIncarnation(), Leases: make(map[*hosts.Host]struct{})}
		ls.placer.Sessions[from] = s
	}
	switch {
	case m.GetIncarnation() > s.Incarnation:
		ls.endCrashed(s)
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

// endUnknown ends the leases of a process of which the worker knows nothing. What was said of it
// may be true all the same, and this message a late one: its leases are waited out.
func (ls *Leases) endUnknown(s *hosts.Session) {
	for _, h := range s.Held() {
		ls.End(h, Released, h.Lease.Expires)
	}
}

// endCrashed ends the leases of a process that is gone: it sends nothing any more, so nobody has to
// wait for it, but the hosts are owed politeness.
func (ls *Leases) endCrashed(s *hosts.Session) {
	for _, h := range s.Held() {
		h.Rec.Owe(ls.Now + ls.Cfg.Delay.Milliseconds())
		ls.End(h, lapsed, 0)
	}
}

// TakeBackLost takes back what was granted in answers that the worker never saw: it has one Session
// under way at a time, so an answer between the last that arrived and this request is lost.
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

// keepNovelty has what is known of a host's pages written, as its lease ends: another owner, or
// another process, may be the next one.
func (ls *Leases) keepNovelty(h *hosts.Host) {
	for _, hj := range h.Jobs {
		if hj.Novelty != nil && hj.Novelty.Seen() >= hosts.FewPages && !hj.News {
			ls.hosts.Learnt(h, hj)
		}
	}
}

// Returned takes URLs back that the worker did not touch.
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
