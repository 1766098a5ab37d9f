package hosts

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/dht/ring"
)

// JobState is a job on this peer.
type JobState struct {
	*ledger.Job
	dirty bool
	rest  string // unknown fields of its record

	Spread spread // of new hosts
	visits refreshing

	Checks int64 // checks of its pages, and scans for those of workers that lost one
}

// Ask sets the specification and the standing of the job from a registry.
func (js *JobState) Ask(specs Jobs) {
	var now job.Standing
	before, sums := *js.Job, js.Sums()
	js.Spec, now, js.Known = specs.Job(js.ID)
	js.State, js.Refresh = now.State, now.Refresh
	if before.Known && sums.Scheduled > 0 && (before.State.Grants() != js.State.Grants() || before.Refresh != js.Refresh) {
		js.visits.rescan = true
	}
}

// Seeded reports whether a seed of the job is on a host.
func (js *JobState) Seeded(host string) bool { return js.Spec != nil && js.Spec.Seeded(host) }

// Rules returns the trap rules of the job; none is on while its spec is unknown.
func (js *JobState) Rules() *trap.Rules {
	if js.Spec == nil {
		return new(trap.Rules)
	}
	return &js.Spec.Traps
}

// JobTable holds the jobs known here, each with its sums over hosts and its part of the budget. If
// there are many, unneeded jobs are in the store alone.
type JobTable struct {
	*Step
	ByID   map[job.ID]*JobState
	Order  []*JobState
	asked  map[job.ID]int64 // time of the request for a job's spec
	lookAt int              // number of jobs that triggers the next eviction
	Away   JobState         // sum of the jobs in the store alone
	Some   bool             // there are such jobs
}

func (t *JobTable) demand(js *JobState) ledger.Demand {
	return ledger.Demand{Bounds: t.BoundsOf(js.Spec), Waiting: js.Open() - js.Out(), Out: js.Out(), Grants: js.State.Grants(), Exhausted: js.Exhausted()}
}

// Affords reports whether the budget permits a grant of the job now.
func (t *JobTable) Affords(js *JobState) bool { return js.Budget.Affords(t.BoundsOf(js.Spec)) }

// Draws sends the budgets' needed, returned and used tokens to the job owners.
func (t *JobTable) Draws() {
	for _, js := range t.Order {
		if t.drawAt(js) > t.Now {
			continue
		}
		d := Draw{js.ID, js.Budget.Draw(t.demand(js), t.Now)}
		d.Draw.Host = slices.DeleteFunc(slices.Clone(d.Draw.Host), func(host string) bool { return !t.Ring.Mine(ring.HostKey(host)) })
		t.Ready.Draws = append(t.Ready.Draws, d)
		if js.Budget.Changed {
			t.Changed(js)
		}
	}
}

// drawAt returns the time of a job's next draw.
func (t *JobTable) drawAt(js *JobState) int64 {
	if !js.Known || !js.Spec.Budgeted() {
		return Never
	}
	return js.Budget.DrawAt(t.demand(js))
}

// NextDraw returns the time of the next draw of any job.
func (t *JobTable) NextDraw() int64 {
	at := Never
	for _, js := range t.Order {
		at = min(at, t.drawAt(js))
	}
	return at
}

// NeedEvery is the interval in ms of requests for a job's spec.
const NeedEvery = 1000

// maxAsked bounds the jobs whose last spec request is remembered.
const maxAsked = 1024

// IdleJobs is the number of jobs in memory above which unneeded ones are evicted.
const IdleJobs = 1024

// Of returns the peer's state of a job.
func (t *JobTable) Of(id job.ID) *JobState {
	js := t.ByID[id]
	if js == nil {
		js = &JobState{Job: &ledger.Job{ID: id, Budget: ledger.NewBudget()}}
		if t.Some {
			if c, ok := t.InStore(js.ID); ok {
				js.Load(c)
				t.Away.Sum(&c, -1)
			}
			t.loadBudget(js)
		}
		t.ByID[id] = js
		t.Order = append(t.Order, js)
		js.Ask(t.Specs)
	}
	return js
}

// Load reads the jobs from the store, and reports whether any has outbox entries.
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

// Each calls fn with the counters of all jobs in the store.
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

// Evict drops unneeded jobs from memory when there are many: jobs without hosts in memory, waiting
// URLs or links, and without a pending budget report. It is called when everything is flushed.
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
		if needed[js] || js.dirty || js.Open() > 0 || js.Checks > 0 || js.Entries() > 0 || js.Refresh != 0 || js.Budget.Drawing || t.drawAt(js) != Never {
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

// Changed marks a changed job for saving.
func (t *JobTable) Changed(js *JobState) {
	if !js.dirty {
		js.dirty = true
		t.dirtyJobs = append(t.dirtyJobs, js)
	}
}

func (t *JobTable) save(js *JobState) {
	js.dirty = false
	t.Buf.Set(ondisk.JobKey(ondisk.SpaceJob, js.ID), js.Encode())
	if js.Budget.Changed {
		js.Budget.Changed = false
		t.Buf.Set(ondisk.JobKey(ondisk.SpaceBudget, js.ID), (&ondisk.Accounts{Pages: js.Budget.Pages, Bytes: js.Budget.Bytes, Rest: js.rest}).Encode())
	}
}

// Knows reports whether a job's spec is available, and requests it if not.
func (t *JobTable) Knows(js *JobState) bool {
	if !js.Known {
		if js.Ask(t.Specs); !js.Known {
			t.need(js.ID)
		}
	}
	return js.Known
}

// Known returns the state of a job with its spec; otherwise it returns nil and requests the spec.
// Nothing is stored for a job named only by an untrusted peer.
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

// need requests a job's spec, at a limited rate.
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
