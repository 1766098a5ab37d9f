package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/novelty"
)

// askEvery is how long after one request for a job's spec, or for a part of its budget that brought nothing, the next one goes out.
const askEvery = 1000

// maxAsked bounds the jobs of which is remembered when they were asked for.
const maxAsked = 1024

// jobState is a job on this peer.
type jobState struct {
	id    job.ID
	spec  *job.Spec
	state job.State
	known bool
	c     counters // sums over hosts
	out   int64
	dirty bool

	budget budget

	farm    *novelty.Farm // nil: not read yet
	farmMod bool
}

// job returns the peer's state of a job.
func (o *Owner) job(id job.ID) *jobState {
	js := o.jobs[id]
	if js == nil {
		js = &jobState{id: id, budget: newBudget()}
		o.jobs[id] = js
		o.jobOrder = append(o.jobOrder, js)
		js.spec, js.state, js.known = o.specs.Job(id)
	}
	return js
}

func (o *Owner) loadJobs() {
	o.buf.scan([]byte{spaceJob}, []byte{spaceJob + 1}, func(key, value []byte) bool {
		id, ok := job.IDFrom(key[1:])
		c, err := decodeCounters(value)
		if !ok || err != nil {
			o.buf.fail(fmt.Errorf("owner: job counters: %w", errFormat))
			return false
		}
		js := o.job(id)
		js.c = c
		o.outbox.spilled = o.outbox.spilled || c.entries > 0
		return true
	})
	for _, js := range o.jobOrder {
		raw, ok := o.buf.get(jobKey(spaceBudget, js.id))
		if !ok {
			continue
		}
		var err error
		if js.budget.pages, js.budget.bytes, err = decodeAccounts(raw); err != nil {
			o.buf.fail(fmt.Errorf("owner: account of job %s: %w", js.id, err))
			return
		}
	}
}

func (o *Owner) changedJob(js *jobState) {
	if !js.dirty {
		js.dirty = true
		o.dirtyJobs = append(o.dirtyJobs, js)
	}
}

func (o *Owner) saveJob(js *jobState) {
	js.dirty = false
	o.buf.set(jobKey(spaceJob, js.id), js.c.encode())
	if js.farmMod {
		js.farmMod = false
		o.buf.set(jobKey(spaceFarm, js.id), js.farm.Append([]byte{format}))
	}
	if js.budget.changed {
		js.budget.changed = false
		o.buf.set(jobKey(spaceBudget, js.id), encodeAccounts(&js.budget.pages, &js.budget.bytes))
	}
}

// knows says whether a job's spec is at hand, and asks for it if not.
func (o *Owner) knows(js *jobState) bool {
	if !js.known {
		if js.spec, js.state, js.known = o.specs.Job(js.id); !js.known {
			o.need(js.id)
		}
	}
	return js.known
}

// knownJob returns the state of a job whose spec is at hand, else nil, and asks for it. Nothing is kept of a job that only a stranger named.
func (o *Owner) knownJob(id job.ID) *jobState {
	js := o.jobs[id]
	if js == nil {
		if _, _, ok := o.specs.Job(id); !ok {
			o.need(id)
			return nil
		}
		js = o.job(id)
	}
	if !o.knows(js) {
		return nil
	}
	return js
}

// need asks for a job's spec, now and then.
func (o *Owner) need(id job.ID) {
	if at, ok := o.asked[id]; ok && o.now-at < askEvery {
		return
	}
	if len(o.asked) >= maxAsked {
		clear(o.asked)
	}
	o.asked[id] = o.now
	o.ready.NeedJobs = append(o.ready.NeedJobs, id)
}

// JobChanged says that a job became known, or has another state. Paused: nothing new is granted, what is out is finished. Canceled: pending
// URLs are dropped over the next steps; what is out may still be reported. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs[id]
	if js == nil {
		return
	}
	js.spec, js.state, js.known = o.specs.Job(id)
	o.reviewJob(js)
}
