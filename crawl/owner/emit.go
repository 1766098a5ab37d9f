package owner

import (
	"strconv"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// ahead says how many of the first links of a report were taken in before it, and at which depth of
// the page.
type ahead struct {
	n     int
	depth uint32
	// brought counts those that were new URLs of the page's own host.
	brought int64
}

// rest are the links that are still to be taken in for a page at a depth.
func (a ahead) rest(links []ondisk.Link, depth uint32) []ondisk.Link {
	if depth < a.depth {
		return links
	}
	return links[min(a.n, len(links)):]
}

// emitter sends the links of pages on their way: into the sets of this peer's hosts, or into the
// outbox.
type emitter struct {
	*step
	jobs     *jobTable
	hosts    *hostTable
	traps    *traps
	intake   *intake
	outgoing *outgoing
	sent     depths        // links put into the outbox, at which depth
	met      depths        // hosts that were linked to
	page     *pageHosts    // of the page whose links are at hand
	links    []ondisk.Link // of them, those that are looked at
	parted   []*pageHosts
}

// emit sends the links of a page on their way, and keeps them where a smaller depth may be met
// later.
func (em *emitter) emit(h *host, js *jobState, hash uint64, page *ondisk.Final, f *wire.Fetched, went ahead) {
	links := children(page, f)
	if len(links) == 0 {
		return
	}
	em.keepLinks(h, js, hash, page, links)
	if links = went.rest(links, page.Depth); len(links) > 0 {
		em.forward(h, js, hash, page.Depth, links)
	}
}

// keepLinks records the links of a page that may be met at a smaller depth, beside those that are
// recorded of it.
func (em *emitter) keepLinks(h *host, js *jobState, hash uint64, page *ondisk.Final, links []ondisk.Link) {
	redirects := len(js.Spec.Include) > 0 && page.Outcome == link.OutcomeRedirect // of a seed they are followed anywhere
	if !js.Spec.BoundsDepth() && !redirects || page.Depth == 0 {
		return
	}
	key := ondisk.OutlinksKey(h.pos, js.ID, hash)
	list := ondisk.Links{Links: links}
	if raw, ok := em.buf.Get(key); ok {
		if had, err := ondisk.DecodeLinks(raw); err == nil {
			list.Links, list.Rest = ondisk.Union(had.Links, links), had.Rest
		}
	}
	em.buf.Set(key, list.Encode())
}

// children lists the links of a page with depths relative to its own: 1 for what it links to; 0 for
// what belongs to it, for where it is redirected to, and for the sitemaps a robots.txt names. An
// index of sitemaps within another one counts as a redirect does, as it passes on what it was asked
// for.
func children(page *ondisk.Final, f *wire.Fetched) []ondisk.Link {
	links := make([]ondisk.Link, 0, len(f.GetLinks()))
	redirect := page.Outcome == link.OutcomeRedirect
	passed := page.Hops >= wire.MaxRedirects
	if redirect && passed {
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
		switch index := k.Kind == link.KindSitemap && page.Kind == link.KindSitemap; {
		case redirect:
			k.Depth, k.Hops = 0, page.Hops+1
		case index && passed:
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
func (em *emitter) forward(h *host, js *jobState, hash uint64, depth uint32, links []ondisk.Link) {
	em.links = links
	defer func() { em.links = nil }()
	var own []arrival
	var foreign []ondisk.Link
	var last string
	var here, inScope, brings bool
	for _, k := range links {
		k.Depth += depth
		name := link.Host(k.URL)
		if name == "" || !js.Spec.AdmitsDepth(name, k.Depth) {
			continue
		}
		target := link.Hash(js.ID, k.URL)
		if m := memo(target, k.Kind); em.intake.known.covers(m, k.Depth) || em.sent.covers(m, k.Depth) {
			continue
		}
		if name != last {
			last, inScope = name, js.Spec.InScope(name)
			here = inScope && em.hosts.answersFor(name) == hostHere
			brings = inScope && em.mayBring(h, js, name, here)
		}
		switch {
		case !inScope:
		case !brings:
			em.cutLink(h, js)
		case here:
			own = append(own, arrival{Link: k, js: js, host: name, hash: target})
		case Refusal(js.Spec, k.URL, k.Depth, k.Kind) == "":
			em.sent.put(memo(target, k.Kind), k.Depth)
			foreign = append(foreign, k)
		}
	}
	em.intake.fresh = em.intake.fresh[:0]
	em.intake.admit(own)
	em.came(h, js)
	if len(foreign) > 0 {
		em.outgoing.put(h, js, hash, depth, ondisk.Links{Links: foreign})
	}
}

// keyOf is the position of a host's name.
func (t *hostTable) keyOf(name string) ring.Key {
	if h := t.byName[name]; h != nil {
		return h.key
	}
	return ring.HostKey(name)
}

// again emits the links of some pages that were met at a smaller depth.
func (em *emitter) again() {
	b := &em.outgoing.box
	for range min(againPerStep, b.Turns(em.now)) {
		e := b.Turn()
		if e != nil && !em.jobs.knows(em.jobs.of(e.Job)) {
			b.PutOff(em.now + needEvery)
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
func (em *emitter) emitAgain(e *outbox.Entry) (through bool) {
	h := em.hosts.at(e.Pos)
	raw, ok := em.buf.Get([]byte(e.Key))
	if h == nil || !ok {
		return true
	}
	js := em.jobs.of(e.Job)
	if js.State == job.StateCanceled {
		em.outgoing.drop(h, js, []byte(e.Key), raw)
		return true
	}
	em.page = &pageHosts{}
	if e.Rest == nil {
		var err error
		if e.Rest, err = em.linksAgain(e, raw); err != nil {
			em.buf.Fail(err)
			return true
		}
	}
	for len(e.Rest) > linksAtOnce {
		em.forwardPiece(h, js, strconv.FormatUint(e.Hash, 16), e.At, e.Rest[:linksAtOnce])
		if e.Rest = e.Rest[linksAtOnce:]; !em.HasRoom() {
			return false
		}
	}
	em.outgoing.drop(h, js, []byte(e.Key), raw)
	em.forward(h, js, e.Hash, e.At, e.Rest)
	return true
}

// linksAgain are the links that an entry stands for, with depths relative to the page's: the
// recorded ones, and those it holds itself.
func (em *emitter) linksAgain(e *outbox.Entry, raw []byte) ([]ondisk.Link, error) {
	own, err := ondisk.DecodeLinks(raw)
	if err != nil {
		return nil, err
	}
	for i := range own.Links {
		own.Links[i].Depth -= min(e.At, own.Links[i].Depth)
	}
	value, ok := em.buf.Get(ondisk.OutlinksKey(e.Pos, e.Job, e.Hash))
	if !ok {
		return own.Links, nil
	}
	list, err := ondisk.DecodeLinks(value)
	return ondisk.Union(list.Links, own.Links), err
}
