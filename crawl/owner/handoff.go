package owner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Freeze has hosts stand still while they travel to another owner: nothing is granted or renewed,
// the search for a worker ends, and whoever speaks of them hears that they are busy. It is in
// memory only and lasts until Unfreeze or Remove, at most for a TTL. Part of a step.
func (o *Owner) Freeze(hosts ...ring.Pos) {
	for _, pos := range hosts {
		h := o.hosts.at(pos)
		if h == nil {
			continue
		}
		if h.lease != nil && h.lease.fresh {
			o.leases.end(h, untouched, 0) // its first grant is yet to be made
		}
		o.placer.end(h)
		h.freeze(o.now + o.cfg.TTL.Milliseconds())
		o.agenda.changed(h)
	}
}

// Unfreeze has frozen hosts go on as before. Part of a step.
func (o *Owner) Unfreeze(hosts ...ring.Pos) {
	for _, pos := range hosts {
		if h := o.hosts.byPos[pos]; h != nil && h.thaw() {
			o.agenda.changed(h)
		}
	}
}

// Lease describes the lease of a host for its next owner; false if there is none. What remains of
// it is as of this step, so the host is to be frozen. Between the inputs of a step.
func (o *Owner) Lease(pos ring.Pos) (*wire.LeaseNote, bool) {
	h := o.hosts.byPos[pos] // a host with a lease is in memory
	if h == nil || h.lease == nil {
		return nil, false
	}
	l := h.lease
	m := &wire.LeaseNote{
		Host: h.rec.Name, Worker: []byte(l.session.peer), Incarnation: l.session.incarnation, Epoch: l.epoch.Wire(),
		RemainingMs: uint32(min(max(l.expires-o.now, 0), wire.MaxLeaseMs)), // bounded
	}
	columns := make(map[*hostJob]uint32)
	for _, hash := range slices.Sorted(maps.Keys(l.out)) {
		hj := l.out[hash].job
		column, ok := columns[hj]
		if !ok {
			if len(columns) == wire.MaxJobs {
				continue
			}
			column = uint32(len(columns)) // a handful
			columns[hj] = column
			m.JobIds = append(m.JobIds, hj.state.ID[:])
		}
		if len(m.GetHash()) == wire.MaxOut {
			break
		}
		m.Job, m.Hash = append(m.Job, column), append(m.Hash, hash)
	}
	return m, true
}

// Adopt continues a lease that the host's earlier owner gave, under its epoch and for what remains
// of it; the worker renews it here. The note must have been validated, and the host's records
// imported. A URL that the note names and that does not wait here is left out. What the worker did
// not get, because the answer with it was lost, is out until the lease ends.
//
// Without effect if the host has a lease here, if that very lease has ended here, or if the
// worker's process is known to be gone. Part of a step.
func (o *Owner) Adopt(m *wire.LeaseNote) error {
	h := o.hosts.find(m.GetHost())
	if h == nil {
		return fmt.Errorf("lease note: host %q is unknown", m.GetHost())
	}
	epoch := ondisk.Epoch{Counter: m.GetEpoch().GetCounter(), Peer: string(m.GetEpoch().GetPeer())}
	if o.ahead(epoch) {
		return fmt.Errorf("lease note: epoch %d is ahead of its time", epoch.Counter)
	}
	if h.lease != nil || epoch == h.over {
		return nil
	}
	s, later := o.leases.adopter(string(m.GetWorker()), m.GetIncarnation())
	h.tenure.lift(epoch)
	if later {
		h.tenure.awaits(epoch, o.now+int64(m.GetRemainingMs()))
	}
	h.rec.AdoptEpoch(epoch)
	o.hosts.touched(h)
	if s == nil {
		if !later {
			h.over = epoch
		}
		h.rec.Owe(o.now + o.cfg.Delay.Milliseconds())
		return nil
	}
	o.placer.end(h)
	o.leases.names(h, s.peer)
	h.tenure.begin(&lease{session: s, epoch: epoch, expires: o.now + int64(m.GetRemainingMs()), out: make(map[uint64]*item)})
	s.leases[h] = struct{}{}
	o.leases.n++
	for i, hash := range m.GetHash() {
		o.leases.adoptOut(h, job.ID(m.GetJobIds()[m.GetJob()[i]]), hash)
	}
	return nil
}

// adopter returns the session of the process that holds a lease. It is nil if a later one was heard
// of; and if this one is later than one that has leases here by its own word: who sent the note
// need not tell the truth, and the worker will say so itself.
func (ls *leases) adopter(worker string, incarnation uint64) (s *session, later bool) {
	s = ls.placer.sessions[worker]
	if s == nil {
		s = &session{peer: worker, incarnation: incarnation, told: true, leases: make(map[*host]struct{})}
		ls.placer.sessions[worker] = s
	}
	switch {
	case s.incarnation > incarnation:
		return nil, false
	case s.incarnation == incarnation:
		return s, false
	case !s.told && len(s.leases) > 0:
		return nil, true
	case s.told:
		ls.endUnknown(s)
	}
	s.incarnation, s.told, s.seq, s.ack = incarnation, true, 0, 0
	return s, false
}

// adoptOut notes that a URL is out under an adopted lease. Whoever granted it has paid for it.
func (ls *leases) adoptOut(h *host, id job.ID, hash uint64) {
	js := ls.jobs.byID[id]
	if js == nil || h.lease.out[hash] != nil {
		return
	}
	hj := h.job(js)
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
	if !p.Promised && (!ls.jobs.knows(js) || budget.Bounded(js.Spec)) {
		hj.Adopt(&p)
		hj.Rewrite(&p)
	}
	it := &item{Pending: p, job: hj}
	it.URL = ""
	h.lease.out[hash] = it
	hj.Lease(&p)
}

// claimed notes that a lease of the records' origin may be alive. Nobody else gets the host before
// it is over. A record without a worker says that the lease of its epoch is over, whatever older
// copies say that come before or after it.
func (ls *leases) claimed(h *host, in *ondisk.Host, until int64) {
	if in.Worker == "" {
		h.tenure.ended(in.Epoch)
		return
	}
	if h.tenure.knows(in.Epoch) {
		return
	}
	if until <= ls.now {
		h.rec.Owe(ls.owedAfter(until))
		return
	}
	h.tenure.claimed(in.Epoch, until, ls.now)
	ls.names(h, in.Worker)
}

// names notes in the record a worker that may hold a lease. It has room for one name, and after a
// crash a worker of this peer's own is known to be gone: so another's is not overwritten by it
// while it counts.
func (ls *leases) names(h *host, worker string) {
	if !h.barred(ls.now) || h.rec.Worker == "" || h.rec.Worker == ls.cfg.Self {
		h.rec.Names(worker)
	}
}
