package hosts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trust"
)

// Check is a page of a host that another worker fetches again, to check its report. It is in memory
// only: a check that is lost with its owner is not made.
type Check struct {
	trust.Check
	Job  *Job
	Hash uint64
	due  int64 // Unix ms from which it interrupts the host's lease
	Out  bool  // granted
	Try  uint8 // grants that brought no opinion
}

const (
	// checksAtOnce checks of a host, or one that is older than checkWait ms, interrupt its lease. So
	// many pages are worth another lease, and the robots.txt that its worker reads first. A check of
	// a worker's first pages waits firstWait ms only, until most of them are there.
	checksAtOnce = 8
	checkWait    = 600_000
	firstWait    = 5_000
	// maxChecks bounds the checks of all hosts, maxHostChecks those of one.
	maxChecks     = 1 << 14
	maxHostChecks = 64
	// MaxCheckTries is the number of grants of a check without an outcome after which it is dropped.
	MaxCheckTries = 3
)

// Workers is what this owner knows of workers, loaded and stored as needed.
type Workers struct {
	*Step
	known map[string]*trust.Worker
}

// maxWorkers bounds the workers in memory.
const maxWorkers = 4096

// Of returns the record of a worker; of an unknown one, a new record.
func (ws *Workers) Of(id string) *trust.Worker {
	if w := ws.known[id]; w != nil {
		return w
	}
	w := &trust.Worker{Since: uint64(max(ws.Now/1000, 0))}
	if raw, ok := ws.Buf.Get(ondisk.TrustKey(id)); ok {
		if stored, err := trust.Decode(raw); err == nil {
			w = stored
		}
	}
	if len(ws.known) >= maxWorkers {
		for other := range ws.known {
			ws.Store(other)
		}
		clear(ws.known)
	}
	ws.known[id] = w
	return w
}

// Store writes the record of a worker with the step.
func (ws *Workers) Store(id string) { ws.Buf.Set(ondisk.TrustKey(id), ws.known[id].Encode()) }

// All returns the records of all workers, by worker.
func (ws *Workers) All() map[string]trust.Worker {
	all := make(map[string]trust.Worker, len(ws.known))
	ws.Buf.Scan([]byte{ondisk.SpaceTrust}, []byte{ondisk.SpaceTrust + 1}, func(key, value []byte) bool {
		if w, err := trust.Decode(value); err == nil {
			all[string(key[1:])] = *w
		}
		return true
	})
	for id, w := range ws.known {
		if w.Pages > 0 {
			all[id] = *w
		}
	}
	return all
}

// Checks are the checks of pages.
type Checks struct {
	*Step
	Workers *Workers
	agenda  *Agenda
	n       int
}

// Samples reports whether pages are checked at all.
func (cs *Checks) Samples() bool { return cs.Cfg.CheckRate > 0 }

// Suspends reports whether a worker gets no lease, since it has lost a check.
func (cs *Checks) Suspends(worker string) bool {
	return cs.Samples() && cs.Workers.Of(worker).Suspended(uint64(max(cs.Now/1000, 0)))
}

// Suspended returns the workers in memory that get no lease, in order.
func (cs *Checks) Suspended() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(cs.Workers.known)), func(id string) bool { return !cs.Suspends(id) })
}

// Begin adds the report of a page to the checks of its host, if it is chosen.
func (cs *Checks) Begin(h *Host, hj *Job, hash uint64, o trust.Opinion) {
	if !cs.Samples() || !o.Conclusive() {
		return
	}
	w := cs.Workers.Of(o.Worker)
	if chosen := w.Sample(cs.Cfg.CheckRate, cs.Cfg.Random()); !chosen {
		if w.Pages%savePages == 0 {
			cs.Workers.Store(o.Worker)
		}
		return
	}
	defer cs.Workers.Store(o.Worker)
	if cs.n >= maxChecks || len(h.Checks) >= maxHostChecks || slices.ContainsFunc(h.Checks, func(c *Check) bool { return c.Hash == hash }) {
		w.Unclear++
		return
	}
	c := &Check{Job: hj, Hash: hash, due: cs.Now + checkWait}
	if w.Anew <= trust.First {
		c.due = cs.Now + firstWait
	}
	c.Opinions = []trust.Opinion{o}
	h.Checks = append(h.Checks, c)
	hj.State.Checks++
	cs.n++
	cs.agenda.Changed(h)
}

// savePages is the number of pages after which the record of a worker is written; a crash forgets
// at most so many.
const savePages = 64

// End removes a check from its host.
func (cs *Checks) End(h *Host, c *Check) {
	at := slices.Index(h.Checks, c)
	if at < 0 {
		return
	}
	h.Checks = slices.Delete(h.Checks, at, at+1)
	c.Job.State.Checks--
	cs.n--
	cs.agenda.Changed(h)
}

// Unclear removes checks without a result.
func (cs *Checks) Unclear(h *Host, of func(c *Check) bool) {
	for _, c := range slices.Clone(h.Checks) {
		if of(c) {
			checked := c.Opinions[0].Worker
			cs.Workers.Of(checked).Unclear++
			cs.Workers.Store(checked)
			cs.End(h, c)
		}
	}
}

// CheckDue returns the check of a host that is placed next, the one with most opinions first, then
// the one that is due first; nil if there is none. Others that the same worker may make are made
// with it.
func (h *Host) CheckDue() (next *Check) {
	for _, c := range h.Checks {
		if !c.Out && (next == nil || cmp.Or(len(next.Opinions)-len(c.Opinions), cmp.Compare(c.due, next.due)) < 0) {
			next = c
		}
	}
	return next
}

// ChecksPress reports whether the checks of a host come before its other URLs, and interrupt its
// lease: there are many, one has waited for long, or two workers contradict each other.
func (h *Host) ChecksPress(now int64) bool {
	c := h.CheckDue()
	return c != nil && (len(h.Checks) >= checksAtOnce || now >= c.due || len(c.Opinions) > 1)
}

// checksAt returns when a check of a host may be placed; Never if there is none. Other URLs that
// are due come first, unless the checks press.
func (a *Agenda) checksAt(h *Host, urlsAt int64) int64 {
	switch {
	case h.CheckDue() == nil || a.WhyOptedOut(h) != "":
		return Never
	case urlsAt > a.Now || h.ChecksPress(a.Now):
		return 0
	default:
		return h.CheckDue().due
	}
}

// MayBeChecked reports whether the host's next lease is for its checks.
func (a *Agenda) MayBeChecked(h *Host) bool { return a.checksAt(h, a.URLsAt(h)) <= a.Now }

// Involved returns the workers that have given an opinion on a page.
func (c *Check) Involved() (list []string) {
	for i := range c.Opinions {
		list = append(list, c.Opinions[i].Worker)
	}
	return list
}

// Granted records that a check was granted; false if that happened too often.
func (c *Check) Granted() bool {
	c.Out = true
	c.Try++
	return c.Try <= MaxCheckTries
}
