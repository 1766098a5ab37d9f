package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/novelty"
)

const (
	// saidOf bounds the requests to a host among which are the pages that its domain is judged by.
	saidOf = 16
	// maxSaid bounds the pages of hosts of one domain that wait for a question, maxKin the domains.
	maxSaid = 32
	maxKin  = 1 << 10
)

// say notes what one of the first pages of a host says, for whoever answers for its domain.
func (o *Owner) say(h *host, hj *hostJob, p *novelty.Page, links bool) {
	if !o.cfg.Admission || p.All == 0 || hj.c.requests > saidOf || domain.Plain(h.rec.name) {
		return
	}
	key := crowd{hj.state.id, domain.Of(h.rec.name)}
	if _, full := o.crowded[key]; full {
		return
	}
	if len(o.kin) >= maxKin {
		clear(o.kin)
	}
	list := o.kin[key]
	if len(list) >= maxSaid {
		list = list[:copy(list, list[1:])]
	}
	o.kin[key] = append(list, novelty.Said{
		Host: novelty.HostOf(h.rec.name), All: p.All, Words: p.Words, Brought: links && o.page.url == p.URL && o.page.kin > 0,
	})
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
