package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
)

// Placed applies the reply to a Place. Part of a step.
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

// Declined records that a worker declined hosts or could not be reached. Part of a step.
func (o *Owner) Declined(worker string, hosts []string) {
	for _, name := range hosts {
		if h := o.hosts.ByName[name]; h != nil && h.Search.OfferedTo(worker) {
			o.placer.Declined(h, worker)
			o.agenda.Changed(h)
		}
	}
}

const (
	// unreadAfter is the delay in ms until a lease whose renewal may be queued is checked again.
	unreadAfter = 50
)

// evaluate performs the due actions of a host.
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
		o.agenda.Searches.Queue.Add(h) // queued domains are served in turn
	}
	o.agenda.Changed(h)
}

// SettledChanged applies a change of the ring or of [Config.Settled]: hosts that waited for it are
// reevaluated. Part of a step; with thousands of hosts in memory it takes several steps.
func (o *Owner) SettledChanged() {
	o.reviewer.all(false)
	o.hosts.Sweep.Wanted, o.hosts.Sweep.Cursor, o.hosts.Sweep.NextAt = true, nil, 0
}

// PeerDead records that a peer is unreachable: no more hosts are offered to it. Its leases expire
// by themselves, since a partitioned worker may still crawl. Part of a step.
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
