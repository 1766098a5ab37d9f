package owner

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// needEvery is how long after one request for a job's spec the next one goes out.
const needEvery = 1000

// maxAsked bounds the jobs of which is remembered when they were asked for.
const maxAsked = 1024

// idleJobs is how many jobs are in memory before those are forgotten that nothing there needs.
const idleJobs = 1024

// jobState is a job on this peer.
type jobState struct {
	*ledger.Job
	dirty bool
	rest  string // of its record: fields of later versions

	farm    *farm.Farm // nil: not read yet
	farmMod bool
}

// seeded says whether a seed of the job is on a host.
func (js *jobState) seeded(host string) bool { return js.Spec != nil && js.Spec.Seeded(host) }

// jobTable are the jobs of which something was met here, each with its sums over hosts and its part
// of the budget. Those that nothing in memory needs are in the store alone once there are many.
type jobTable struct {
	*step
	byID   map[job.ID]*jobState
	order  []*jobState
	asked  map[job.ID]int64 // when the spec of a job was asked for
	lookAt int              // with how many of them it is looked which are needed
	away   jobState         // sums up those in the store alone
	some   bool             // some are
}

func newJobTable(s *step) *jobTable {
	return &jobTable{step: s, away: jobState{Job: new(ledger.Job)}, byID: make(map[job.ID]*jobState), asked: make(map[job.ID]int64)}
}

// of returns the peer's state of a job.
func (t *jobTable) of(id job.ID) *jobState {
	js := t.byID[id]
	if js == nil {
		js = &jobState{Job: &ledger.Job{ID: id, Budget: budget.New()}}
		if t.some {
			t.comesBack(js)
		}
		t.byID[id] = js
		t.order = append(t.order, js)
		js.Spec, js.State, js.Known = t.specs.Job(id)
	}
	return js
}

// load reads the jobs from the store, and says whether any has entries in the outbox.
func (t *jobTable) load() (outbox bool) {
	t.each(func(id job.ID, c ondisk.Counters) {
		t.of(id).Load(c)
		outbox = outbox || c.Entries > 0
	})
	for _, js := range t.order {
		t.loadBudget(js)
	}
	return outbox
}

// each calls fn for the counters of all jobs in the store.
func (t *jobTable) each(fn func(id job.ID, c ondisk.Counters)) {
	t.buf.Scan([]byte{ondisk.SpaceJob}, []byte{ondisk.SpaceJob + 1}, func(key, value []byte) bool {
		id, ok := job.IDFrom(key[1:])
		c, err := ondisk.DecodeCounters(value)
		if !ok {
			err = ondisk.ErrFormat
		}
		if err != nil {
			t.buf.Fail(fmt.Errorf("owner: job counters: %w", err))
			return false
		}
		fn(id, c)
		return true
	})
}

func (t *jobTable) loadBudget(js *jobState) {
	raw, ok := t.buf.Get(ondisk.JobKey(ondisk.SpaceBudget, js.ID))
	if !ok {
		return
	}
	a, err := ondisk.DecodeAccounts(raw)
	if err != nil {
		t.buf.Fail(fmt.Errorf("owner: account of job %s: %w", js.ID, err))
		return
	}
	js.Budget.Pages, js.Budget.Bytes, js.rest = a.Pages, a.Bytes, a.Rest
}

// inStore returns the sums of a job that may be in the store alone.
func (t *jobTable) inStore(id job.ID) (c ondisk.Counters, ok bool) {
	raw, ok := t.buf.Get(ondisk.JobKey(ondisk.SpaceJob, id))
	if !ok {
		return c, false
	}
	c, err := ondisk.DecodeCounters(raw)
	if err != nil {
		t.buf.Fail(fmt.Errorf("owner: counters of job %s: %w", id, err))
	}
	return c, err == nil
}

// comesBack takes a job into memory again.
func (t *jobTable) comesBack(js *jobState) {
	if c, ok := t.inStore(js.ID); ok {
		js.Load(c)
		t.away.Sum(&c, -1)
	}
	t.loadBudget(js)
}

// evict forgets the jobs that nothing here needs, once there are many: no host in memory is of
// them, none of their URLs or links waits, and nothing of their budget is to be told. Called when
// everything is flushed.
func (t *jobTable) evict(hosts map[string]*host) {
	if len(t.order) <= max(t.lookAt, idleJobs) {
		return
	}
	needed := make(map[*jobState]bool)
	for _, h := range hosts {
		for _, hj := range h.jobs {
			needed[hj.state] = true
		}
	}
	t.order = slices.DeleteFunc(t.order, func(js *jobState) bool {
		if needed[js] || js.dirty || js.Open() > 0 || js.Entries() > 0 || js.Budget.Drawing || t.drawAt(js) != never {
			return false
		}
		delete(t.byID, js.ID)
		c := js.Sums()
		t.away.Sum(&c, 1)
		t.some = true
		return true
	})
	t.lookAt = 2 * len(t.order)
}

func (t *jobTable) changed(js *jobState) {
	if !js.dirty {
		js.dirty = true
		t.dirtyJobs = append(t.dirtyJobs, js)
	}
}

func (t *jobTable) save(js *jobState) {
	js.dirty = false
	t.buf.Set(ondisk.JobKey(ondisk.SpaceJob, js.ID), js.Encode())
	if js.farmMod {
		js.farmMod = false
		t.buf.Set(ondisk.JobKey(ondisk.SpaceFarm, js.ID), js.farm.Append([]byte{ondisk.Format}))
	}
	if js.Budget.Changed {
		js.Budget.Changed = false
		t.buf.Set(ondisk.JobKey(ondisk.SpaceBudget, js.ID), (&ondisk.Accounts{Pages: js.Budget.Pages, Bytes: js.Budget.Bytes, Rest: js.rest}).Encode())
	}
}

// knows says whether a job's spec is at hand, and asks for it if not.
func (t *jobTable) knows(js *jobState) bool {
	if !js.Known {
		if js.Spec, js.State, js.Known = t.specs.Job(js.ID); !js.Known {
			t.need(js.ID)
		}
	}
	return js.Known
}

// known returns the state of a job whose spec is at hand, else nil, and asks for it. Nothing is
// kept of a job that only a stranger named.
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

// JobChanged says that a job became known, or has another state. Paused: nothing new is granted,
// what is out is finished. Canceled: pending URLs are dropped over the next steps; what is out may
// still be reported. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs.byID[id]
	if js == nil {
		return
	}
	js.Spec, js.State, js.Known = o.specs.Job(id)
	o.reviewer.job(js)
}
