package hosts

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// JobState is a job on this peer.
type JobState struct {
	*ledger.Job
	dirty bool
	rest  string // of its record: fields of later versions

	farm    *farm.Farm // nil: not read yet
	FarmMod bool
}

// Seeded says whether a seed of the job is on a host.
func (js *JobState) Seeded(host string) bool { return js.Spec != nil && js.Spec.Seeded(host) }

// JobTable are the jobs of which something was met here, each with its sums over hosts and its part
// of the budget. Those that nothing in memory needs are in the store alone once there are many.
type JobTable struct {
	*Step
	ByID   map[job.ID]*JobState
	Order  []*JobState
	asked  map[job.ID]int64 // when the spec of a job was asked for
	lookAt int              // with how many of them it is looked which are needed
	Away   JobState         // sums up those in the store alone
	Some   bool             // some are
}

func (t *JobTable) demand(js *JobState) budget.Demand {
	return budget.Demand{Bounds: t.BoundsOf(js.Spec), Waiting: js.Open() - js.Out(), Out: js.Out(), Grants: js.State.Grants(), Exhausted: js.Exhausted()}
}

// Affords says whether a URL of the job may be granted now.
func (t *JobTable) Affords(js *JobState) bool { return js.Budget.Affords(t.BoundsOf(js.Spec)) }

// Draws tells the owners of budgeted jobs what is needed, given back and spent.
func (t *JobTable) Draws() {
	for _, js := range t.Order {
		if t.drawAt(js) > t.Now {
			continue
		}
		t.Ready.Draws = append(t.Ready.Draws, Draw{js.ID, js.Budget.Draw(t.demand(js), t.Now)})
		if js.Budget.Changed {
			t.Changed(js)
		}
	}
}

// drawAt is when the next draw of a job is due.
func (t *JobTable) drawAt(js *JobState) int64 {
	if !js.Known || !js.Spec.Budgeted() {
		return Never
	}
	return js.Budget.DrawAt(t.demand(js))
}

// NextDraw is when a part of a budget is to be asked for.
func (t *JobTable) NextDraw() int64 {
	at := Never
	for _, js := range t.Order {
		at = min(at, t.drawAt(js))
	}
	return at
}

// NeedEvery is how long after one request for a job's spec the next one goes out.
const NeedEvery = 1000

// maxAsked bounds the jobs of which is remembered when they were asked for.
const maxAsked = 1024

// IdleJobs is how many jobs are in memory before those are forgotten that nothing there needs.
const IdleJobs = 1024

// Of returns the peer's state of a job.
func (t *JobTable) Of(id job.ID) *JobState {
	js := t.ByID[id]
	if js == nil {
		js = &JobState{Job: &ledger.Job{ID: id, Budget: budget.New()}}
		if t.Some {
			t.comesBack(js)
		}
		t.ByID[id] = js
		t.Order = append(t.Order, js)
		js.Spec, js.State, js.Known = t.Specs.Job(id)
	}
	return js
}

// Load reads the jobs from the store, and says whether any has entries in the outbox.
func (t *JobTable) Load() (outbox bool) {
	t.Each(func(id job.ID, c ondisk.Counters) {
		t.Of(id).Load(c)
		outbox = outbox || c.Entries > 0
	})
	for _, js := range t.Order {
		t.loadBudget(js)
	}
	return outbox
}

// Each calls fn for the counters of all jobs in the store.
func (t *JobTable) Each(fn func(id job.ID, c ondisk.Counters)) {
	t.Buf.Scan([]byte{ondisk.SpaceJob}, []byte{ondisk.SpaceJob + 1}, func(key, value []byte) bool {
		id, ok := job.IDFrom(key[1:])
		c, err := ondisk.DecodeCounters(value)
		if !ok {
			err = ondisk.ErrFormat
		}
		if err != nil {
			t.Buf.Fail(fmt.Errorf("owner: job counters: %w", err))
			return false
		}
		fn(id, c)
		return true
	})
}

func (t *JobTable) loadBudget(js *JobState) {
	raw, ok := t.Buf.Get(ondisk.JobKey(ondisk.SpaceBudget, js.ID))
	if !ok {
		return
	}
	a, err := ondisk.DecodeAccounts(raw)
	if err != nil {
		t.Buf.Fail(fmt.Errorf("owner: account of job %s: %w", js.ID, err))
		return
	}
	js.Budget.Pages, js.Budget.Bytes, js.rest = a.Pages, a.Bytes, a.Rest
}

// InStore returns the sums of a job that may be in the store alone.
func (t *JobTable) InStore(id job.ID) (c ondisk.Counters, ok bool) {
	raw, ok := t.Buf.Get(ondisk.JobKey(ondisk.SpaceJob, id))
	if !ok {
		return c, false
	}
	c, err := ondisk.DecodeCounters(raw)
	if err != nil {
		t.Buf.Fail(fmt.Errorf("owner: counters of job %s: %w", id, err))
	}
	return c, err == nil
}

// comesBack takes a job into memory again.
func (t *JobTable) comesBack(js *JobState) {
	if c, ok := t.InStore(js.ID); ok {
		js.Load(c)
		t.Away.Sum(&c, -1)
	}
	t.loadBudget(js)
}

// Evict forgets the jobs that nothing here needs, once there are many: no host in memory is of
// them, none of their URLs or links waits, and nothing of their budget is to be told. Called when
// everything is flushed.
func (t *JobTable) Evict(hosts map[string]*Host) {
	if len(t.Order) <= max(t.lookAt, IdleJobs) {
		return
	}
	needed := make(map[*JobState]bool)
	for _, h := range hosts {
		for _, hj := range h.Jobs {
			needed[hj.State] = true
		}
	}
	t.Order = slices.DeleteFunc(t.Order, func(js *JobState) bool {
		if needed[js] || js.dirty || js.Open() > 0 || js.Entries() > 0 || js.Budget.Drawing || t.drawAt(js) != Never {
			return false
		}
		delete(t.ByID, js.ID)
		c := js.Sums()
		t.Away.Sum(&c, 1)
		t.Some = true
		return true
	})
	t.lookAt = 2 * len(t.Order)
}

// Changed notes that a job has changed, which therefore is saved.
func (t *JobTable) Changed(js *JobState) {
	if !js.dirty {
		js.dirty = true
		t.dirtyJobs = append(t.dirtyJobs, js)
	}
}

func (t *JobTable) save(js *JobState) {
	js.dirty = false
	t.Buf.Set(ondisk.JobKey(ondisk.SpaceJob, js.ID), js.Encode())
	if js.FarmMod {
		js.FarmMod = false
		t.Buf.Set(ondisk.JobKey(ondisk.SpaceFarm, js.ID), js.farm.Append([]byte{ondisk.Format}))
	}
	if js.Budget.Changed {
		js.Budget.Changed = false
		t.Buf.Set(ondisk.JobKey(ondisk.SpaceBudget, js.ID), (&ondisk.Accounts{Pages: js.Budget.Pages, Bytes: js.Budget.Bytes, Rest: js.rest}).Encode())
	}
}

// Knows says whether a job's spec is at hand, and asks for it if not.
func (t *JobTable) Knows(js *JobState) bool {
	if !js.Known {
		if js.Spec, js.State, js.Known = t.Specs.Job(js.ID); !js.Known {
			t.need(js.ID)
		}
	}
	return js.Known
}

// Known returns the state of a job whose spec is at hand, else nil, and asks for it. Nothing is
// kept of a job that only a stranger named.
func (t *JobTable) Known(id job.ID) *JobState {
	js := t.ByID[id]
	if js == nil {
		if _, _, ok := t.Specs.Job(id); !ok {
			t.need(id)
			return nil
		}
		js = t.Of(id)
	}
	if !t.Knows(js) {
		return nil
	}
	return js
}

// need asks for a job's spec, now and then.
func (t *JobTable) need(id job.ID) {
	if at, ok := t.asked[id]; ok && t.Now-at < NeedEvery {
		return
	}
	if len(t.asked) >= maxAsked {
		clear(t.asked)
	}
	t.asked[id] = t.Now
	t.Ready.NeedJobs = append(t.Ready.NeedJobs, id)
}
