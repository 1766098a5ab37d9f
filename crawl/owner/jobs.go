package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// JobChanged says that a job became known, or has another state. Paused: nothing new is granted,
// what is out is finished. Canceled: pending URLs are dropped over the next steps; what is out may
// still be reported. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs.ByID[id]
	if js == nil {
		return
	}
	js.Spec, js.State, js.Known = o.Specs.Job(id)
	o.reviewer.job(js)
}

// Drawn brings the answer to a Draw; nil if there was none. Part of a step.
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
