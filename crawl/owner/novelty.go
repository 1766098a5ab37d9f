package owner

import (
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/frame"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// saveNovelty is after how many pages what is known of a host's pages is written: after a crash
	// so much less is known.
	saveNovelty = 128
	// fewPages are not worth a record of their own when a lease ends.
	fewPages = 32
	// maxFresh bounds the hosts of a page that are remembered; a page with more of them has them
	// counted once each time.
	maxFresh = 1 << 16
	// maxParted bounds the pages whose links have come in part, of which it is remembered which
	// hosts they led to.
	maxParted = 16
	// lastFor is for how many usual times between requests a URL waits that goes last, and lastMost
	// in ms the longest.
	lastFor  = 20
	lastMost = 30_000
)

// traps is what is known of the pages of hosts, to tell those that bring nothing new.
type traps struct{ *step }

// of returns what is known of the pages of a job on a host, as the store has it if it is not in
// memory.
func (t *traps) of(h *host, hj *hostJob) *novelty.State {
	if hj.novelty != nil {
		return hj.novelty
	}
	hj.novelty = new(novelty.State)
	if hj.Tally.Requests() < fewPages {
		return hj.novelty
	}
	raw, ok := t.buf.Get(ondisk.NoveltyKey(h.pos, hj.state.ID))
	if !ok {
		return hj.novelty
	}
	s, err := ondisk.DecodeNovelty(raw)
	if err != nil {
		t.buf.Fail(err)
		return hj.novelty
	}
	hj.novelty = s
	return s
}

// observe notes what a page of a host brought, links to its own host among it.
func (oc *outcomes) observe(h *host, hj *hostJob, got *ondisk.Final, f *wire.Fetched, brought int64) {
	switch {
	case oc.cfg.Novelty == 0 || hj.Tally.Counters().Trap:
		return
	case got.Kind == link.KindSitemap && brought > 0 && oc.emitter.page.of(f):
		oc.traps.of(h, hj).Sitemap(oc.emitter.page.own, oc.cfg.Novelty)
		return
	case got.Kind != link.KindPage:
		return
	}
	oc.domains.say(h, hj, got, f, oc.emitter.page.url == got.URL && oc.emitter.page.kin > 0)
	p := novelty.Page{
		URL: got.URL, Own: ownOf(f), Links: int(f.GetOwnLinks()), New: int(brought),
	}
	if page := oc.emitter.page; page.of(f) {
		p.Brought = page.own
	}
	switch got.Outcome {
	case link.OutcomeOK, link.OutcomeDuplicate:
	case link.OutcomeHTTPError:
		p.Failed = true
	case link.OutcomeRedirect:
		p.Redirect = true
		if len(f.GetLinks()) == 0 || link.Host(string(f.GetLinks()[0])) != h.rec.Name {
			return // what it leads to says what there is to say
		}
	default:
		return
	}
	s := oc.traps.of(h, hj)
	s.Observe(p, oc.cfg.Novelty)
	if s.Seen()%saveNovelty == 0 {
		oc.hosts.learnt(h, hj)
	}
	if oc.traps.outgrows(h, hj) {
		hj.Outgrown()
	}
	if s.Whole(oc.cfg.Novelty) {
		hj.Trapped()
		oc.hosts.learnt(h, hj)
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
func (oc *outcomes) doubt(h *host, hj *hostJob, f *wire.Fetched) {
	if page := oc.emitter.page; oc.cfg.Novelty > 0 && page.of(f) && !hj.Tally.Counters().Trap {
		page.behind = oc.traps.of(h, hj).Doubts(page.url, ownOf(f), oc.cfg.Novelty)
	}
}

// came notes the URLs of a page's own host that it brought.
func (em *emitter) came(h *host, js *jobState) {
	hj := h.job(js)
	for i := range em.intake.fresh {
		p := &em.intake.fresh[i]
		if p.Kind != link.KindPage || hj == nil || link.Host(p.URL) != h.rec.Name {
			continue
		}
		if len(em.page.own) < novelty.MaxBrought {
			em.page.own = append(em.page.own, p.URL)
		}
		if em.page.behind && em.cfg.Delay > 0 && !em.traps.of(h, hj).Worthy(p.URL) {
			hj.Wait(p, em.lastAt())
		}
	}
	em.intake.fresh = em.intake.fresh[:0]
}

// lastAt is when a URL is due that goes behind others.
func (s *step) lastAt() int64 { return s.now + min(lastFor*s.cfg.Delay.Milliseconds(), lastMost) }

// keepNovelty has what is known of a host's pages written, as its lease ends: another owner, or
// another process, may be the next one.
func (ls *leases) keepNovelty(h *host) {
	for _, hj := range h.jobs {
		if hj.novelty != nil && hj.novelty.Seen() >= fewPages && !hj.news {
			ls.hosts.learnt(h, hj)
		}
	}
}

// learnt has what is known of the pages of a job on a host written with the step.
func (t *hostTable) learnt(h *host, hj *hostJob) {
	hj.news = true
	t.touched(h)
}

// save writes what is known of the pages of a job on a host.
func (t *traps) save(h *host, hj *hostJob) {
	if hj.news && hj.novelty != nil {
		t.buf.Set(ondisk.NoveltyKey(h.pos, hj.state.ID), hj.novelty.Append([]byte{ondisk.Format}))
		if h.lease == nil {
			hj.novelty = nil // some kilobytes, and nobody asks until the next lease
		}
	}
	hj.news = false
}

// novelty merges what is known of the pages of a job on a host: what knows more stays.
func (m *importer) novelty(h *host, js *jobState, tail []byte, rec kv.Record) error {
	if _, err := ondisk.DecodeNovelty(rec.Value); err != nil || len(tail) > 0 {
		return ondisk.ErrFormat
	}
	hj := m.book(h, js)
	raw, ok := m.buf.Get(rec.Key)
	if hj.novelty != nil {
		raw, ok = hj.novelty.Append([]byte{ondisk.Format}), true
	}
	if !ok || novelty.Later(rec.Value[1:], raw[1:]) {
		m.buf.Set(rec.Key, rec.Value)
		hj.novelty, hj.news = nil, false
	}
	return nil
}

// text says why a host, or a part of it, is taken for a trap; empty if none is.
func (t *traps) text(h *host, hj *hostJob) string {
	if t.cfg.Novelty > 0 {
		if why := t.of(h, hj).Why(t.cfg.Novelty); why != "" {
			return ondisk.Clip(why)
		}
	}
	if hj.Tally.Counters().Trap {
		return "an owner of the host found that its pages bring nothing new"
	}
	return ""
}

// window is how many URLs of a host are out at once.
func (t *traps) window(h *host) int {
	window := t.cfg.Window
	for _, hj := range h.jobs {
		if t.cfg.Novelty > 0 {
			window = min(window, t.of(h, hj).Ahead(t.cfg.Novelty, t.cfg.Window))
		}
	}
	return window
}

// farm returns what is known of hosts that bring hosts in a job.
func (t *traps) farm(js *jobState) *farm.Farm {
	if js.farm != nil {
		return js.farm
	}
	js.farm = new(farm.Farm)
	if raw, ok := t.buf.Get(ondisk.JobKey(ondisk.SpaceFarm, js.ID)); ok && len(raw) > 0 && raw[0] == ondisk.Format {
		if f, err := farm.Decode(raw[1:]); err == nil {
			js.farm = f
		}
	}
	return js.farm
}

// pageHosts are the hosts that the links of a page lead to, as long as it is looked at: it may come
// in pieces, and take more than one step.
type pageHosts struct {
	job   job.ID
	url   string
	fresh map[string]bool // hosts that were not known here, and whether they are admitted
	most  int             // of those that may be admitted
	kin   int             // of them, those of the page's registrable domain
	text  uint64
	// brought counts the new URLs of the page's own host among the links that came without its
	// outcome.
	brought int64
	own     []string // some of those
	behind  bool     // those that are still to come go behind others
}

// of says whether the account is that of the page that a report is of.
func (p *pageHosts) of(f *wire.Fetched) bool {
	return p != nil && p.job == job.ID(f.GetJob()) && p.url == string(f.GetUrl())
}

// account opens the account of a page's hosts, or goes on with it. The pieces of a page with very
// many links may come in several sessions, also of a worker whose lease is over by then: the
// account is kept from the first of them until the page's outcome is here, or until those of
// maxParted other pages are.
func (v *Visit) account(js *jobState, f *wire.Fetched) {
	o := v.owner
	at := slices.IndexFunc(o.emitter.parted, func(p *pageHosts) bool { return p.of(f) })
	switch {
	case at >= 0:
		v.hosts = o.emitter.parted[at]
		o.emitter.parted = slices.Delete(o.emitter.parted, at, at+1)
	case !v.hosts.of(f):
		v.hosts = nil
	}
	if len(f.GetLinks()) == 0 {
		return
	}
	if v.hosts == nil {
		v.hosts = &pageHosts{job: js.ID, url: string(f.GetUrl()), text: f.GetTextPrint()}
	}
	o.emitter.page = v.hosts
	if link.Outcome(f.GetOutcome()) != link.OutcomeNone {
		return
	}
	if len(o.emitter.parted) == maxParted {
		o.emitter.parted = slices.Delete(o.emitter.parted, 0, 1)
	}
	o.emitter.parted = append(o.emitter.parted, v.hosts)
}

// accepted is how many URLs of a host a job has.
func (h *host) accepted(js *jobState) int64 {
	if hj := h.job(js); hj != nil {
		return hj.Tally.Accepted()
	}
	return 0
}

// mayBring says whether a page of a host may bring a link to another one: any host that is known
// here, and so many others.
func (em *emitter) mayBring(h *host, js *jobState, name string, here bool) bool {
	if name == h.rec.Name || em.cfg.PageHosts == 0 && em.cfg.Novelty == 0 {
		return true
	}
	if admitted, again := em.page.fresh[name]; again {
		return admitted
	}
	met := link.Hash(js.ID, "host "+name)
	if here && em.hosts.find(name) != nil || em.met.covers(met, 0) {
		return true
	}
	if len(em.page.fresh) == 0 {
		em.page.most = em.brings(h, js)
	}
	ok := len(em.page.fresh) < em.page.most
	if em.page.fresh == nil {
		em.page.fresh = make(map[string]bool)
	}
	if len(em.page.fresh) < maxFresh {
		em.page.fresh[name] = ok
	}
	if ok {
		em.met.put(met, 0)
	}
	if em.cfg.Admission && domain.Of(name) == domain.Of(h.rec.Name) {
		em.page.kin++
	}
	return ok
}

// brings is how many hosts that nobody here knew a page may bring.
func (em *emitter) brings(h *host, js *jobState) int {
	most := math.MaxInt
	if em.cfg.PageHosts > 0 {
		most = em.cfg.PageHosts
	}
	if em.cfg.Novelty == 0 || em.page.text == 0 {
		return most
	}
	js.farmMod = true
	em.jobs.changed(js)
	return min(most, em.traps.farm(js).Brings(h.rec.Name, em.page.text, em.home(h, js), em.cfg.Novelty))
}

// home says whether the page at hand leads to a host that is known, beside its own.
func (em *emitter) home(h *host, js *jobState) bool {
	last := h.rec.Name
	for i := range em.links {
		name := link.Host(em.links[i].URL)
		if name == last || name == h.rec.Name {
			continue
		}
		last = name
		if em.hosts.find(name) != nil || em.met.covers(link.Hash(js.ID, "host "+name), 0) {
			return true
		}
	}
	return false
}

// cutLink counts a link that is not taken.
func (em *emitter) cutLink(h *host, js *jobState) {
	em.book(h, js).CutLink()
}
