package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
)

// Placed brings the answer to a Place. Part of a step.
func (o *Owner) Placed(name string, p hosts.Placement) {
	h := o.hosts.ByName[name]
	if h == nil || h.Search.State != hosts.SearchAsked {
		return
	}
	o.placer.Unreserve(h, p.NotBefore)
	if !o.Ring.Mine(h.Key) || !o.Cfg.Settled(h.Key) {
		o.placer.End(h)
		o.agenda.Changed(h)
		return
	}
	if p.Worker == "" {
		p.Worker = o.Cfg.Self
	}
	if h.Search.Anew != "" {
		p.Why += "; " + h.Search.Anew
	}
	if h.Rec.PlacedBy(p.Worker, p.Why, p.Measured, o.Now) {
		o.hosts.Touched(h)
	}
	h.Search.Found(&p)
	o.placer.Offer(h, p.Worker)
	o.agenda.Changed(h)
}

// Declined says that a worker does not take hosts, or could not be told of them. Part of a step.
func (o *Owner) Declined(worker string, hosts []string) {
	for _, name := range hosts {
		if h := o.hosts.ByName[name]; h != nil && h.Search.OfferedTo(worker) {
			o.placer.Declined(h, worker)
			o.agenda.Changed(h)
		}
	}
}

const (
	// unreadAfter in ms a lease is looked at again whose renewal may be among the inputs that wait.
	unreadAfter = 50
)

// evaluate does for a host what its time has come for.
func (o *Owner) evaluate(h *hosts.Host) {
	if h.Frozen <= o.Now {
		h.Thaw()
	}
	switch {
	case !h.Lapsed(o.Now):
	case h.Lease.SpokenOf():
		h.Lease.Expires = o.Now + o.Cfg.TTL.Milliseconds()
	case h.Lease.Expires > o.Read:
		h.Lease.LookAt = o.Now + unreadAfter
	default:
		h.Rec.Owe(o.OwedAfter(h.Lease.Expires))
		o.leases.End(h, o.leases.Lapse(h.Lease), 0)
	}
	if h.Search.State != hosts.SearchIdle && h.Search.Until <= o.Now {
		o.placer.Declined(h, h.Search.Offered)
	}
	if o.agenda.MayBePlaced(h) {
		o.agenda.Searches.Queue.Add(h) // those that wait already have their turns as well
	}
	o.agenda.Changed(h)
}

// SettledChanged says that the ring, or [Config.Settled], may answer otherwise than before: hosts
// that waited for that are looked at again. Part of a step; with thousands of hosts in memory, over
// the next ones.
func (o *Owner) SettledChanged() {
	o.reviewer.all(false)
	o.hosts.Sweep.Wanted, o.hosts.Sweep.Cursor, o.hosts.Sweep.NextAt = true, nil, 0
}

// PeerDead says that a peer is not to be reached: nothing more is offered to it. Its leases run out
// by themselves, as it may only be cut off from us and still crawl. Part of a step.
func (o *Owner) PeerDead(peer string) {
	s := o.placer.Sessions[peer]
	if s == nil {
		return
	}
	for len(s.Offers) > 0 {
		h := s.Offers[0]
		o.placer.Declined(h, peer)
		o.agenda.Changed(h)
	}
	if len(s.Leases) == 0 {
		delete(o.placer.Sessions, peer)
	}
}
