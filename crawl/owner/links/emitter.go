package links

import (
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Emitter forwards the links of pages: into the URL sets of this peer's hosts, or into the outbox.
type Emitter struct {
	*hosts.Step
	jobs     *hosts.JobTable
	hosts    *hosts.Table
	traps    *hosts.Traps
	intake   *Intake
	outgoing *Outgoing
	Sent     depths        // depth of the links put into the outbox
	met      depths        // linked hosts
	Page     *PageHosts    // of the current page
	links    []ondisk.Link // links of that page that are processed
	Parted   []*PageHosts
}

const (
	// maxFresh bounds the hosts remembered for a page; more of them are counted once for each link.
	maxFresh = 1 << 16
)

// Ahead is the number of a report's first links that were processed before it.
type Ahead struct {
	N int
	// Brought counts the new URLs of the page's own host among them.
	Brought int64
}

// Rest returns the links that are still to be processed.
func (a Ahead) Rest(links []ondisk.Link) []ondisk.Link { return links[min(a.N, len(links)):] }

// Emit forwards the links of a page.
func (em *Emitter) Emit(h *hosts.Host, js *hosts.JobState, page *ondisk.Final, f *wire.Fetched, went Ahead) {
	if links := went.Rest(Children(page, f)); len(links) > 0 {
		em.forward(h, js, link.Hash(js.ID, page.URL), page, links)
	}
}

// Children returns the links of a page with depths relative to its own: 1 for links; 0 for page
// requisites, redirect targets, and the sitemaps named by a robots.txt or a sitemap index. Entries
// of an index count as redirects, so nested indexes end; other pages than indexes have no links to
// sitemaps. Requisites of a style sheet, the only links of a requisite, count as redirects as well.
func Children(page *ondisk.Final, f *wire.Fetched) []ondisk.Link {
	links := make([]ondisk.Link, 0, len(f.GetLinks()))
	redirect := page.Outcome == link.OutcomeRedirect
	if redirect && page.Hops >= wire.MaxRedirects {
		return nil
	}
	for i, url := range f.GetLinks() {
		if redirect && i > 0 {
			break // a redirect has one target
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

// source returns a page of a host as the source of its links; nil if its URL or seed exceeds the
// limit of a source.
func (em *Emitter) source(h *hosts.Host, js *hosts.JobState, page *ondisk.Final) *link.Source {
	s := &link.Source{URL: page.URL}
	_, s.Path, s.Seed = link.Provenance(em.Sources.Of(h.Pos, js.ID, page.Via), page.URL, page.Kind, page.Depth, page.Hops)
	switch {
	case page.Outcome == link.OutcomeRedirect:
		s.Role = link.RoleRedirect
	case page.Kind == link.KindSitemap:
		s.Role = link.RoleSitemap
	}
	if !s.Valid() {
		return nil
	}
	return s
}

// KeepSource stores a page of a host as the source of URLs there, and returns its hash.
func (em *Emitter) KeepSource(h *hosts.Host, js *hosts.JobState, page *ondisk.Final) uint64 {
	in := em.intake
	in.from = lastSource{}
	via := in.via(&Arrival{Js: js, Source: em.source(h, js, page)})
	in.keep(h, via)
	return via
}

// forward forwards links of a page: those to hosts of this peer into their URL sets, the others
// into the outbox.
func (em *Emitter) forward(h *hosts.Host, js *hosts.JobState, hash uint64, page *ondisk.Final, links []ondisk.Link) {
	em.links = links
	defer func() { em.links = nil }()
	var own []Arrival
	var foreign []ondisk.Link
	var last string
	var kind link.Kind
	var here, inScope, brings bool
	for _, k := range links {
		k.Depth += page.Depth
		name := link.Host(k.URL)
		if name == "" || !js.Spec.AdmitsDepth(name, k.Depth) || em.endless(h, js, k.URL) {
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
			em.Book(h, js).CutLink()
		case here:
			own = append(own, Arrival{Link: k, Js: js, Host: name, Hash: target})
		case Refusal(js.Spec, k.URL, k.Depth, k.Kind, true) == "":
			em.Sent.Set(m, k.Depth)
			foreign = append(foreign, k)
		}
	}
	var from *link.Source
	if len(own)+len(foreign) > 0 {
		from = em.source(h, js, page)
	}
	for i := range own {
		own[i].Source = from
	}
	em.intake.fresh = em.intake.fresh[:0]
	em.intake.Admit(own)
	em.came(h, js)
	if len(foreign) > 0 {
		em.Page.Foreign = true
		em.outgoing.Put(h, js, hash, ondisk.Links{Links: foreign, Source: from})
	}
}

// endless reports whether a link has the structure of a trap, and counts it.
func (em *Emitter) endless(h *hosts.Host, js *hosts.JobState, url string) bool {
	if !js.Rules().On() || !trap.Structure(url) {
		return false
	}
	hj := em.Book(h, js)
	em.traps.Of(h, hj).Leave(trap.Paths, url)
	hj.CutLink()
	return true
}

// came records the new URLs of the page's own host.
func (em *Emitter) came(h *hosts.Host, js *hosts.JobState) {
	hj := h.Job(js)
	behind := em.Page.Behind && em.Cfg.Delay > 0 && hj != nil && hj.Tally.Ready() > int64(len(em.intake.fresh))
	for i := range em.intake.fresh {
		p := &em.intake.fresh[i]
		if p.Kind != link.KindPage || hj == nil {
			continue
		}
		if link.Host(p.URL) != h.Rec.Name {
			em.Page.Foreign = true
			continue
		}
		em.Page.brings(p.URL)
		if behind {
			hj.Wait(p, em.LastAt())
		}
	}
	em.intake.fresh = em.intake.fresh[:0]
}

// PageHosts tracks the hosts that a page links to while it is processed, which may take several
// pieces and steps.
type PageHosts struct {
	Job   job.ID
	URL   string
	fresh map[string]bool // unknown hosts, and whether they are admitted
	most  int             // limit of admitted ones
	// Brought counts the new URLs of the page's own host among links that came without its outcome.
	Brought int64
	New     []string // of those, one of each pattern, at most maxPatterns
	Foreign bool     // it brought a new URL of another host
	Behind  bool     // further URLs are moved behind others

	patterns []uint32 // of New
}

// maxPatterns bounds the new URLs of a page that the trap rules look at.
const maxPatterns = 64

// brings records a new URL of the page's own host, one of each pattern.
func (p *PageHosts) brings(url string) {
	key := trap.Pattern(url)
	if len(p.New) < maxPatterns && !slices.Contains(p.patterns, key) {
		p.New, p.patterns = append(p.New, url), append(p.patterns, key)
	}
}

// Of reports whether p belongs to the page of a report.
func (p *PageHosts) Of(f *wire.Fetched) bool {
	return p != nil && p.Job == job.ID(f.GetJob()) && p.URL == string(f.GetUrl())
}

// mayBring reports whether a page of a host may link to another host: any known host, and a limited
// number of others.
func (em *Emitter) mayBring(h *hosts.Host, js *hosts.JobState, name string, here bool) bool {
	if name == h.Rec.Name || em.Cfg.PageHosts == 0 && !js.Rules().On() {
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
	ok := len(em.Page.fresh) < em.Page.most && (!js.Rules().On() || js.Spread.Brings(h.Rec.Name, name))
	if em.Page.fresh == nil {
		em.Page.fresh = make(map[string]bool)
	}
	if len(em.Page.fresh) < maxFresh {
		em.Page.fresh[name] = ok
	}
	if ok {
		em.met.Set(met, 0)
	}
	return ok
}

// brings returns the number of unknown hosts that a page may add.
func (em *Emitter) brings(h *hosts.Host, js *hosts.JobState) int {
	most := math.MaxInt
	if em.Cfg.PageHosts > 0 {
		most = em.Cfg.PageHosts
	}
	if js.Rules().On() && !js.Spread.Leads(h.Rec.Name, em.home(h, js)) {
		return 0
	}
	return most
}

// home reports whether the current page links to a known host other than its own.
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

// ForwardPiece is forward for a piece of a page's links, with its own outbox entry.
func (em *Emitter) ForwardPiece(h *hosts.Host, js *hosts.JobState, page *ondisk.Final, links []ondisk.Link) {
	em.forward(h, js, link.Hash(js.ID, page.URL+" "+links[0].URL), page, links)
}
