package owner

import (
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// granter gives workers the URLs that they asked for.
type granter struct {
	*step
	jobs   *jobTable
	agenda *agenda
	traps  *traps
	leases *leases
	wants  []want // of this step
}

// all serves what workers asked for in the step. Everything before is flushed, as the pending
// records are read from the store.
func (gr *granter) all() {
	for _, w := range gr.wants {
		w.lease.want = 0
		switch {
		case w.h.lease != w.lease:
			w.reply.revoke(w.h.rec.Name)
		case w.h.frozen > 0: // it asks again, here or where the host went
		case w.reply.bytes <= mostAnswer && (!w.lease.fresh || w.reply.bytes < mostRobots || !gr.hasLargeRobots(w.h)):
			gr.grant(w.h, w.n, w.reply)
		case w.lease.fresh: // the worker does not know it yet; of one that it knows it asks again
			gr.leases.end(w.h, released, 0)
			w.reply.revoke(w.h.rec.Name)
		}
	}
	clear(gr.wants)
	gr.wants, gr.wanted = gr.wants[:0], 0
}

// grant gives a worker URLs of a host by depth and arrival, among them some that are due again, the
// host's jobs in turn.
func (gr *granter) grant(h *host, n int, reply *answer) {
	l := h.lease
	g := &wire.Grant{Host: h.rec.Name, Epoch: l.epoch.Wire(), GiveBack: h.search.replace}
	n = min(n, gr.traps.window(h)-len(l.out), wire.MaxGrant)
	if l.bounded {
		n = min(n, l.left)
	}
	left := 0 // URLs that were looked at and not granted
	if n > 0 && !h.search.replace && gr.agenda.urlsAt(h) <= gr.now {
		left = gr.fill(h, n, g)
	}
	if l.left -= len(g.GetUrl()); l.bounded && l.left <= 0 {
		g.GiveBack = true // once what it has is done; the next worker is chosen then
	}
	g.More = !g.GetGiveBack() && (gr.agenda.urlsAt(h) <= gr.now || h.starved())
	if l.fresh && len(g.GetUrl()) == 0 {
		if left == 0 {
			h.search.pause(gr.now)
		}
		gr.leases.end(h, released, 0)
		reply.revoke(h.rec.Name)
		return
	}
	f := max(l.pace, 1)
	if paced := max(l.told, 1); f > paced || f < paced {
		g.PacePct = uint32(min(f*100, wire.MaxPacePct))
		l.told = f
	}
	if l.fresh {
		l.fresh = false
		gr.introduce(h, g)
	}
	if len(g.GetUrl()) > 0 {
		l.last = l.session.seq
	}
	reply.m.Grants = append(reply.m.Grants, g)
	reply.bytes += proto.Size(g)
	gr.agenda.changed(h)
}

// hasLargeRobots says whether what is known of the host's robots.txt is more than an answer has
// room for beside large ones.
func (gr *granter) hasLargeRobots(h *host) bool {
	size := 0
	prefix := ondisk.HostPrefix(h.pos, ondisk.KindRobots)
	gr.buf.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
		size += len(value)
		return size <= smallRobots
	})
	return size > smallRobots
}

// introduce tells a new worker what it has to know of a host, its robots.txt included: else the
// worker would ask the site again.
func (gr *granter) introduce(h *host, g *wire.Grant) {
	until := gr.politeAt(h)
	if h.rec.BackoffUntil > until {
		until, g.BackoffReason = h.rec.BackoffUntil, ondisk.Clip(h.rec.BackoffReason) // others may have cut it
	}
	g.NotBeforeMs = uint32(min(max(until-gr.now, 0), 1<<31))
	g.Addrs = h.rec.Addrs
	prefix := ondisk.HostPrefix(h.pos, ondisk.KindRobots)
	gr.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if state, err := ondisk.RobotsState(value); err == nil {
			g.Robots = append(g.Robots, &wire.Robots{Origin: string(key[len(prefix):]), State: append([]byte(nil), state...)})
		}
		return len(g.GetRobots()) < wire.MaxOrigins
	})
}

// fill puts up to n URLs into a grant, and says how many it left out.
func (gr *granter) fill(h *host, n int, g *wire.Grant) int {
	f := filler{granter: gr, h: h, g: g, room: n}
	jobs := len(h.jobs)
	first := h.turn
	h.turn++
	for round := 0; round < 2 && !f.full(); round++ {
		// In the first round every job has its share, in the second the first ones may have what is
		// left.
		share := (f.room + jobs - 1) / jobs
		for i := range jobs {
			hj := h.jobs[(first+i)%jobs]
			limit := share
			if round == 1 {
				limit = f.room
			}
			f.job(hj, min(limit, f.room))
		}
		if jobs == 1 {
			break
		}
	}
	return len(f.gone)
}

// filler fills one grant.
type filler struct {
	*granter
	h      *host
	g      *wire.Grant
	room   int
	bytes  int                 // of the URLs
	alone  bool                // nothing may be granted beside what is out
	gone   map[uint64]struct{} // URLs that got their outcome here and may still be in the store
	column int                 // index of the current job in the grant's table
}

func (f *filler) full() bool {
	return f.room <= 0 || f.alone || f.bytes > mostURLs || f.column < 0 && len(f.g.GetJobIds()) == wire.MaxJobs
}

// job grants up to limit URLs of one job.
func (f *filler) job(hj *hostJob, limit int) {
	f.column = -1
	if limit <= 0 || f.full() || f.agenda.jobAt(f.h, hj) > f.now {
		return
	}
	late := limit
	if hj.Tally.Ready() > 0 {
		hj.late = min(hj.late+limit, lateMost)
		late = min(limit, hj.late/lateShare)
	}
	n := f.scan(hj, late, true)
	hj.late -= min(n*lateShare, hj.late)
	limit -= n
	limit -= f.scan(hj, limit, false)
	f.scan(hj, limit, true)
}

// While other URLs wait, one of lateShare is one that is due again, as most of those were put
// behind the others; lateMost bounds what such URLs save up.
const (
	lateShare = 8
	lateMost  = 64
)

// scan grants delayed URLs whose time has come, or ready ones, and moves the marks from which the
// next scan starts.
func (f *filler) scan(hj *hostJob, limit int, delayed bool) (granted int) {
	if limit <= 0 || f.full() || delayed && hj.NextDue() > f.now || !delayed && hj.Tally.Ready() <= 0 {
		return 0
	}
	w := walk{filler: f, hj: hj, limit: limit}
	hj.Walk(delayed, w.meet)
	f.leave(hj, w.gone)
	return w.granted
}

// walk is one over the URLs of a job that wait, in their order.
type walk struct {
	*filler
	hj             *hostJob
	limit, granted int
	gone           []notGranted
}

// meet grants a URL, or leaves it behind; false if the walk ends.
func (w *walk) meet(at *ledger.Walk, p *ondisk.Pending) (more bool) {
	if _, done := w.filler.gone[p.Hash]; done {
		return true
	}
	if w.h.lease.item(p.Hash) != nil {
		at.Pass(p.Spot) // it is looked at again only if it comes back
		return true
	}
	if w.granted == w.limit || w.full() || p.Due > w.now {
		at.Leave(p.Spot)
		return false
	}
	if out, left := w.left(w.hj, p); left {
		if w.gone = append(w.gone, out); len(w.gone) == purgePerStep {
			at.Leave(p.Spot) // the next walk goes on here
		}
		return len(w.gone) < purgePerStep
	}
	if !w.mayGrant(w.hj, p) {
		at.Leave(p.Spot)
		return !w.alone && w.hj.Tally.PromisedHere() > 0
	}
	w.add(w.hj, p)
	w.granted++
	at.Pass(p.Spot)
	return true
}

// notGranted is a URL that waits and is not granted.
type notGranted struct {
	ondisk.Pending
	outcome link.Outcome // none: it goes last
	why     string
	due     int64 // when it does so
}

// left says why a URL is to be left out that was taken in: it came onto the list of this peer
// since, its like turned out to be a trap, or is about to.
func (f *filler) left(hj *hostJob, p *ondisk.Pending) (out notGranted, left bool) {
	if why := f.cfg.OptOuts.URL(p.URL); why != "" {
		return notGranted{Pending: *p, outcome: link.OutcomeOptedOut, why: why}, true
	}
	switch {
	case hj.Tally.Ready() > 1 && !p.Promised && f.h.hangs.last(p.URL, p.Tries > 0):
		return notGranted{Pending: *p, due: f.now + lastMost}, true
	case f.cfg.Novelty > 0 && p.Kind == link.KindSitemap:
		return f.sitemap(hj, p)
	case f.cfg.Novelty == 0 || p.Kind != link.KindPage:
		return out, false
	}
	switch v := f.traps.of(f.h, hj).Verdict(p.URL, f.cfg.Novelty); {
	case v.Stop:
		return notGranted{Pending: *p, outcome: link.OutcomeTrap, why: v.Why}, true
	case v.Last && p.Due == 0 && !p.Promised && f.cfg.Delay > 0 && hj.Tally.Ready() > 1:
		return notGranted{Pending: *p, due: f.lastAt()}, true
	default:
		return out, false
	}
}

// leave gives URLs their outcome without being tried, and those that go last a time at which they
// are due.
func (f *filler) leave(hj *hostJob, gone []notGranted) {
	for i := range gone {
		p := &gone[i].Pending
		if f.gone == nil {
			f.gone = make(map[uint64]struct{})
		}
		f.gone[p.Hash] = struct{}{}
		if gone[i].outcome == link.OutcomeNone {
			hj.Wait(p, gone[i].due)
			continue
		}
		hj.Settle(p, 0, 0)
		hj.Conclude(p, ondisk.Final{Outcome: gone[i].outcome, Detail: ondisk.Clip(gone[i].why)})
	}
}

// mayGrant holds back what the job's budgets do not reach for, unless it is paid for already, and
// what must be alone.
func (f *filler) mayGrant(hj *hostJob, p *ondisk.Pending) bool {
	js := hj.state
	if f.requestsLeft(hj) <= 0 {
		return false
	}
	if p.Promised {
		return f.mayBeside(p)
	}
	if !f.jobs.affords(js) {
		js.Budget.Starved = true
		return false
	}
	return hj.pagesLeft() > 0 && f.mayBeside(p)
}

// mayBeside holds back what must be alone.
func (f *filler) mayBeside(p *ondisk.Pending) bool {
	if p.Lapses < aloneAfter {
		return true
	}
	f.alone = true
	return len(f.h.lease.out) == 0
}

// add puts one URL into the grant and the lease.
func (f *filler) add(hj *hostJob, p *ondisk.Pending) {
	g := f.g
	hj.Promise(p, f.now)
	if f.column < 0 {
		f.column = len(g.GetJobIds())
		g.JobIds = append(g.JobIds, hj.state.ID[:])
	}
	g.Url = append(g.Url, []byte(p.URL))
	f.bytes += len(p.URL)
	g.Job = append(g.Job, uint32(f.column)) // a handful
	g.Depth = append(g.Depth, p.Depth)
	g.Hops = append(g.Hops, p.Hops)
	g.Kind = append(g.Kind, byte(p.Kind))
	g.Tries = append(g.Tries, p.Tries)
	g.MaxBytes = append(g.MaxBytes, p.PromisedBytes)
	it := &item{Pending: *p, job: hj, seq: f.h.lease.session.seq}
	it.URL = ""
	f.h.lease.out[p.Hash] = it
	hj.Lease(p)
	f.room--
}

// pagesLeft is how many more URLs the job's limit for a host admits: pages that are there and URLs
// that may have been fetched count.
func (hj *hostJob) pagesLeft() int64 {
	spec := hj.state.Spec
	if spec.MaxPagesPerHost == 0 {
		return 1 << 62
	}
	return int64(min(spec.MaxPagesPerHost, 1<<62)) - hj.Tally.Pages() - hj.Tally.Promised()
}
