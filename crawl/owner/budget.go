package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// How often an account is told to the job's owner: what changed at the latest after reportEvery, and while something is held at least
// every refreshEvery, so that the job's owner does not take this peer for dead.
const (
	reportEvery  = 5_000
	refreshEvery = 30_000
	drawTimeout  = 10_000
)

// drawShare parts of a budget are drawn at a time at most, so that one peer does not take all of it; and of bytes so many reserves.
const drawShare = 16

// affords says whether a URL of the job may be granted now.
func (o *Owner) affords(js *jobState) bool {
	return (js.spec.MaxPages == 0 || js.pages.free() > 0) && (js.spec.MaxBytes == 0 || js.bytes.free() >= o.minBytes(js))
}

// minBytes is the least of a byte budget that a URL is granted with: with less, the last pages of a job would only be found too large.
func (o *Owner) minBytes(js *jobState) uint64 {
	return max(min(o.cfg.ByteReserve, js.spec.MaxBytes/4)/16, 1)
}

// bounded says whether URLs of the job are granted against a promise.
func bounded(spec *job.Spec) bool { return spec.Budgeted() || spec.MaxPagesPerHost > 0 }

// promise binds a part of the job's budget to a URL that is granted, unless one is bound to it already.
func (o *Owner) promise(h *host, hj *hostJob, p *pending) {
	js := hj.state
	js.granted = o.now
	if !bounded(js.spec) || p.promised {
		return
	}
	p.promised = true
	hj.c.promised++
	js.c.promised++
	if js.spec.MaxPages > 0 {
		js.pages.bound++
	}
	if js.spec.MaxBytes > 0 {
		p.promisedBytes = min(o.cfg.ByteReserve, js.bytes.free())
		js.bytes.bound += p.promisedBytes
	}
	o.buf.set(p.key(h.pos, js.id), p.encode())
	o.changedAccount(js)
	o.changed(h, hj)
}

// settle ends the promise to a URL: a page is spent if there is one, of the bytes what was read, and the rest is free again. The caller writes the
// record anew or deletes it.
func (o *Owner) settle(h *host, hj *hostJob, p *pending, pages, size uint64) {
	if !p.promised {
		return
	}
	js := hj.state
	hj.c.promised--
	js.c.promised--
	o.changed(h, hj)
	if p.foreign {
		p.promised, p.foreign, p.promisedBytes = false, false, 0
		return
	}
	if js.spec == nil || js.spec.MaxPages > 0 {
		js.pages.bound -= min(1, js.pages.bound)
		js.pages.used += pages
	}
	js.bytes.bound -= p.promisedBytes
	js.bytes.used += min(size, p.promisedBytes)
	p.promised, p.promisedBytes = false, 0
	o.changedAccount(js)
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
func (o *Owner) cede(h *host) {
	for _, hj := range h.jobs {
		if hj.c.promised == 0 {
			continue
		}
		var pages, bytes uint64
		for _, kind := range []byte{kindReady, kindDelayed} {
			prefix := jobPrefix(h.pos, kind, hj.state.id)
			o.buf.scan(prefix, prefixEnd(prefix), func(_, value []byte) bool {
				if p, err := decodeValue(value); err == nil && p.promised && !p.foreign {
					pages, bytes = pages+1, bytes+p.promisedBytes
				}
				return true
			})
		}
		hj.state.pages.spend(pages)
		hj.state.bytes.spend(bytes)
		o.changedAccount(hj.state)
	}
}

func pageOf(outcome link.Outcome) uint64 {
	if outcome.Fetched() {
		return 1
	}
	return 0
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
			if js.out == 0 {
				// Nothing comes back here; what is held of the one budget must not keep another peer from using the other.
				o.giveBack(js)
			}
			if js.spec.MaxPages > 0 && js.pages.free() == 0 {
				d.Pages = min(uint64(max(need, 1)), o.cfg.DrawPages, max(js.spec.MaxPages/drawShare, 1))
			}
			if js.spec.MaxBytes > 0 && js.bytes.free() < o.minBytes(js) {
				d.Bytes = min(drawShare*o.cfg.ByteReserve, max(js.spec.MaxBytes/drawShare, o.cfg.ByteReserve))
			}
		} else if need == 0 || js.out == 0 && o.now >= js.granted+reportEvery {
			o.giveBack(js)
		}
		if js.spec.MaxBytes > 0 {
			d.MinBytes = o.minBytes(js)
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
	case js.out == 0 && js.pages.free()+js.bytes.free() > 0:
		return max(js.drawn+askEvery, js.granted+reportEvery)
	case js.account() != js.reported:
		return js.drawn + reportEvery
	case js.pages.free()+js.pages.bound+js.bytes.free()+js.bytes.bound > 0:
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
		js.granted = o.now
		js.drawn = o.now - askEvery // more is asked for at once if this is not enough
		o.changedAccount(js)
	}
	if reply.GetExhausted() && !o.affords(js) && !js.c.exhausted {
		js.c.exhausted = true
		o.changedJob(js)
	}
	js.starved = false
	o.reviewJob(js)
}

// Exhausted says whether a job's budget is used up, as far as this peer was told.
func (o *Owner) Exhausted(id job.ID) bool {
	js := o.jobs[id]
	return js != nil && js.c.exhausted
}
