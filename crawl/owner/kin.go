package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// saidOf bounds the requests to a host among which are the pages that its domain is judged by.
	saidOf = 16
	// maxSaid pages of hosts of one domain wait for a question at most before they are told without one; maxKin bounds the domains.
	maxSaid = 32
	maxKin  = 1 << 10
)

// say notes what one of the first pages of a host says, or that it redirects to yet another host, for whoever answers for its domain.
func (o *Owner) say(h *host, hj *hostJob, got *Final, f *wire.Fetched) {
	redirect := got.Outcome == link.OutcomeRedirect
	if !o.cfg.Admission || f.GetAllPrint() == 0 && !redirect || hj.c.requests > saidOf || domain.Plain(h.rec.name) {
		return
	}
	brought := len(f.GetLinks()) > 0 && o.page.url == got.URL && o.page.kin > 0
	if redirect && !brought {
		return
	}
	key := crowd{hj.state.id, domain.Of(h.rec.name)}
	if o.crowded[key] == domain.Stale {
		return
	}
	if len(o.kin) >= maxKin {
		clear(o.kin)
	}
	list := o.kin[key]
	list = append(list, novelty.Said{Host: novelty.HostOf(h.rec.name), All: f.GetAllPrint(), Words: f.GetWords(), Brought: brought})
	if o.kin[key] = list; len(list) >= maxSaid { // the hosts that are known may bring no more of them, so that nobody asks
		o.ready.Admissions = append(o.ready.Admissions, Admission{hj.state.id, h.rec.name, o.kinSaid(hj.state, h.rec.name)})
	}
}

// kinSaid takes what is to be told with a question for a host.
func (o *Owner) kinSaid(js *jobState, name string) *[]novelty.Said {
	key := crowd{js.id, domain.Of(name)}
	list := o.kin[key]
	if len(list) == 0 {
		return nil
	}
	delete(o.kin, key)
	return &list
}
