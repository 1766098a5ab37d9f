package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// Draw takes from a job's budget at the job's owner.
type Draw struct {
	Job  job.ID     // whose budget it is
	Draw *wire.Draw // what to ask its owner
}

func (t *jobTable) demand(js *jobState) budget.Demand {
	return budget.Demand{Bounds: t.boundsOf(js), Waiting: js.c.Open() - js.c.out, Out: js.c.out, Grants: js.state.Grants(), Exhausted: js.c.Exhausted}
}

// affords says whether a URL of the job may be granted now.
func (t *jobTable) affords(js *jobState) bool { return js.budget.Affords(t.boundsOf(js)) }

// promise binds a part of the job's budget to a URL that is granted, unless one is bound to it already.
func (u *urlSets) promise(h *host, hj *hostJob, p *ondisk.Pending) {
	js := hj.state
	js.budget.Granted = u.now
	if !budget.Bounded(js.spec) || p.Promised {
		return
	}
	p.Promised = true
	hj.c.promises(1)
	p.PromisedBytes = js.budget.Promise(u.boundsOf(js))
	u.buf.Set(p.Key(h.pos, js.id), p.Encode())
	u.hosts.changed(h, hj)
}

// settle ends the promise to a URL: a page is spent if there is one, of the bytes what was read, and the rest is free again. The caller writes the
// record anew or deletes it.
func (u *urlSets) settle(h *host, hj *hostJob, p *ondisk.Pending, pages, size uint64) {
	if !p.Promised {
		return
	}
	js := hj.state
	hj.c.promises(-1)
	u.hosts.changed(h, hj)
	if !p.Foreign {
		js.budget.Settle(js.spec == nil || js.spec.MaxPages > 0, p.PromisedBytes, pages, size)
	}
	p.Promised, p.Foreign, p.PromisedBytes = false, false, 0
}

// cede books the promises to URLs of a host that another owner keeps from now on. What the host's records say is promised is paid for by the peer that drew
// it, and by nobody else, whoever learns of the outcome:
//
//   - This peer counts such a page, with the bytes reserved for it, as spent the moment it removes the host. So nothing it holds could still come back, and a
//     budget is found exhausted without waiting for it.
//   - The owner that imports the record keeps the promise as foreign: it grants the URL without drawing for it, counts it among the pages that a host may
//     have, and its own account does not know of it.
//   - If this peer dies instead, its account at the job's owner keeps the page as drawn and not spent, which no longer counts as coming back once the
//     peer was silent for two minutes. Should it return it finds the host elsewhere, hands over what it has, and books the promises then.
//
// So a page is never paid for twice, and none is fetched that nobody paid for: no overshoot. What is lost to a budget is what a peer that dies for good had
// drawn and not promised, and each promise to a URL that ended without a page after its host moved: the job ends that much below its budget.
func (u *urlSets) cede(h *host) {
	for _, hj := range h.jobs {
		if hj.c.Promised == 0 {
			continue
		}
		var pages, bytes uint64
		for _, kind := range []byte{ondisk.KindReady, ondisk.KindDelayed} {
			prefix := ondisk.JobPrefix(h.pos, kind, hj.state.id)
			u.buf.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
				if p, err := ondisk.DecodeWaiting(value); err == nil && p.Promised && !p.Foreign {
					pages, bytes = pages+1, bytes+p.PromisedBytes
				}
				return true
			})
		}
		hj.state.budget.Cede(pages, bytes)
		u.jobs.changed(hj.state)
	}
}

// draws tells the owners of budgeted jobs what is needed, given back and spent.
func (t *jobTable) draws() {
	for _, js := range t.order {
		if t.drawAt(js) > t.now {
			continue
		}
		t.ready.Draws = append(t.ready.Draws, Draw{js.id, js.budget.Draw(t.demand(js), t.now)})
		if js.budget.Changed {
			t.changed(js)
		}
	}
}

// drawAt is when the next draw of a job is due.
func (t *jobTable) drawAt(js *jobState) int64 {
	if !js.known || !js.spec.Budgeted() {
		return never
	}
	return js.budget.DrawAt(t.demand(js))
}

func (t *jobTable) nextDraw() int64 {
	at := never
	for _, js := range t.order {
		at = min(at, t.drawAt(js))
	}
	return at
}

// Drawn brings the answer to a Draw; nil if there was none. Part of a step.
func (o *Owner) Drawn(d Draw, reply *wire.JobReply) {
	js := o.jobs.byID[d.Job]
	if js == nil || !js.budget.Drawing || !js.budget.Answered(d.Draw, reply, o.now) {
		return
	}
	if js.budget.Changed {
		o.jobs.changed(js)
	}
	if reply.GetExhausted() && !o.jobs.affords(js) && !js.c.Exhausted {
		js.c.Exhausted = true
		o.jobs.changed(js)
	}
	o.reviewer.job(js)
}
