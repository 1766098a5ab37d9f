package leases

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Adopter returns the session of the process that holds a lease. It is nil if a later one was heard
// of; and if this one is later than one that has leases here by its own word: who sent the note
// need not tell the truth, and the worker will say so itself.
func (ls *Leases) Adopter(worker string, incarnation uint64) (s *hosts.Session, later bool) {
	s = ls.placer.Sessions[worker]
	if s == nil {
		s = &hosts.Session{Peer: worker, Incarnation: incarnation, Told: true, Leases: make(map[*hosts.Host]struct{})}
		ls.placer.Sessions[worker] = s
	}
	switch {
	case s.Incarnation > incarnation:
		return nil, false
	case s.Incarnation == incarnation:
		return s, false
	case !s.Told && len(s.Leases) > 0:
		return nil, true
	case s.Told:
		ls.endUnknown(s)
	}
	s.Incarnation, s.Told, s.Seq, s.Ack = incarnation, true, 0, 0
	return s, false
}

// AdoptOut notes that a URL is out under an adopted lease. Whoever granted it has paid for it.
func (ls *Leases) AdoptOut(h *hosts.Host, id job.ID, hash uint64) {
	js := ls.jobs.ByID[id]
	if js == nil || h.Lease.Out[hash] != nil {
		return
	}
	hj := h.Job(js)
	if hj == nil {
		return
	}
	n, ok, err := hj.Peek(hash)
	if !ok || err != nil || n.Done {
		return
	}
	p, ok := hj.Pending(n.At)
	if !ok {
		return
	}
	if !p.Promised && (!ls.jobs.Knows(js) || budget.Bounded(js.Spec)) {
		hj.Adopt(&p)
		hj.Rewrite(&p)
	}
	it := &hosts.Item{Pending: p, Job: hj}
	it.URL = ""
	h.Lease.Out[hash] = it
	hj.Lease(&p)
}

// Claimed notes that a lease of the records' origin may be alive. Nobody else gets the host before
// it is over. A record without a worker says that the lease of its epoch is over, whatever older
// copies say that come before or after it.
func (ls *Leases) Claimed(h *hosts.Host, in *ondisk.Host, until int64) {
	if in.Worker == "" {
		h.Tenure.Ended(in.Epoch)
		return
	}
	if h.Tenure.Knows(in.Epoch) {
		return
	}
	if until <= ls.Now {
		h.Rec.Owe(ls.OwedAfter(until))
		return
	}
	h.Tenure.Claimed(in.Epoch, until, ls.Now)
	ls.Names(h, in.Worker)
}

// Names notes in the record a worker that may hold a lease. It has room for one name, and after a
// crash a worker of this peer's own is known to be gone: so another's is not overwritten by it
// while it counts.
func (ls *Leases) Names(h *hosts.Host, worker string) {
	if !h.Barred(ls.Now) || h.Rec.Worker == "" || h.Rec.Worker == ls.Cfg.Self {
		h.Rec.Names(worker)
	}
}
