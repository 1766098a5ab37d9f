package owner_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// place is how a URL was found.
type place struct{ via, path, seed string }

// places returns the places of the URLs in a grant, as its worker reads them.
func places(t *testing.T, g *wire.Grant) map[string]place {
	t.Helper()
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]place)
	sources := wire.SourcesOf(g, false)
	for i, url := range g.GetUrl() {
		var p place
		p.via, p.path, p.seed = link.Provenance(sources.Of(i), string(url), link.Kind(g.GetKind()[i]), g.GetDepth()[i], g.GetHops()[i])
		all[string(url)] = p
	}
	return all
}

// exportedPlaces returns the places of the URLs with an outcome, as an export reads them.
func exportedPlaces(t *testing.T, s *scene) map[string]place {
	t.Helper()
	all := make(map[string]place)
	sources := ondisk.NewSources(s.store.Get)
	if _, err := ondisk.URLsIn(s.store, nil, 1000, func(id job.ID, f *ondisk.Final) {
		from := sources.Of(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, f.Via)
		var p place
		p.via, p.path, p.seed = link.Provenance(from, f.URL, f.Kind, f.Depth, f.Hops)
		all[f.URL] = p
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func want(t *testing.T, where string, got, want map[string]place) {
	t.Helper()
	for url, p := range want {
		if got[url] != p {
			t.Errorf("%s: %s was found as %+v, want %+v", where, url, got[url], p)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d URLs %v, want %d", where, len(got), got, len(want))
	}
}

// carry sends the links of an owner's outbox to another.
func carry(t *testing.T, from, to *scene) {
	t.Helper()
	m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{from.id[:]}}
	var table wire.SourceTable
	for _, l := range from.owner.Outbox(100) {
		m.Url, m.Job, m.Depth = append(m.Url, []byte(l.URL)), append(m.Job, 0), append(m.Depth, l.Depth)
		m.Hops, m.Kind = append(m.Hops, l.Hops), append(m.Kind, byte(l.Kind))
		table.Add(l.Source)
	}
	m.Sources, m.Source = table.Columns()
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	to.do(func(o *owner.Owner) { o.Links(m) })
}

// TestProvenance follows a crawl over two owners: links, a redirect, a requisite and the sitemap of
// a robots.txt have their source, hop path and seed in the grants of both owners, also after a
// crash and after a handoff, and in the export of outcomes.
func TestProvenance(t *testing.T) {
	const (
		seed, page, style = "http://a.example/", "http://a.example/page", "http://a.example/style.css"
		far, moved, image = "http://b.example/far", "http://b.example/moved", "http://b.example/x.png"
		robots, sitemap   = "http://b.example/robots.txt", "http://b.example/sitemap.xml"
		listed            = "http://b.example/listed"
	)
	jobs := jobTable{}
	id := jobs.add(t, &wire.JobSpec{Seeds: [][]byte{[]byte(seed)}, Scope: []string{"*.example"}, Requisites: true})
	newOwner := func(name, host string) *scene {
		return &scene{id: id, now: epochStart, peer: newPeer(t, owner.Config{Self: name, Window: 100}, hostSet{ring.HostKey(host): true}, jobs, epochStart)}
	}
	a, b := newOwner("a", "a.example"), newOwner("b", "b.example")
	reported := func(g *wire.Grant, url string, outcome link.Outcome, kinds []byte, links ...string) *wire.Fetched {
		f := a.got(url, outcome, links...)
		f.LinkKind = kinds
		for i, granted := range g.GetUrl() {
			if string(granted) == url {
				f.Depth, f.Hops, f.Kind = g.GetDepth()[i], uint32(g.GetHops()[i]), uint32(g.GetKind()[i])
			}
		}
		return f
	}

	a.post(0, seed)
	g := a.lease("w", "a.example", 10)
	want(t, "grant of the seed", places(t, g), map[string]place{seed: {"", "", seed}})
	a.tell("w", "a.example", g.GetEpoch(), reported(g, seed, link.OutcomeOK, []byte{0, 2}, page, style))
	g = a.ask("w", "a.example", g.GetEpoch(), 10)
	want(t, "second grant", places(t, g), map[string]place{page: {seed, "L", seed}, style: {seed, "E", seed}})
	a.tell("w", "a.example", g.GetEpoch(),
		reported(g, page, link.OutcomeOK, nil, far, seed), reported(g, style, link.OutcomeOK, []byte{2}, image))
	a.crash(a.now, rand.New(rand.NewPCG(1, 2))) // the outbox is read from the disk
	a.do(nil)
	carry(t, a, b)

	g = b.lease("v", "b.example", 10)
	want(t, "grant at the other owner", places(t, g), map[string]place{far: {page, "LL", seed}, image: {style, "EE", seed}})
	asked := b.got(robots, link.OutcomeNone, sitemap)
	asked.Kind, asked.LinkKind, asked.AskedBy = uint32(link.KindRobots), []byte{byte(link.KindSitemap)}, []byte(far)
	redirect := reported(g, far, link.OutcomeRedirect, nil, moved)
	redirect.Status = 301
	b.tell("v", "b.example", g.GetEpoch(), asked, redirect, reported(g, image, link.OutcomeOK, nil))
	note, ok := b.owner.Lease(ring.PosOf(ring.HostKey("b.example")))
	if !ok {
		t.Fatal("no lease to hand off")
	}

	c := newOwner("c", "b.example") // the next owner, from the records that a replica has
	c.do(func(o *owner.Owner) {
		if err := o.Import(copied(b.peer)); err != nil {
			t.Fatal(err)
		}
		if err := o.Adopt(note); err != nil {
			t.Fatal(err)
		}
	})
	epoch := note.GetEpoch()
	g = c.ask("v", "b.example", epoch, 10)
	want(t, "grant after the handoff", places(t, g), map[string]place{moved: {far, "LLR", seed}, sitemap: {robots, "LLPM", seed}})
	c.tell("v", "b.example", epoch, reported(g, moved, link.OutcomeOK, nil), reported(g, sitemap, link.OutcomeOK, []byte{0}, listed))
	g = c.ask("v", "b.example", epoch, 10)
	want(t, "grant of a URL in the sitemap", places(t, g), map[string]place{listed: {sitemap, "LLPMM", seed}})
	c.tell("v", "b.example", epoch, reported(g, listed, link.OutcomeOK, nil))
	want(t, "export of the other owner", exportedPlaces(t, c), map[string]place{
		far: {page, "LL", seed}, image: {style, "EE", seed}, moved: {far, "LLR", seed}, sitemap: {robots, "LLPM", seed}, listed: {sitemap, "LLPMM", seed},
	})
	want(t, "export of the first owner", exportedPlaces(t, a), map[string]place{seed: {"", "", seed}, page: {seed, "L", seed}, style: {seed, "E", seed}})
}

// TestViaOfSmallestDepth checks that the source of a URL follows a smaller depth, also while the
// URL is out at a worker, and that an equal depth does not change it.
func TestViaOfSmallestDepth(t *testing.T) {
	const url, first, second, third = "http://b.example/", "http://a.example/first", "http://a.example/second", "http://a.example/third"
	s := newScene(t, nil)
	found := func(depth uint32, via, path string) {
		m := links(s.id, depth, url)
		m.Sources, m.Source = []*wire.Source{{Url: []byte(via), Path: []byte(path), Seed: []byte("http://a.example/")}}, []uint32{1}
		s.do(func(o *owner.Owner) { o.Links(m) })
	}
	found(3, first, "LL")
	found(2, second, "L")
	found(2, third, "L")
	g := s.lease("w", "b.example", 1)
	want(t, "grant", places(t, g), map[string]place{url: {second, "LL", "http://a.example/"}})
	found(1, third, "")
	s.tell("w", "b.example", g.GetEpoch(), s.got(url, link.OutcomeOK))
	want(t, "export", exportedPlaces(t, s), map[string]place{url: {third, "L", "http://a.example/"}})
}

// TestForgedSources checks that records of sources are stored as their content says, and that
// links with sources that are not canonical are accepted without them.
func TestForgedSources(t *testing.T) {
	s := newScene(t, nil)
	m := links(s.id, 1, "http://b.example/")
	m.Sources, m.Source = []*wire.Source{{Url: []byte("http://a.example/\nseed: x")}}, []uint32{1}
	s.do(func(o *owner.Owner) { o.Links(m) })
	want(t, "grant", places(t, s.lease("w", "b.example", 1)), map[string]place{"http://b.example/": {}})

	pos := ring.PosOf(ring.HostKey("b.example"))
	from := link.Source{URL: "http://a.example/", Seed: "http://a.example/"}
	value := ondisk.EncodeSource(&from)
	odd := ondisk.EncodeSource(&link.Source{URL: "http://A.example/"})
	for name, row := range map[string]struct {
		key, value []byte
		ok         bool
	}{
		"as written":    {ondisk.SourceKey(pos, s.id, ondisk.SourceHash(s.id, value)), value, true},
		"another hash":  {ondisk.SourceKey(pos, s.id, 1), value, false},
		"no hash":       {ondisk.JobPrefix(pos, ondisk.KindSource, s.id), value, false},
		"not canonical": {ondisk.SourceKey(pos, s.id, ondisk.SourceHash(s.id, odd)), odd, false},
		"cut off":       {ondisk.SourceKey(pos, s.id, ondisk.SourceHash(s.id, value[:5])), value[:5], false},
	} {
		s.do(func(o *owner.Owner) {
			if err := o.Import(append(exported(t, s.peer), kv.Record{Key: row.key, Value: row.value})); (err == nil) != row.ok {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
