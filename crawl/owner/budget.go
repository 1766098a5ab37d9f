package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// How often an account is told to the job's owner: what changed at the latest after reportEvery, and while something is held at least
// every refreshEvery, so that the job's owner does not take this peer for dead.
const (
	reportEvery  = 5_000
	refreshEvery = 30_000
	drawTimeout  = 10_000
)

// drawBytes is how many reserves are drawn of a byte budget at a time.
const drawBytes = 16

// token is the part of a job's budget that is bound to one URL.
type token struct {
	page  bool
	bytes uint64
	own   bool // the worker is this process's own
}

// affords says whether a URL of the job may be granted now.
func (js *jobState) affords() bool {
	return (js.spec.MaxPages == 0 || js.pages.free() > 0) && (js.spec.MaxBytes == 0 || js.bytes.free() > 0)
}

// bind takes a token for a URL that is granted; one that an earlier lease paid for keeps what it has.
func (o *Owner) bind(js *jobState, p *pending, own bool) (t token) {
	if !js.spec.Budgeted() {
		return t
	}
	t.own = own
	if js.spec.MaxPages > 0 {
		t.page = true
		if p.paidPage {
			js.pages.paid--
		}
		*js.pages.bound(own)++
	}
	if js.spec.MaxBytes > 0 {
		if t.bytes = p.paidBytes; t.bytes > 0 {
			js.bytes.paid -= t.bytes
		} else {
			t.bytes = min(o.cfg.ByteReserve, js.bytes.free())
		}
		*js.bytes.bound(own) += t.bytes
	}
	p.paidPage, p.paidBytes = false, 0
	o.changedAccount(js)
	return t
}

func (a *account) bound(own bool) *uint64 {
	if own {
		return &a.own
	}
	return &a.out
}

// settle ends a token: the page is spent if there is one, of the bytes what was read, and the rest is free again.
func (o *Owner) settle(js *jobState, t token, page bool, size uint64) {
	if t.page {
		*js.pages.bound(t.own)--
		if page {
			js.pages.used++
		}
	}
	if t.bytes > 0 {
		*js.bytes.bound(t.own) -= t.bytes
		js.bytes.used += min(size, t.bytes)
	}
	if t.page || t.bytes > 0 {
		o.changedAccount(js)
	}
}

// keepPaid leaves a token with its URL, as its lease lapsed and its report may still come.
func (o *Owner) keepPaid(js *jobState, p *pending, t token) {
	if t.page {
		*js.pages.bound(t.own)--
		js.pages.paid++
		p.paidPage = true
	}
	if t.bytes > 0 {
		*js.bytes.bound(t.own) -= t.bytes
		js.bytes.paid += t.bytes
		p.paidBytes = t.bytes
	}
	if t.page || t.bytes > 0 {
		o.changedAccount(js)
	}
}

// settlePaid ends what a lapsed lease paid for. dropped: the URL gets an outcome without a report, which may still come; so it is all spent.
func (o *Owner) settlePaid(js *jobState, p *pending, page bool, size uint64, dropped bool) {
	if p.paidPage {
		js.pages.paid--
		if page || dropped {
			js.pages.used++
		}
		o.changedAccount(js)
	}
	if p.paidBytes > 0 {
		js.bytes.paid -= p.paidBytes
		if dropped {
			size = p.paidBytes
		}
		js.bytes.used += min(size, p.paidBytes)
		o.changedAccount(js)
	}
	p.paidPage, p.paidBytes = false, 0
}

func (js *jobState) account() [6]uint64 {
	return [6]uint64{js.pages.drawn, js.pages.returned, js.pages.used, js.bytes.drawn, js.bytes.returned, js.bytes.used}
}

// draws tells the owners of budgeted jobs what is needed, given back and spent.
func (o *Owner) draws() {
	for _, js := range o.jobOrder {
		if !js.known || !js.spec.Budgeted() || o.drawAt(js) > o.now {
			continue
		}
		d := &wire.Draw{}
		if need := o.unleasedOf(js); js.starved && !js.c.exhausted {
			if js.spec.MaxPages > 0 && js.pages.free() == 0 {
				d.Pages = min(uint64(max(need, 1)), o.cfg.DrawPages)
			}
			if js.spec.MaxBytes > 0 && js.bytes.free() == 0 {
				d.Bytes = drawBytes * o.cfg.ByteReserve
			}
		} else if need == 0 {
			o.giveBack(js)
		}
		d.ReturnPages, d.DrawnPages, d.UsedPages = js.pages.returned, js.pages.drawn, js.pages.used
		d.ReturnBytes, d.DrawnBytes, d.UsedBytes = js.bytes.returned, js.bytes.drawn, js.bytes.used
		js.drawing, js.drawn = true, o.now
		o.ready.Draws = append(o.ready.Draws, Draw{js.id, d})
	}
}

// giveBack returns what the peer has no use for.
func (o *Owner) giveBack(js *jobState) {
	for _, a := range []*account{&js.pages, &js.bytes} {
		if n := a.free(); n > 0 {
			a.returned += n
			o.changedAccount(js)
		}
	}
}

// unleasedOf counts the URLs of a job that wait here.
func (o *Owner) unleasedOf(js *jobState) int64 { return js.c.open() - js.out }

// drawAt is when the next draw of a job is due.
func (o *Owner) drawAt(js *jobState) int64 {
	switch {
	case !js.known || !js.spec.Budgeted():
		return never
	case js.drawing:
		return js.drawn + drawTimeout
	case js.starved && !js.c.exhausted && js.state.Grants():
		return js.drawn + askEvery
	case o.unleasedOf(js) == 0 && js.out == 0 && (js.account() != js.reported || js.pages.free()+js.bytes.free() > 0):
		return js.drawn + askEvery
	case js.account() != js.reported:
		return js.drawn + reportEvery
	case js.pages.free()+js.pages.own+js.pages.out+js.pages.paid+js.bytes.free()+js.bytes.own+js.bytes.out+js.bytes.paid > 0:
		return js.drawn + refreshEvery
	default:
		return never
	}
}

func (o *Owner) nextDraw() int64 {
	at := never
	for _, js := range o.jobOrder {
		at = min(at, o.drawAt(js))
	}
	return at
}

// Drawn brings the answer to a Draw; nil if there was none. Part of a step.
func (o *Owner) Drawn(d Draw, reply *wire.JobReply) {
	js := o.jobs[d.Job]
	if js == nil || !js.drawing {
		return
	}
	js.drawing, js.drawn = false, o.now
	if reply == nil || reply.GetError() != "" {
		return
	}
	js.reported = [6]uint64{
		js.pages.drawn, d.Draw.GetReturnPages(), d.Draw.GetUsedPages(), js.bytes.drawn, d.Draw.GetReturnBytes(), d.Draw.GetUsedBytes(),
	}
	if reply.GetPages() > js.pages.drawn || reply.GetBytes() > js.bytes.drawn {
		js.pages.drawn = max(js.pages.drawn, reply.GetPages())
		js.bytes.drawn = max(js.bytes.drawn, reply.GetBytes())
		js.reported[0], js.reported[3] = js.pages.drawn, js.bytes.drawn
		js.drawn = o.now - askEvery // more is asked for at once if this is not enough
		o.changedAccount(js)
	}
	if reply.GetExhausted() && !js.affords() && !js.c.exhausted {
		js.c.exhausted = true
		o.changedJob(js)
	}
	js.starved = false
	o.wakeJob(js)
}

// Exhausted says whether a job's budget is used up, as far as this peer was told.
func (o *Owner) Exhausted(id job.ID) bool {
	js := o.jobs[id]
	return js != nil && js.c.exhausted
}
