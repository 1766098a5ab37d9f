package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// saidOf bounds the requests to a host among which are the pages that its domain is judged by.
	saidOf = 16
	// maxSaid pages of hosts of one domain wait for a question at most before they are told without
	// one; maxKin bounds the domains.
	maxSaid = 32
	maxKin  = 1 << 10
)

// domains is what the registrable domains of hosts have to say: which are full, and what is yet to
// be told to those who answer for them.
type domains struct {
	*step
	crowded map[crowd]domain.Verdict // domains that get no more hosts in a job, and why
	kin     map[crowd][]farm.Said    // what hosts of domains said that those who answer for the domains were not told yet
}

// say notes what one of the first pages of a host says, or that it redirects to yet another host,
// for whoever answers for its domain. Kin: its links lead to hosts of that domain that are new.
func (d *domains) say(h *host, hj *hostJob, got *ondisk.Final, f *wire.Fetched, kin bool) {
	redirect := got.Outcome == link.OutcomeRedirect
	if !d.cfg.Admission || f.GetAllPrint() == 0 && !redirect || hj.Tally.Requests() > saidOf || domain.Plain(h.rec.Name) {
		return
	}
	brought := len(f.GetLinks()) > 0 && kin
	if redirect && !brought {
		return
	}
	key := crowd{hj.state.ID, domain.Of(h.rec.Name)}
	if d.crowded[key] == domain.Stale {
		return
	}
	if len(d.kin) >= maxKin {
		clear(d.kin)
	}
	list := d.kin[key]
	list = append(list, farm.Said{Host: farm.HostOf(h.rec.Name), All: f.GetAllPrint(), Words: f.GetWords(), Brought: brought})
	if d.kin[key] = list; len(list) >= maxSaid { // the hosts that are known may bring no more of them, so that nobody asks
		d.ready.Admissions = append(d.ready.Admissions, Admission{hj.state.ID, h.rec.Name, d.take(hj.state, h.rec.Name)})
	}
}

// take takes what is to be told with a question for a host.
func (d *domains) take(js *jobState, name string) *[]farm.Said {
	key := crowd{js.ID, domain.Of(name)}
	list := d.kin[key]
	if len(list) == 0 {
		return nil
	}
	delete(d.kin, key)
	return &list
}
