package worker

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
)

// firstWindow is the most URLs asked for of a host that nothing is known of yet.
const firstWindow = 64

// hungry is how long an owner that has URLs and grants none, as while a budget is drawn, is not asked only for that.
const hungry = 200 * time.Millisecond

// jobsOf learns the jobs of granted URLs.
func (w *Worker) jobsOf(ctx context.Context, grants []*wire.Grant) map[job.ID]*jobRef {
	refs := make(map[job.ID]*jobRef)
	for _, g := range grants {
		for _, raw := range g.GetJobIds() {
			if id := job.ID(raw); refs[id] == nil {
				refs[id] = w.specs.get(ctx, id)
			}
		}
	}
	return refs
}

// routes asks who owns hosts that were said to have moved.
func (w *Worker) routes(moved []string) map[string]string {
	routes := make(map[string]string, len(moved))
	for _, name := range moved {
		routes[name] = w.deps.Owners.OwnerOf(name)
	}
	return routes
}

// answered takes in what an owner said to a message that was sent at that lease time.
func (w *Worker) answered(
	s *session, t *turn, reply *wire.SessionReply, sent time.Duration, refs map[job.ID]*jobRef, routes map[string]string,
) {
	s.ack, s.sending = t.m.GetSeq(), nil
	if len(reply.GetRefused()) == 0 {
		s.failures = 0
	}
	if ms := reply.GetTtlMs(); ms > 0 {
		w.leaseTTL = time.Duration(ms) * time.Millisecond
	}
	until := int64(sent + w.ttl()*stopShareNum/stopShareDen)
	asIs := setOf(reply.GetRevoked(), reply.GetMoved(), reply.GetNotRenewed()) // whoever is to renew these has yet to say so
	for _, h := range t.held {
		h.asked = false
		if !asIs[h.name] {
			h.until.Store(max(h.until.Load(), until))
			h.turns = 0
		}
	}
	w.acknowledge(s, t, reply)
	for _, name := range reply.GetRevoked() {
		if h := s.hosts[name]; h != nil && (slices.Contains(t.held, h) || slices.Contains(t.offered, h)) {
			w.revoke(h)
		}
	}
	for name, owner := range routes {
		w.reroute(s, name, owner)
	}
	for _, g := range reply.GetGrants() {
		w.granted(s, g, until, refs)
	}
	for _, h := range t.offered {
		if h.epoch == nil && s.hosts[h.name] == h {
			w.forget(h) // the owner thought otherwise
		}
	}
	for _, h := range s.hosts {
		w.settle(h)
	}
	if len(s.hosts) > 0 {
		s.kick(t.at.Add(w.ttl() / renewShare))
	}
}

func setOf(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, list := range lists {
		for _, name := range list {
			set[name] = true
		}
	}
	return set
}

// acknowledge deals with what the message told: it is on disk at the owner, but for hosts that were refused or have moved.
func (w *Worker) acknowledge(s *session, t *turn, reply *wire.SessionReply) {
	kept := setOf(reply.GetRefused(), reply.GetMoved())
	var again []*report
	for _, r := range t.reports {
		if kept[r.host.name] {
			again = append(again, r)
			continue
		}
		r.host.untold--
		s.bytes -= int64(r.size)
		r.host.turns = 0
		w.stats.acknowledged.Add(1)
		w.known.add(r.hashes)
	}
	s.reports = append(again, s.reports...)
	w.weigh()
	w.wakeOne() // there may be room in flight
	for _, n := range t.news {
		if !kept[n.host] && n.origin.newsSeq == n.seq {
			n.origin.untold = false
		}
	}
	for _, h := range t.fresh {
		h.fresh = h.fresh || kept[h.name]
	}
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		return slices.Contains(t.releases, r) && !kept[r.work.GetHost()]
	})
	if len(reply.GetRefused()) > 0 {
		s.failures++
		w.shed(s)
		w.holdBack(s)
	}
}

// shed forgets the oldest outcomes for an owner that does not take them, beyond the bounds on them.
func (w *Worker) shed(s *session) {
	for len(s.reports) > w.cfg.MaxReports || s.bytes > w.cfg.MaxReportBytes && len(s.reports) > 1 {
		w.dropReport(s)
	}
	w.weigh()
}

// holdBack leaves an owner alone for a while that grows with each failure in a row.
func (w *Worker) holdBack(s *session) {
	now := time.Now()
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

// dropReport forgets the oldest outcome, with the pieces of it that are still here: the page is fetched again.
func (w *Worker) dropReport(s *session) {
	for more := true; more; {
		r := s.reports[0]
		r.host.untold--
		s.bytes -= int64(r.size)
		s.reports, more = s.reports[1:], r.piece
	}
	w.stats.dropped.Add(1)
}

// unanswered keeps what a message told for the next one.
func (w *Worker) unanswered(ctx context.Context, s *session, t *turn) {
	w.mu.Lock()
	s.failures++
	s.reports, s.sending = append(t.reports, s.reports...), nil
	w.shed(s)
	for _, h := range s.hosts {
		h.asked = false
	}
	for _, h := range t.fresh {
		h.fresh = true
	}
	w.holdBack(s)
	w.wakeOne() // what this owner does not take no longer keeps the others' hosts waiting
	names := s.names()
	w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	routes := w.routes(names)
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, owner := range routes {
		if owner != "" && owner != s.owner {
			w.reroute(s, name, owner)
		}
	}
}

// names are the hosts that the owner is to hear of, or has leased.
func (s *session) names() []string {
	var names []string
	for name, h := range s.hosts {
		if h.epoch != nil {
			names = append(names, name)
		}
	}
	for _, r := range s.reports {
		names = append(names, r.host.name)
	}
	for _, r := range s.releases {
		names = append(names, r.work.GetHost())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reroute tells another owner what was to be told to this one of a host; a lease that still holds goes along.
func (w *Worker) reroute(s *session, name, owner string) {
	if owner == "" || owner == s.owner {
		w.holdBack(s)
		return
	}
	to := w.session(owner)
	sent := make(map[*host]struct{})
	if h := s.hosts[name]; h != nil {
		delete(s.hosts, name)
		h.owner = owner
		to.hosts[name] = h
		sent[h] = struct{}{}
	}
	s.reports = slices.DeleteFunc(s.reports, func(r *report) bool {
		if r.host.name != name {
			return false
		}
		r.host.owner = owner
		sent[r.host] = struct{}{}
		to.reports = append(to.reports, r)
		s.bytes -= int64(r.size)
		to.bytes += int64(r.size)
		return true
	})
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		if r.work.GetHost() != name {
			return false
		}
		sent[r.host] = struct{}{}
		to.releases = append(to.releases, r)
		return true
	})
	turns := 0
	for h := range sent {
		h.turns++
		turns = max(turns, h.turns)
	}
	to.kick(time.Now().Add(pause(turns - 1))) // two that send us to each other are not asked without a pause
}

// granted takes URLs of a host under a lease.
func (w *Worker) granted(s *session, g *wire.Grant, until int64, refs map[job.ID]*jobRef) {
	h := s.hosts[g.GetHost()]
	if h == nil || h.ended.Load() || h.epoch != nil && !sameEpoch(h.epoch, g.GetEpoch()) {
		w.decline(s, h, g)
		return
	}
	now := time.Now()
	if h.again = false; h.epoch == nil {
		h.epoch = g.GetEpoch()
		w.frontier.Slow(h.name, float64(g.GetPacePct())/100)
		poke(w.watch)
	} else if pct := g.GetPacePct(); pct > 0 {
		w.frontier.Slow(h.name, float64(pct)/100)
	}
	h.asked = false
	h.until.Store(max(h.until.Load(), until))
	h.more, h.giveBack = g.GetMore(), g.GetGiveBack()
	if owed := time.Duration(g.GetNotBeforeMs()) * time.Millisecond; owed > 0 {
		w.frontier.NotBefore(h.name, now.Add(owed))
	}
	w.introduced(h, g, now)
	items := itemsOf(g, refs)
	if w.stopping || w.paused || h.closing {
		h.returned = append(h.returned, items...)
		w.close(h, 0, "")
		return
	}
	if len(items) == 0 {
		h.askAgain = now.Add(hungry)
		return
	}
	h.askAgain = time.Time{}
	for i := range items {
		w.serial++
		items[i].serial = w.serial
	}
	w.push(h, items)
	w.wakeOne()
}

// decline gives back what was granted under a lease that is not held any more.
func (w *Worker) decline(s *session, h *host, g *wire.Grant) {
	if h != nil && !h.ended.Load() {
		w.revoke(h) // the owner has made a new lease of it: what is held is void
	}
	gone := newHost(s.owner, g.GetHost())
	gone.epoch = g.GetEpoch()
	work := &wire.HostWork{Host: g.GetHost(), Epoch: g.GetEpoch(), Release: true, OwedMs: g.GetNotBeforeMs()}
	for _, it := range itemsOf(g, nil) {
		if len(work.GetReturned()) < wire.MaxFetched {
			work.Returned = append(work.Returned, it.unfetched())
		}
	}
	s.releases = append(s.releases, &release{host: gone, work: work})
	s.kick(time.Now())
}

// introduced notes what the owner knows of a host.
func (w *Worker) introduced(h *host, g *wire.Grant, now time.Time) {
	for _, r := range g.GetRobots() {
		if h.origins[r.GetOrigin()] != nil || len(h.origins) >= wire.MaxOrigins {
			continue
		}
		o := &origin{name: r.GetOrigin()}
		var state robots.State
		if state.UnmarshalBinary(r.GetState()) != nil {
			continue
		}
		if o.set(state); !w.shelf.take(o, bytes.Clone(r.GetState()), false) {
			w.close(h, roomPause, noRoom)
			continue
		}
		h.origins[o.name] = o
	}
	if len(h.addrs) > 0 {
		return
	}
	for _, raw := range g.GetAddrs() {
		if addr, ok := netip.AddrFromSlice(raw); ok {
			h.addrs = append(h.addrs, addr.Unmap())
		}
	}
	if len(h.addrs) > 0 {
		h.lentUntil = now.Add(lentFor)
		w.frontier.SetAddr(h.name, h.addrs[0])
	}
}

// itemsOf reads the columns of a grant. Without refs only what names a URL is filled in.
func itemsOf(g *wire.Grant, refs map[job.ID]*jobRef) []item {
	items := make([]item, 0, len(g.GetUrl()))
	for i, url := range g.GetUrl() {
		it := item{url: string(url)}
		index := 0
		if len(g.GetJob()) > 0 {
			index = int(g.GetJob()[i])
		}
		id := job.ID(g.GetJobIds()[index])
		if it.job = refs[id]; it.job == nil {
			it.job = &jobRef{id: id}
		}
		if len(g.GetDepth()) > 0 {
			it.depth = g.GetDepth()[i]
		}
		if len(g.GetHops()) > 0 {
			it.hops = g.GetHops()[i]
		}
		if len(g.GetKind()) > 0 {
			it.kind = link.Kind(g.GetKind()[i])
		}
		if len(g.GetTries()) > 0 {
			it.tries = g.GetTries()[i]
		}
		if len(g.GetMaxBytes()) > 0 {
			it.maxBytes = int64(min(g.GetMaxBytes()[i], 1<<62)) //nolint:gosec // bounded
		}
		if link.Host(it.url) == g.GetHost() {
			items = append(items, it)
		}
	}
	return items
}

func (it *item) unfetched() *wire.Unfetched {
	return &wire.Unfetched{Job: it.job.id[:], Hash: link.Hash(it.job.id, it.url)}
}

func sameEpoch(a, b *wire.Epoch) bool {
	return a.GetCounter() == b.GetCounter() && string(a.GetPeer()) == string(b.GetPeer())
}
