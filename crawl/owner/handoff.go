package owner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Freeze stops all changes of hosts during a handoff: nothing is granted or renewed, the search for
// a worker ends, and requests are answered with busy. The state is in memory only and lasts until
// Unfreeze or Remove, at most for a TTL. Part of a step.
func (o *Owner) Freeze(hosts ...ring.Pos) {
	for _, pos := range hosts {
		h := o.hosts.At(pos)
		if h == nil {
			continue
		}
		if h.Lease != nil && h.Lease.Fresh {
			o.leases.End(h, leases.Untouched, 0) // its first grant is still to come
		}
		o.placer.End(h)
		h.Freeze(o.Now + o.Cfg.TTL.Milliseconds())
		o.agenda.Changed(h)
	}
}

// Unfreeze resumes frozen hosts. Part of a step.
func (o *Owner) Unfreeze(hosts ...ring.Pos) {
	for _, pos := range hosts {
		if h := o.hosts.ByPos[pos]; h != nil && h.Thaw() {
			o.agenda.Changed(h)
		}
	}
}

// Lease returns the lease note of a host for its next owner, and false without a lease. The
// remaining time is as of this step, so the host must be frozen. Between the inputs of a step.
func (o *Owner) Lease(pos ring.Pos) (*wire.LeaseNote, bool) {
	h := o.hosts.ByPos[pos] // a leased host is in memory
	if h == nil || h.Lease == nil {
		return nil, false
	}
	l := h.Lease
	m := &wire.LeaseNote{
		Host: h.Rec.Name, Worker: []byte(l.Session.Peer), Incarnation: l.Session.Incarnation, Epoch: l.Epoch.Wire(), Signature: l.Signed,
		RemainingMs: uint32(min(max(l.Expires-o.Now, 0), wire.MaxLeaseMs)), // bounded
	}
	columns := make(map[*hosts.Job]uint32)
	for _, hash := range slices.Sorted(maps.Keys(l.Out)) {
		hj := l.Out[hash].Job
		column, ok := columns[hj]
		if !ok {
			if len(columns) == wire.MaxJobs {
				continue
			}
			column = uint32(len(columns)) // few
			columns[hj] = column
			m.JobIds = append(m.JobIds, hj.State.ID[:])
		}
		if len(m.GetHash()) == wire.MaxOut {
			break
		}
		m.Job, m.Hash = append(m.Job, column), append(m.Hash, hash)
	}
	return m, true
}

// Adopt continues a lease of the host's previous owner, under its epoch and for its remaining time;
// the worker renews it here. The note must be validated, and the host's records imported. A URL of
// the note that is not pending here is ignored. URLs of a lost reply stay out until the lease ends.
//
// It has no effect if the host has a lease here, if that lease has ended here, or if the worker's
// process is known to have ended. Part of a step.
func (o *Owner) Adopt(m *wire.LeaseNote) error {
	h := o.hosts.Find(m.GetHost())
	if h == nil {
		return fmt.Errorf("lease note: unknown host %q", m.GetHost())
	}
	epoch := ondisk.Epoch{Counter: m.GetEpoch().GetCounter(), Peer: string(m.GetEpoch().GetPeer())}
	if o.Ahead(epoch) {
		return fmt.Errorf("lease note: epoch %d is too far in the future", epoch.Counter)
	}
	if h.Lease != nil || epoch == h.Over {
		return nil
	}
	if !o.Cfg.HasCertificate(m.GetHost(), string(m.GetWorker()), epoch, m.GetSignature()) {
		return fmt.Errorf("lease note: host %q: no valid certificate of its epoch's owner", m.GetHost())
	}
	s, later := o.leases.Adopter(string(m.GetWorker()), m.GetIncarnation())
	h.Tenure.Lift(epoch)
	if later {
		h.Tenure.Awaits(epoch, o.Now+int64(m.GetRemainingMs()))
	}
	h.Rec.AdoptEpoch(epoch)
	o.hosts.Touched(h)
	if s == nil {
		if !later {
			h.Over = epoch
		}
		h.Rec.Owe(o.Now + o.Cfg.Delay.Milliseconds())
		return nil
	}
	o.placer.End(h)
	o.leases.Names(h, s.Peer)
	h.Tenure.Begin(&hosts.Lease{Session: s, Epoch: epoch, Signed: m.GetSignature(), Expires: o.Now + int64(m.GetRemainingMs()), Out: make(map[uint64]*hosts.Item), Owing: o.Now})
	s.Leases[h] = struct{}{}
	o.leases.N++
	for i, hash := range m.GetHash() {
		o.leases.AdoptOut(h, job.ID(m.GetJobIds()[m.GetJob()[i]]), hash)
	}
	return nil
}
