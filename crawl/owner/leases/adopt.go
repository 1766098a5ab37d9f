package leases

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Adopter returns the session of the process that holds an adopted lease. It is nil if a later
// process is known, or if this one is later than a process that itself reported leases here: the
// note is not trusted, and the worker will report its new process itself.
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

// AdoptOut records a URL that is out under an adopted lease; the peer that granted it has paid.
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
	if !ok || err != nil {
		return
	}
	if n.Done && n.Final.Revisit.Due > 0 {
		h.Lease.Out[hash] = again(hj, hash, &n.Final)
	}
	if n.Done {
		return
	}
	p, ok := hj.Pending(n.At)
	if !ok {
		return
	}
	if !p.Promised && (!ls.jobs.Knows(js) || ledger.Bounded(js.Spec)) {
		hj.Adopt(&p)
		hj.Rewrite(&p)
	}
	it := &hosts.Item{Pending: p, Job: hj}
	it.URL = ""
	h.Lease.Out[hash] = it
	hj.Lease(&p)
}

// Claimed records that a lease of the records' origin may be alive; the host is not leased again
// before it has expired. A record without a worker ends the lease of its epoch, regardless of older
// copies that arrive before or after it.
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

// Names stores in the record a worker that may hold a lease. The record has one such field, and
// after a crash this peer's own worker is known to have ended: so it does not replace another
// worker that still counts.
func (ls *Leases) Names(h *hosts.Host, worker string) {
	if !h.Barred(ls.Now) || h.Rec.Worker == "" || h.Rec.Worker == ls.Cfg.Self {
		h.Rec.Names(worker)
	}
}
