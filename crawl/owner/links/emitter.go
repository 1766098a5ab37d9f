package links

import (
	"math"
	"strconv"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Emitter sends the links of pages on their way: into the sets of this peer's hosts, or into the
// outbox.
type Emitter struct {
	*hosts.Step
	jobs     *hosts.JobTable
	hosts    *hosts.Table
	traps    *hosts.Traps
	intake   *Intake
	outgoing *Outgoing
	Sent     depths        // links put into the outbox, at which depth
	met      depths        // hosts that were linked to
	Page     *PageHosts    // of the page whose links are at hand
	links    []ondisk.Link // of them, those that are looked at
	Parted   []*PageHosts
}

const (
	// maxFresh bounds the hosts of a page that are remembered; a page with more of them has them
	// counted once each time.
	maxFresh = 1 << 16
)

// Ahead says how many of the first links of a report were taken in before it, and at which depth of
// the page.
type Ahead struct {
	N     int
	Depth uint32
	// Brought counts those that were new URLs of the page's own host.
	Brought int64
}

// Rest are the links that are still to be taken in for a page at a depth.
func (a Ahead) Rest(links []ondisk.Link, depth uint32) []ondisk.Link {
	if depth < a.Depth {
		return links
	}
	return links[min(a.N, len(links)):]
}

// Emit sends the links of a page on their way, and keeps them where a smaller depth may be met
// later.
func (em *Emitter) Emit(h *hosts.Host, js *hosts.JobState, hash uint64, page *ondisk.Final, f *wire.Fetched, went Ahead) {
	links := Children(page, f)
	if len(links) == 0 {
		return
	}
	em.KeepLinks(h, js, hash, page, links)
	if links = went.Rest(links, page.Depth); len(links) > 0 {
		em.forward(h, js, hash, page.Depth, links)
	}
}

// KeepLinks records the links of a page that may be met at a smaller depth, beside those that are
// recorded of it.
func (em *Emitter) KeepLinks(h *hosts.Host, js *hosts.JobState, hash uint64, page *ondisk.Final, links []ondisk.Link) {
	redirects := len(js.Spec.Include) > 0 && page.Outcome == link.OutcomeRedirect // of a seed they are followed anywhere
	if !js.Spec.BoundsDepth() && !redirects || page.Depth == 0 {
		return
	}
	key := ondisk.OutlinksKey(h.Pos, js.ID, hash)
	list := ondisk.Links{Links: links}
	if raw, ok := em.Buf.Get(key); ok {
		if had, err := ondisk.DecodeLinks(raw); err == nil {
			list.Links, list.Rest = ondisk.Union(had.Links, links), had.Rest
		}
	}
	em.Buf.Set(key, list.Encode())
}

// Children lists the links of a page with depths relative to its own: 1 for what it links to; 0 for
// what belongs to it, for where it is redirected to, and for the sitemaps that a robots.txt or an
// index of sitemaps names. The entries of an index count as redirects do, so that indexes of
// indexes have an end; of pages only those that are an index have links to sitemaps. So do the
// requisites of a style sheet, the only links of a requisite.
func Children(page *ondisk.Final, f *wire.Fetched) []ondisk.Link {
	links := make([]ondisk.Link, 0, len(f.GetLinks()))
	redirect := page.Outcome == link.OutcomeRedirect
	if redirect && page.Hops >= wire.MaxRedirects {
		return nil
	}
	for i, url := range f.GetLinks() {
		if redirect && i > 0 {
			break // it leads to one place
		}
		k := ondisk.Link{URL: string(url), Depth: 1}
		switch {
		case len(f.GetLinkKind()) > 0:
			k.Kind = link.Kind(f.GetLinkKind()[i])
		case redirect:
			k.Kind = page.Kind
		}
		switch index := k.Kind == link.KindSitemap && (page.Kind == link.KindSitemap || page.Kind == link.KindPage); {
		case redirect:
			k.Depth, k.Hops = 0, page.Hops+1
		case page.Kind == link.KindRequisite && (k.Kind != link.KindRequisite || page.Hops >= wire.MaxEmbeds):
			continue
		case page.Kind == link.KindRequisite:
			k.Depth, k.Hops = 0, page.Hops+1
		case index && page.Hops >= wire.MaxIndexes:
			continue
		case index:
			k.Depth, k.Hops = 0, page.Hops+1
		case k.Kind == link.KindRequisite || page.Kind == link.KindRobots && k.Kind == link.KindSitemap:
			k.Depth = 0
		}
		links = append(links, k)
	}
	return links
}

// forward takes the links of a page met at a depth: those to hosts of this peer into their sets,
// the others into the outbox.
func (em *Emitter) forward(h *hosts.Host, js *hosts.JobState, hash uint64, depth uint32, links []ondisk.Link) {
	em.links = links
	defer func() { em.links = nil }()
	var own []Arrival
	var foreign []ondisk.Link
	var last string
	var kind link.Kind
	var here, inScope, brings bool
	for _, k := range links {
		k.Depth += depth
		name := link.Host(k.URL)
		if name == "" || !js.Spec.AdmitsDepth(name, k.Depth) {
			continue
		}
		target := link.Hash(js.ID, k.URL)
		m := memo(target, k.Kind)
		if em.intake.Known.covers(m, k.Depth) || em.Sent.covers(m, k.Depth) {
			continue
		}
		if name != last || k.Kind != kind {
			kind = k.Kind
			last, inScope = name, js.Spec.MayReach(h.Rec.Name, name) || js.Spec.Enters(name, k.Depth, k.Hops, k.Kind)
			here = inScope && em.hosts.AnswersFor(name) == hosts.Here
			brings = inScope && em.mayBring(h, js, name, here)
		}
		switch {
		case !inScope:
		case !brings:
			em.cutLink(h, js)
		case here:
			own = append(own, Arrival{Link: k, Js: js, Host: name, Hash: target})
		case Refusal(js.Spec, k.URL, k.Depth, k.Kind, true) == "":
			em.Sent.put(m, k.Depth)
			foreign = append(foreign, k)
		}
	}
	em.intake.fresh = em.intake.fresh[:0]
	em.intake.Admit(own)
	em.came(h, js)
	if len(foreign) > 0 {
		em.outgoing.Put(h, js, hash, depth, ondisk.Links{Links: foreign})
	}
}

// Again emits the links of some pages that were met at a smaller depth.
func (em *Emitter) Again() {
	b := &em.outgoing.Box
	for range min(againPerStep, b.Turns(em.Now)) {
		e := b.Turn()
		if e != nil && !em.jobs.Knows(em.jobs.Of(e.Job)) {
			b.PutOff(em.Now + hosts.NeedEvery)
			continue
		}
		if e != nil && !em.emitAgain(e) {
			return // the rest of them in a later step
		}
		if b.Pass(); !em.HasRoom() {
			break
		}
	}
}

// emitAgain emits the links that an entry stands for, the entry's end with the last of them; false
// if there are more than the step has room for.
func (em *Emitter) emitAgain(e *outbox.Entry) (through bool) {
	h := em.hosts.At(e.Pos)
	raw, ok := em.Buf.Get([]byte(e.Key))
	if h == nil || !ok {
		return true
	}
	js := em.jobs.Of(e.Job)
	if js.State == job.StateCanceled {
		em.outgoing.drop(h, js, []byte(e.Key), raw)
		return true
	}
	em.Page = &PageHosts{}
	if e.Rest == nil {
		var err error
		if e.Rest, err = em.linksAgain(e, raw); err != nil {
			em.Buf.Fail(err)
			return true
		}
	}
	for len(e.Rest) > LinksAtOnce {
		em.ForwardPiece(h, js, strconv.FormatUint(e.Hash, 16), e.At, e.Rest[:LinksAtOnce])
		if e.Rest = e.Rest[LinksAtOnce:]; !em.HasRoom() {
			return false
		}
	}
	em.outgoing.drop(h, js, []byte(e.Key), raw)
	em.forward(h, js, e.Hash, e.At, e.Rest)
	return true
}

// linksAgain are the links that an entry stands for, with depths relative to the page's: the
// recorded ones, and those it holds itself.
func (em *Emitter) linksAgain(e *outbox.Entry, raw []byte) ([]ondisk.Link, error) {
	own, err := ondisk.DecodeLinks(raw)
	if err != nil {
		return nil, err
	}
	for i := range own.Links {
		own.Links[i].Depth -= min(e.At, own.Links[i].Depth)
	}
	value, ok := em.Buf.Get(ondisk.OutlinksKey(e.Pos, e.Job, e.Hash))
	if !ok {
		return own.Links, nil
	}
	list, err := ondisk.DecodeLinks(value)
	return ondisk.Union(list.Links, own.Links), err
}

// came notes the URLs of a page's own host that it brought.
func (em *Emitter) came(h *hosts.Host, js *hosts.JobState) {
	hj := h.Job(js)
	for i := range em.intake.fresh {
		p := &em.intake.fresh[i]
		if p.Kind != link.KindPage || hj == nil || link.Host(p.URL) != h.Rec.Name {
			continue
		}
		if len(em.Page.Own) < novelty.MaxBrought {
			em.Page.Own = append(em.Page.Own, p.URL)
		}
		if em.Page.Behind && em.Cfg.Delay > 0 && !em.traps.Of(h, hj).Worthy(p.URL) {
			hj.Wait(p, em.LastAt())
		}
	}
	em.intake.fresh = em.intake.fresh[:0]
}

// PageHosts are the hosts that the links of a page lead to, as long as it is looked at: it may come
// in pieces, and take more than one step.
type PageHosts struct {
	Job   job.ID
	URL   string
	fresh map[string]bool // hosts that were not known here, and whether they are admitted
	most  int             // of those that may be admitted
	Kin   int             // of them, those of the page's registrable domain
	Text  uint64
	// Brought counts the new URLs of the page's own host among the links that came without its
	// outcome.
	Brought int64
	Own     []string // some of those
	Behind  bool     // those that are still to come go behind others
}

// Of says whether the account is that of the page that a report is of.
func (p *PageHosts) Of(f *wire.Fetched) bool {
	return p != nil && p.Job == job.ID(f.GetJob()) && p.URL == string(f.GetUrl())
}

// mayBring says whether a page of a host may bring a link to another one: any host that is known
// here, and so many others.
func (em *Emitter) mayBring(h *hosts.Host, js *hosts.JobState, name string, here bool) bool {
	if name == h.Rec.Name || em.Cfg.PageHosts == 0 && em.Cfg.Novelty == 0 {
		return true
	}
	if admitted, again := em.Page.fresh[name]; again {
		return admitted
	}
	met := link.Hash(js.ID, "host "+name)
	if here && em.hosts.Find(name) != nil || em.met.covers(met, 0) {
		return true
	}
	if len(em.Page.fresh) == 0 {
		em.Page.most = em.brings(h, js)
	}
	ok := len(em.Page.fresh) < em.Page.most
	if em.Page.fresh == nil {
		em.Page.fresh = make(map[string]bool)
	}
	if len(em.Page.fresh) < maxFresh {
		em.Page.fresh[name] = ok
	}
	if ok {
		em.met.put(met, 0)
	}
	if em.Cfg.Admission && domain.Of(name) == domain.Of(h.Rec.Name) {
		em.Page.Kin++
	}
	return ok
}

// brings is how many hosts that nobody here knew a page may bring.
func (em *Emitter) brings(h *hosts.Host, js *hosts.JobState) int {
	most := math.MaxInt
	if em.Cfg.PageHosts > 0 {
		most = em.Cfg.PageHosts
	}
	if em.Cfg.Novelty == 0 || em.Page.Text == 0 {
		return most
	}
	js.FarmMod = true
	em.jobs.Changed(js)
	return min(most, em.traps.Farm(js).Brings(h.Rec.Name, em.Page.Text, em.home(h, js), em.Cfg.Novelty))
}

// home says whether the page at hand leads to a host that is known, beside its own.
func (em *Emitter) home(h *hosts.Host, js *hosts.JobState) bool {
	last := h.Rec.Name
	for i := range em.links {
		name := link.Host(em.links[i].URL)
		if name == last || name == h.Rec.Name {
			continue
		}
		last = name
		if em.hosts.Find(name) != nil || em.met.covers(link.Hash(js.ID, "host "+name), 0) {
			return true
		}
	}
	return false
}

// cutLink counts a link that is not taken.
func (em *Emitter) cutLink(h *hosts.Host, js *hosts.JobState) {
	em.Book(h, js).CutLink()
}

// ForwardPiece is forward for some of the links of a page, which have an entry of their own in the
// outbox.
func (em *Emitter) ForwardPiece(h *hosts.Host, js *hosts.JobState, page string, depth uint32, links []ondisk.Link) {
	em.forward(h, js, link.Hash(js.ID, page+" "+links[0].URL), depth, links)
}
