package owner

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/frame"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// saveNovelty is after how many pages what is known of a host's pages is written: after a crash
	// so much less is known.
	saveNovelty = 128
	// maxParted bounds the pages whose links have come in part, of which it is remembered which
	// hosts they led to.
	maxParted = 16
)

// observe notes what a page of a host brought, links to its own host among it.
func (oc *outcomes) observe(h *hosts.Host, hj *hosts.Job, got *ondisk.Final, f *wire.Fetched, brought int64) {
	switch {
	case oc.Cfg.Novelty == 0 || hj.Tally.Counters().Trap:
		return
	case got.Kind == link.KindSitemap && brought > 0 && oc.emitter.Page.Of(f):
		oc.traps.Of(h, hj).Sitemap(oc.emitter.Page.Own, oc.Cfg.Novelty)
		return
	case got.Kind != link.KindPage:
		return
	}
	oc.domains.Say(h, hj, got, f, oc.emitter.Page.URL == got.URL && oc.emitter.Page.Kin > 0)
	p := novelty.Page{
		URL: got.URL, Own: ownOf(f), Links: int(f.GetOwnLinks()), New: int(brought),
	}
	if page := oc.emitter.Page; page.Of(f) {
		p.Brought = page.Own
	}
	switch got.Outcome {
	case link.OutcomeOK, link.OutcomeDuplicate, link.OutcomeNoIndex:
	case link.OutcomeHTTPError, link.OutcomeTooManyRedirects:
		p.Failed = true
	case link.OutcomeRedirect:
		p.Redirect = true
		if len(f.GetLinks()) == 0 || link.Host(string(f.GetLinks()[0])) != h.Rec.Name {
			return // what it leads to says what there is to say
		}
	default:
		return
	}
	s := oc.traps.Of(h, hj)
	s.Observe(p, oc.Cfg.Novelty)
	if s.Seen()%saveNovelty == 0 {
		oc.hosts.Learnt(h, hj)
	}
	if oc.traps.Outgrows(h, hj) {
		hj.Outgrown()
	}
	if s.Whole(oc.Cfg.Novelty) {
		hj.Trapped()
		oc.hosts.Learnt(h, hj)
	}
}

// ownOf is what a page says itself, as its worker tells it.
func ownOf(f *wire.Fetched) frame.Own {
	if f.GetOwnWords() == 0 && len(f.GetDigest()) > 0 {
		return frame.Body(f.GetDigest())
	}
	return frame.Own{Words: f.GetOwnWords(), All: f.GetOwnAll(), Count: int(f.GetOwnCount())}
}

// doubt has the URLs of its own host that a page brings go behind others, if it says what others
// say.
func (oc *outcomes) doubt(h *hosts.Host, hj *hosts.Job, f *wire.Fetched) {
	if page := oc.emitter.Page; oc.Cfg.Novelty > 0 && page.Of(f) && !hj.Tally.Counters().Trap {
		page.Behind = oc.traps.Of(h, hj).Doubts(page.URL, ownOf(f), oc.Cfg.Novelty)
	}
}

// novelty merges what is known of the pages of a job on a host: what knows more stays.
func (m *importer) novelty(h *hosts.Host, js *hosts.JobState, tail []byte, rec kv.Record) error {
	if _, err := ondisk.DecodeNovelty(rec.Value); err != nil || len(tail) > 0 {
		return ondisk.ErrFormat
	}
	hj := m.Book(h, js)
	raw, ok := m.Buf.Get(rec.Key)
	if hj.Novelty != nil {
		raw, ok = hj.Novelty.Append([]byte{ondisk.Format}), true
	}
	if !ok || novelty.Later(rec.Value[1:], raw[1:]) {
		m.Buf.Set(rec.Key, rec.Value)
		hj.Novelty, hj.News = nil, false
	}
	return nil
}

// account opens the account of a page's hosts, or goes on with it. The pieces of a page with very
// many links may come in several sessions, also of a worker whose lease is over by then: the
// account is kept from the first of them until the page's outcome is here, or until those of
// maxParted other pages are.
func (v *Visit) account(js *hosts.JobState, f *wire.Fetched) {
	o := v.owner
	at := slices.IndexFunc(o.emitter.Parted, func(p *links.PageHosts) bool { return p.Of(f) })
	switch {
	case at >= 0:
		v.hosts = o.emitter.Parted[at]
		o.emitter.Parted = slices.Delete(o.emitter.Parted, at, at+1)
	case !v.hosts.Of(f):
		v.hosts = nil
	}
	if len(f.GetLinks()) == 0 {
		return
	}
	if v.hosts == nil {
		v.hosts = &links.PageHosts{Job: js.ID, URL: string(f.GetUrl()), Text: f.GetTextPrint()}
	}
	o.emitter.Page = v.hosts
	if link.Outcome(f.GetOutcome()) != link.OutcomeNone {
		return
	}
	if len(o.emitter.Parted) == maxParted {
		o.emitter.Parted = slices.Delete(o.emitter.Parted, 0, 1)
	}
	o.emitter.Parted = append(o.emitter.Parted, v.hosts)
}
