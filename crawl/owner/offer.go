package owner

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Placed brings the answer to a Place. Part of a step.
func (o *Owner) Placed(name string, p hosts.Placement) {
	h := o.hosts.ByName[name]
	if h == nil || h.Search.State != hosts.SearchAsked {
		return
	}
	o.placer.unreserve(h, p.NotBefore)
	if !o.Ring.Mine(h.Key) || !o.Cfg.Settled(h.Key) {
		o.placer.end(h)
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
	o.placer.offer(h, p.Worker)
	o.agenda.Changed(h)
}

// offer offers a host to a worker that has room.
func (pl *placer) offer(h *hosts.Host, worker string) {
	s := pl.sessions[worker]
	if s != nil && pl.Now-s.Heard <= pl.Cfg.TTL.Milliseconds() && s.Capacity > 0 && int64(s.Backlog)+int64(offerURLs*len(s.Offers)) >= int64(s.Capacity) {
		pl.declined(h, worker)
		return
	}
	if s == nil {
		s = &hosts.Session{Peer: worker, Leases: make(map[*hosts.Host]struct{})}
		pl.sessions[worker] = s
	}
	s.Offers = append(s.Offers, h)
	h.Search.Offer(worker, pl.Now+pl.Cfg.OfferTimeout.Milliseconds())
	for i := range pl.Ready.Offers {
		if offer := &pl.Ready.Offers[i]; offer.Worker == worker && len(offer.Hosts) < wire.MaxHosts {
			offer.Hosts = append(offer.Hosts, h.Rec.Name)
			return
		}
	}
	pl.Ready.Offers = append(pl.Ready.Offers, hosts.Offer{Worker: worker, Hosts: []string{h.Rec.Name}})
}

// Declined says that a worker does not take hosts, or could not be told of them. Part of a step.
func (o *Owner) Declined(worker string, hosts []string) {
	for _, name := range hosts {
		if h := o.hosts.ByName[name]; h != nil && h.Search.OfferedTo(worker) {
			o.placer.declined(h, worker)
			o.agenda.Changed(h)
		}
	}
}

// declined looks for another worker than that one, which does not take the host; if it is this peer
// itself, or nobody, after a rest.
func (pl *placer) declined(h *hosts.Host, worker string) {
	if worker == pl.Cfg.Self {
		pl.agenda.Searches.Declined()
	}
	h.Search.Refused(worker, pl.Cfg.Self, pl.Now)
	pl.end(h)
}

// end ends the search for a worker.
func (pl *placer) end(h *hosts.Host) {
	if h.Search.State == hosts.SearchIdle {
		return
	}
	worker := h.Search.Offered
	if offered := h.Search.End(); offered {
		s := pl.sessions[worker]
		at := slices.Index(s.Offers, h)
		s.Offers = slices.Delete(s.Offers, at, at+1)
	}
	pl.agenda.Searches.Under--
}
