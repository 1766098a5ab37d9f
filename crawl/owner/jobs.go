package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// needEvery is how long after one request for a job's spec the next one goes out.
const needEvery = 1000

// maxAsked bounds the jobs of which is remembered when they were asked for.
const maxAsked = 1024

// jobState is a job on this peer.
type jobState struct {
	id    job.ID
	spec  *job.Spec
	state job.State
	known bool
	c     sums
	dirty bool

	budget budget.Budget
	rest   string // of its record: fields of later versions

	farm    *farm.Farm // nil: not read yet
	farmMod bool
}

// seeded says whether a seed of the job is on a host.
func (js *jobState) seeded(host string) bool { return js.spec != nil && js.spec.Seeded(host) }

// jobTable are the jobs of which something was met here, each with its sums over hosts and its part of the budget.
type jobTable struct {
	*step
	byID  map[job.ID]*jobState
	order []*jobState
	asked map[job.ID]int64 // when the spec of a job was asked for
}

func newJobTable(s *step) *jobTable {
	return &jobTable{step: s, byID: make(map[job.ID]*jobState), asked: make(map[job.ID]int64)}
}

// of returns the peer's state of a job.
func (t *jobTable) of(id job.ID) *jobState {
	js := t.byID[id]
	if js == nil {
		js = &jobState{id: id, budget: budget.New()}
		t.byID[id] = js
		t.order = append(t.order, js)
		js.spec, js.state, js.known = t.specs.Job(id)
	}
	return js
}

// load reads the jobs from the store, and says whether any has entries in the outbox.
func (t *jobTable) load() (outbox bool) {
	t.buf.scan([]byte{ondisk.SpaceJob}, []byte{ondisk.SpaceJob + 1}, func(key, value []byte) bool {
		id, ok := job.IDFrom(key[1:])
		c, err := ondisk.DecodeCounters(value)
		if !ok {
			err = ondisk.ErrFormat
		}
		if err != nil {
			t.buf.fail(fmt.Errorf("owner: job counters: %w", err))
			return false
		}
		js := t.of(id)
		js.c.Counters = c
		outbox = outbox || c.Entries > 0
		return true
	})
	for _, js := range t.order {
		raw, ok := t.buf.get(ondisk.JobKey(ondisk.SpaceBudget, js.id))
		if !ok {
			continue
		}
		a, err := ondisk.DecodeAccounts(raw)
		if err != nil {
			t.buf.fail(fmt.Errorf("owner: account of job %s: %w", js.id, err))
			return outbox
		}
		js.budget.Pages, js.budget.Bytes, js.rest = a.Pages, a.Bytes, a.Rest
	}
	return outbox
}

func (t *jobTable) changed(js *jobState) {
	if !js.dirty {
		js.dirty = true
		t.dirtyJobs = append(t.dirtyJobs, js)
	}
}

func (t *jobTable) save(js *jobState) {
	js.dirty = false
	t.buf.set(ondisk.JobKey(ondisk.SpaceJob, js.id), js.c.Encode())
	if js.farmMod {
		js.farmMod = false
		t.buf.set(ondisk.JobKey(ondisk.SpaceFarm, js.id), js.farm.Append([]byte{ondisk.Format}))
	}
	if js.budget.Changed {
		js.budget.Changed = false
		t.buf.set(ondisk.JobKey(ondisk.SpaceBudget, js.id), (&ondisk.Accounts{Pages: js.budget.Pages, Bytes: js.budget.Bytes, Rest: js.rest}).Encode())
	}
}

// knows says whether a job's spec is at hand, and asks for it if not.
func (t *jobTable) knows(js *jobState) bool {
	if !js.known {
		if js.spec, js.state, js.known = t.specs.Job(js.id); !js.known {
			t.need(js.id)
		}
	}
	return js.known
}

// known returns the state of a job whose spec is at hand, else nil, and asks for it. Nothing is kept of a job that only a stranger named.
func (t *jobTable) known(id job.ID) *jobState {
	js := t.byID[id]
	if js == nil {
		if _, _, ok := t.specs.Job(id); !ok {
			t.need(id)
			return nil
		}
		js = t.of(id)
	}
	if !t.knows(js) {
		return nil
	}
	return js
}

// need asks for a job's spec, now and then.
func (t *jobTable) need(id job.ID) {
	if at, ok := t.asked[id]; ok && t.now-at < needEvery {
		return
	}
	if len(t.asked) >= maxAsked {
		clear(t.asked)
	}
	t.asked[id] = t.now
	t.ready.NeedJobs = append(t.ready.NeedJobs, id)
}

// JobChanged says that a job became known, or has another state. Paused: nothing new is granted, what is out is finished. Canceled: pending
// URLs are dropped over the next steps; what is out may still be reported. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs.byID[id]
	if js == nil {
		return
	}
	js.spec, js.state, js.known = o.specs.Job(id)
	o.reviewer.job(js)
}
