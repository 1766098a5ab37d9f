package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// JobChanged applies a new job or a new state of a job. Paused: nothing more is granted, and URLs
// that are out are finished. Canceled: pending URLs are dropped over the next steps, and outcomes
// of URLs that are out are still accepted. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs.ByID[id]
	if js == nil {
		return
	}
	js.Spec, js.State, js.Known = o.Specs.Job(id)
	o.reviewer.job(js)
}

// Drawn applies the reply to a Draw; nil if there was none. Part of a step.
func (o *Owner) Drawn(d hosts.Draw, reply *wire.JobReply) {
	js := o.jobs.ByID[d.Job]
	if js == nil || !js.Budget.Drawing || !js.Budget.Answered(d.Draw, reply, o.Now) {
		return
	}
	if js.Budget.Changed {
		o.jobs.Changed(js)
	}
	if reply.GetExhausted() && !o.jobs.Affords(js) && !js.Exhausted() {
		js.Exhaust()
		o.jobs.Changed(js)
	}
	o.reviewer.job(js)
}
