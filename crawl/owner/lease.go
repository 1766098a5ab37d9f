package owner

import (
	"bytes"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/link"
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

// lease is the grant of a host to a worker.
type lease struct {
	session *session
	epoch   ondisk.Epoch
	expires int64
	lookAt  int64 // when to look again whether it has lapsed; 0: when it expires
	out     map[uint64]*item
	last    uint64 // seq of the Session whose answer granted last
	fresh   bool   // nothing was granted under it yet
	// bounded: only so many URLs may still be granted before the host is placed anew.
	bounded bool
	left    int
	said    uint64  // number of the last visit in which its worker said that it holds it
	want    int     // number of the wish of this step in granter.wants, from 1 on; 0: none
	pace    float64 // by how much the worker asks less often than usual; 1 or less: as usual
	told    float64 // of that, with what the host's pages add, what the worker was told; 0: nothing
}

// item is a URL out under a lease. Its pending record (without the url, which is read again if need
// be) stays in the store.
type item struct {
	ondisk.Pending
	job *hostJob
	seq uint64 // of the Session whose answer granted it
}

func (l *lease) item(hash uint64) *item {
	if l == nil {
		return nil
	}
	return l.out[hash]
}

// spokenOf says whether that which the worker said together with holding the lease is still being
// taken in: it waits for an answer.
func (l *lease) spokenOf() bool { return l.said > 0 && l.said == l.session.visiting }

// leasedTo says whether a worker has a host under that epoch.
func (h *host) leasedTo(s *session, epoch *wire.Epoch) bool {
	return h != nil && h.lease != nil && h.lease.session == s && h.lease.epoch.Is(epoch)
}

// session is what is known of a worker.
type session struct {
	peer        string
	incarnation uint64
	told        bool // of which an earlier owner spoke, and not yet the worker itself
	seq, ack    uint64
	capacity    uint32
	backlog     uint32
	heard       int64
	relieved    int64 // when a host was taken from it last, as it had too much
	leases      map[*host]struct{}
	offers      []*host // on offer to it, the oldest first; no more than hosts are being placed
	visiting    uint64  // number of the visit under way; 0: none is
}

// held are the hosts that the worker has, in ring order: what comes of them is to be the same each
// time that a simulation is played.
func (s *session) held() []*host {
	return slices.SortedFunc(maps.Keys(s.leases), func(a, b *host) int { return bytes.Compare(a.pos[:], b.pos[:]) })
}

// leases begins and ends the leases of hosts.
type leases struct {
	*step
	jobs   *jobTable
	hosts  *hostTable
	agenda *agenda
	placer *placer
	n      int // of hosts that are leased
}

func (ls *leases) begin(h *host, s *session) {
	h.rec.NextEpoch(ls.cfg.Self, s.peer)
	h.tenure.begin(&lease{
		session: s, epoch: h.rec.Epoch, expires: ls.now + ls.cfg.TTL.Milliseconds(), out: make(map[uint64]*item), fresh: true,
		bounded: h.search.urls > 0, left: h.search.urls, pace: h.search.pace,
	})
	s.leases[h] = struct{}{}
	ls.n++
	ls.placer.end(h)
	ls.agenda.searches.taken()
	h.search.taken()
	ls.hosts.touched(h)
}

// why a lease ends.
type ending uint8

const (
	// untouched: the worker never got the URLs, or handed them back. What was promised to them is
	// free again.
	untouched ending = iota
	// released: what is out goes back, but a report may still come.
	released
	// lapsed: nobody said what became of what is out.
	lapsed
)

// lapse is how a lease ends whose time is over. A worker that spoke since it named the lease last,
// and is the same process, has let it go: as answers came late, or went lost. That says nothing
// about the URLs.
func (ls *leases) lapse(l *lease) ending {
	if l.session.heard > l.expires-ls.cfg.TTL.Milliseconds() {
		return released
	}
	return lapsed
}

// end puts what is out back. Nobody else gets the host before bar.
func (ls *leases) end(h *host, how ending, bar int64) {
	l := h.tenure.end(bar)
	if !h.barred(ls.now) {
		h.rec.Names("")
	}
	delete(l.session.leases, h)
	ls.n--
	for _, hash := range slices.Sorted(maps.Keys(l.out)) {
		it := l.out[hash]
		delete(l.out, hash)
		ls.takeBack(it, how)
	}
	ls.keepNovelty(h)
	ls.hosts.touched(h)
}

// takeBack makes a URL pending again that is no longer in its lease's list.
func (ls *leases) takeBack(it *item, how ending) {
	hj := it.job
	hj.Return(&it.Pending)
	if how == released || how == untouched && (!it.Promised || it.Foreign) {
		return
	}
	p, ok := hj.Pending(it.Spot)
	if !ok {
		return
	}
	if how == untouched {
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

// session returns the session of a worker, its earlier leases ended if the process is another. Nil
// if the message is of an earlier process than one heard already.
func (ls *leases) session(from string, m *wire.Session) *session {
	s := ls.placer.sessions[from]
	if s == nil {
		s = &session{peer: from, incarnation: m.GetIncarnation(), leases: make(map[*host]struct{})}
		ls.placer.sessions[from] = s
	}
	switch {
	case m.GetIncarnation() > s.incarnation:
		ls.endCrashed(s)
	case m.GetIncarnation() < s.incarnation && s.told:
		ls.endUnknown(s)
	case m.GetIncarnation() < s.incarnation:
		return nil
	}
	s.incarnation, s.told = m.GetIncarnation(), false
	s.seq, s.ack = m.GetSeq(), m.GetAck()
	s.capacity, s.backlog, s.heard = m.GetCapacity(), m.GetBacklog(), ls.now
	return s
}

// endUnknown ends the leases of a process of which the worker knows nothing. What was said of it
// may be true all the same, and this message a late one: its leases are waited out.
func (ls *leases) endUnknown(s *session) {
	for _, h := range s.held() {
		ls.end(h, released, h.lease.expires)
	}
}

// endCrashed ends the leases of a process that is gone: it sends nothing any more, so nobody has to
// wait for it, but the hosts are owed politeness.
func (ls *leases) endCrashed(s *session) {
	for _, h := range s.held() {
		h.rec.Owe(ls.now + ls.cfg.Delay.Milliseconds())
		ls.end(h, lapsed, 0)
	}
}

// PeerDead says that a peer is not to be reached: nothing more is offered to it. Its leases run out
// by themselves, as it may only be cut off from us and still crawl. Part of a step.
func (o *Owner) PeerDead(peer string) {
	s := o.placer.sessions[peer]
	if s == nil {
		return
	}
	for len(s.offers) > 0 {
		h := s.offers[0]
		o.placer.declined(h, peer)
		o.agenda.changed(h)
	}
	if len(s.leases) == 0 {
		delete(o.placer.sessions, peer)
	}
}

// renew prolongs the leases that a worker says it holds, and takes back what went lost with an
// answer.
func (vs *visits) renew(v *Visit) {
	s, reply := v.session, v.reply
	for _, lease := range v.m.GetHeld() {
		switch vs.hosts.speaksFor(lease.GetHost(), s, lease.GetEpoch()) {
		case hostMoved:
			reply.move(lease.GetHost())
			continue
		case hostBusy:
			reply.wait(lease.GetHost())
			continue
		}
		h := vs.hosts.byName[lease.GetHost()]
		if !h.leasedTo(s, lease.GetEpoch()) {
			reply.revoke(lease.GetHost())
			continue
		}
		h.lease.expires, h.lease.said = vs.now+vs.cfg.TTL.Milliseconds(), s.visiting
		vs.leases.takeBackLost(h, s)
		vs.agenda.changed(h)
	}
}

// takeBackLost takes back what was granted in answers that the worker never saw: it has one Session
// under way at a time, so an answer between the last that arrived and this request is lost.
func (ls *leases) takeBackLost(h *host, s *session) {
	l := h.lease
	if s.seq == 0 || l.last <= s.ack || l.last >= s.seq {
		return
	}
	for _, hash := range slices.Sorted(maps.Keys(l.out)) {
		if it := l.out[hash]; it.seq > s.ack && it.seq < s.seq {
			delete(l.out, hash)
			ls.takeBack(it, untouched)
		}
	}
	l.last = s.ack
}
