package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Draw takes from a job's budget at the job's owner.
type Draw struct {
	Job  job.ID     // whose budget it is
	Draw *wire.Draw // what to ask its owner
}

func (t *jobTable) demand(js *jobState) budget.Demand {
	return budget.Demand{Bounds: t.boundsOf(js.Spec), Waiting: js.Open() - js.Out(), Out: js.Out(), Grants: js.State.Grants(), Exhausted: js.Exhausted()}
}

// affords says whether a URL of the job may be granted now.
func (t *jobTable) affords(js *jobState) bool { return js.Budget.Affords(t.boundsOf(js.Spec)) }

// draws tells the owners of budgeted jobs what is needed, given back and spent.
func (t *jobTable) draws() {
	for _, js := range t.order {
		if t.drawAt(js) > t.now {
			continue
		}
		t.ready.Draws = append(t.ready.Draws, Draw{js.ID, js.Budget.Draw(t.demand(js), t.now)})
		if js.Budget.Changed {
			t.changed(js)
		}
	}
}

// drawAt is when the next draw of a job is due.
func (t *jobTable) drawAt(js *jobState) int64 {
	if !js.Known || !js.Spec.Budgeted() {
		return never
	}
	return js.Budget.DrawAt(t.demand(js))
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
	if js == nil || !js.Budget.Drawing || !js.Budget.Answered(d.Draw, reply, o.now) {
		return
	}
	if js.Budget.Changed {
		o.jobs.changed(js)
	}
	if reply.GetExhausted() && !o.jobs.affords(js) && !js.Exhausted() {
		js.Exhaust()
		o.jobs.changed(js)
	}
	o.reviewer.job(js)
}
