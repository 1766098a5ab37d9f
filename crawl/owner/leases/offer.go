package leases

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Offer offers a host to a worker with free capacity. An untrusted worker gets one host at first,
// and one more for each page that it reported, since it may take hosts and do nothing.
func (pl *Placer) Offer(h *hosts.Host, worker string) {
	s := pl.Sessions[worker]
	if s != nil && len(s.Leases)+len(s.Offers) > s.Earned && !pl.Cfg.IsNear(worker) {
		pl.Declined(h, worker)
		return
	}
	if s != nil && pl.Now-s.Heard <= pl.Cfg.TTL.Milliseconds() && s.Capacity > 0 && int64(s.Backlog)+int64(offerURLs*len(s.Offers)) >= int64(s.Capacity) {
		pl.Declined(h, worker)
		return
	}
	if s == nil {
		s = &hosts.Session{Peer: worker, Leases: make(map[*hosts.Host]struct{})}
		pl.Sessions[worker] = s
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

// Declined searches for another worker after a refusal; if this peer itself refused, or none was
// found, after a pause.
func (pl *Placer) Declined(h *hosts.Host, worker string) {
	if worker == pl.Cfg.Self {
		pl.agenda.Searches.Declined()
	}
	h.Search.Refused(worker, pl.Cfg.Self, pl.Now)
	pl.End(h)
}

// End ends the search for a worker.
func (pl *Placer) End(h *hosts.Host) {
	if h.Search.State == hosts.SearchIdle {
		return
	}
	worker := h.Search.Offered
	if offered := h.Search.End(); offered {
		s := pl.Sessions[worker]
		at := slices.Index(s.Offers, h)
		s.Offers = slices.Delete(s.Offers, at, at+1)
	}
	pl.agenda.Searches.Under--
}
