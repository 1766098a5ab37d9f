package owner_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

func TestLinksAreAdmitted(t *testing.T) {
	tests := []struct {
		name string
		link string
		m    func(*wire.Links)
		want bool
	}{
		{"in scope", "http://a.example/x", nil, true},
		{"out of scope", "http://a.test/x", func(m *wire.Links) { m.Depth = []uint32{1} }, false},
		{"a seed out of scope", "http://a.test/x", nil, true},
		{"not canonical", "http://a.example/../x", nil, false},
		{"not canonical, by other rules", "http://a.example/%7Ex/../y", func(m *wire.Links) { m.Rules = link.RulesVersion + 1 }, true},
		{"no URL", "hello", nil, false},
		{"too deep", "http://a.example/x", func(m *wire.Links) { m.Depth = []uint32{4} }, false},
		{"deep enough", "http://a.example/x", func(m *wire.Links) { m.Depth = []uint32{3} }, true},
		{"a trap", "http://a.example" + strings.Repeat("/a", 60), nil, false},
		{"requisite", "http://a.example/x.png", func(m *wire.Links) { m.Kind = []byte{byte(link.KindRequisite)} }, false},
		{"sitemap", "http://a.example/sitemap.xml", func(m *wire.Links) { m.Kind = []byte{byte(link.KindSitemap)} }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 1000); m.HasMaxDepth, m.MaxDepth = true, 3 })
			m := links(s.id, 0, test.link)
			if test.m != nil {
				test.m(m)
			}
			var reply *wire.LinksReply
			s.do(func(o *owner.Owner) { reply = o.Links(m) })
			if len(reply.GetBusy())+len(reply.GetMoved()) > 0 {
				t.Errorf("reply %v", reply)
			}
			if got := s.owner.Totals().URLsSeen == 1; got != test.want {
				t.Errorf("admitted %v, want %v", got, test.want)
			}
		})
	}
}

func TestLinksOfAnUnknownJobAreBusy(t *testing.T) {
	s := newScene(t, nil)
	other := job.NewID()
	m := links(s.id, 0, "http://a.example/1", "http://a.example/2")
	m.JobIds, m.Job = append(m.JobIds, other[:]), []uint32{1, 0}
	var reply *wire.LinksReply
	ready := s.do(func(o *owner.Owner) { reply = o.Links(m) })
	if !slices.Equal(reply.GetBusy(), []uint32{0}) || len(ready.NeedJobs) != 1 || ready.NeedJobs[0] != other {
		t.Errorf("reply %v, needs %v", reply, ready.NeedJobs)
	}
	spec := *s.jobs[s.id].spec
	spec.ID = other
	s.jobs[other] = &jobEntry{spec: &spec, state: job.StateRunning}
	s.do(func(o *owner.Owner) { o.JobChanged(other) })
	s.do(func(o *owner.Owner) { reply = o.Links(m) })
	if len(reply.GetBusy()) != 0 || s.owner.Counts(other).Pending != 1 {
		t.Errorf("once it is known: %v, %+v", reply, s.owner.Counts(other))
	}
}

func TestHostsOfOthersAreMoved(t *testing.T) {
	s := newScene(t, nil)
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	var reply *wire.LinksReply
	s.do(func(o *owner.Owner) { reply = o.Links(links(s.id, 0, "http://a.example/", "http://b.example/")) })
	if !slices.Equal(reply.GetMoved(), []uint32{1}) || s.owner.Totals().HostsOwned != 1 {
		t.Errorf("reply %v", reply)
	}
	answer, _ := s.say("w", &wire.Session{
		Held:  []*wire.HostLease{{Host: "c.example", Epoch: &wire.Epoch{Counter: 1}}},
		Hosts: []*wire.HostWork{{Host: "b.example", Epoch: &wire.Epoch{Counter: 1}, Fetched: []*wire.Fetched{s.got("http://b.example/", link.OutcomeOK)}}},
	})
	if !slices.Equal(answer.GetMoved(), []string{"c.example", "b.example"}) {
		t.Errorf("session reply %v", answer)
	}
}

func TestRedirects(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 0 })
	s.post(0, "http://a.example/r0")
	for i := range wire.MaxRedirects + 1 {
		g := s.lease("w", "a.example", 4)
		if len(g.GetUrl()) != 1 || int(g.GetHops()[0]) != i || g.GetDepth()[0] != 0 {
			t.Fatalf("hop %d: granted %v", i, g)
		}
		f := s.got(granted(g)[0], link.OutcomeRedirect, fmt.Sprintf("http://a.example/r%d", i+1))
		f.Hops = uint32(i)
		s.tell("w", "a.example", g.GetEpoch(), f)
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
	}
	if f := s.fate("http://a.example/r0"); f.Final.Target() != "http://a.example/r1" {
		t.Errorf("target %q is recorded", f.Final.Target())
	}
	if got := s.owner.Totals(); got.Redirects != wire.MaxRedirects+1 || got.URLsSeen != wire.MaxRedirects+1 {
		t.Errorf("%+v", got)
	}
}

// TestIndexesEnd: a sitemap that is an index of ever new indexes is followed as far as a redirect
// is; the pages that they name are taken.
func TestIndexesEnd(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 4)
	robots := s.got("http://a.example/robots.txt", link.OutcomeNone, "http://a.example/s0")
	robots.Kind, robots.LinkKind = uint32(link.KindRobots), []byte{byte(link.KindSitemap)}
	s.tell("w", "a.example", g.GetEpoch(), s.got("http://a.example/", link.OutcomeOK), robots)
	for i := range wire.MaxIndexes + 1 {
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
		g = s.lease("w", "a.example", 4)
		at := slices.Index(granted(g), fmt.Sprintf("http://a.example/s%d", i))
		if at < 0 || int(column(g.GetHops(), at)) != i {
			t.Fatalf("index %d: granted %v", i, g)
		}
		for k, url := range granted(g) {
			f := s.got(url, link.OutcomeOK)
			if k == at {
				f = s.got(url, link.OutcomeOK, fmt.Sprintf("http://a.example/s%d", i+1), fmt.Sprintf("http://a.example/page%d", i))
				f.Kind, f.Hops, f.LinkKind = uint32(link.KindSitemap), uint32(i), []byte{byte(link.KindSitemap), byte(link.KindPage)}
			}
			s.tell("w", "a.example", g.GetEpoch(), f)
		}
	}
	last := wire.MaxIndexes
	for url, want := range map[string]string{fmt.Sprintf("http://a.example/s%d", last+1): "unknown", fmt.Sprintf("http://a.example/page%d", last): "pending"} {
		if got := s.fate(url); got.State != want {
			t.Errorf("%s is %s, want %s", url, got.State, want)
		}
	}
}

func column(hops []byte, i int) byte {
	if len(hops) == 0 {
		return 0
	}
	return hops[i]
}

// TestKindsOfLinks: requisites and the parts of an index belong to their page's depth, a
// robots.txt's sitemaps have the depth it says.
func TestKindsOfLinks(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth, m.Requisites = true, 0, true })
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 4)
	page := s.got("http://a.example/", link.OutcomeOK, "http://a.example/x.png", "http://a.example/next", "http://a.example/part.xml")
	page.LinkKind = []byte{byte(link.KindRequisite), byte(link.KindPage), byte(link.KindSitemap)}
	robots := s.got("http://a.example/robots.txt", link.OutcomeNone, "http://a.example/sitemap.xml", "http://a.example/page")
	robots.Kind = uint32(link.KindRobots)
	robots.LinkKind = []byte{byte(link.KindSitemap), byte(link.KindPage)}
	s.tell("w", "a.example", g.GetEpoch(), page, robots)
	for url, want := range map[string]string{
		"http://a.example/x.png": "pending", "http://a.example/next": "unknown", "http://a.example/sitemap.xml": "pending",
		"http://a.example/part.xml": "pending", "http://a.example/robots.txt": "unknown", "http://a.example/page": "unknown",
	} {
		if got := s.fate(url); got.State != want || got.Final.Depth != 0 {
			t.Errorf("%s: %+v, want %s", url, got, want)
		}
	}
}

func TestPauseAndCancel(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 1200)...)
	set := func(state job.State) {
		s.do(func(o *owner.Owner) {
			s.jobs[s.id].state = state
			o.JobChanged(s.id)
		})
	}
	g := s.lease("w", "a.example", 2)
	set(job.StatePaused)
	if more := s.ask("w", "a.example", g.GetEpoch(), 2); len(more.GetUrl()) != 0 || more.GetMore() {
		t.Errorf("granted while paused: %v", more)
	}
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK, "http://a.example/found"))
	if got := s.owner.Totals(); got.Pages != 1 || got.URLsSeen != 1201 {
		t.Errorf("what was out while paused: %+v", got)
	}
	set(job.StateRunning)
	if more := s.ask("w", "a.example", g.GetEpoch(), 2); len(more.GetUrl()) != 2 {
		t.Errorf("granted after it: %v", more)
	}
	set(job.StateCanceled)
	for range 5 {
		s.wait(0)
	}
	if c := s.owner.Counts(s.id); c.Pending != 0 || c.Leased != 3 {
		t.Errorf("canceled: %+v", c)
	}
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[1], link.OutcomeOK, "http://a.example/late"))
	if c := s.owner.Counts(s.id); c.Outcomes[link.OutcomeOK.String()] != 2 || c.Accepted != 1201 {
		t.Errorf("a report after the cancel: %+v", c)
	}
}

// TestSeenBloom: with the paper's filter alone a positive is believed.
func TestSeenBloom(t *testing.T) {
	for _, bloom := range []bool{false, true} {
		s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.SeenBloom, cfg.MaxKnown = bloom, 2 })
		seen := alwaysYes{}
		o, err := owner.New(s.cfg, s.shipped(), seen, s.jobs, s.ring, s.now)
		if err != nil {
			t.Fatal(err)
		}
		s.owner = o
		s.post(0, "http://a.example/1")
		s.post(0, "http://a.example/2")
		if got, want := s.owner.Totals().URLsSeen, map[bool]int64{false: 2, true: 1}[bloom]; got != want {
			t.Errorf("bloom %v: %d URLs, want %d", bloom, got, want)
		}
	}
}

type alwaysYes struct{}

func (alwaysYes) Test(owner.SetID, uint64) (bool, error) { return true, nil }
func (alwaysYes) Add(owner.SetID, uint64) error          { return nil }
func (alwaysYes) Drop(owner.SetID)                       {}

// TestPieces: all links of a page whose links come in pieces are followed.
func TestPieces(t *testing.T) {
	const far = "http://a.example/far"
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 2 })
	s.post(1, far)
	g := s.lease("w", "a.example", 4)
	ahead := s.got(far, link.OutcomeNone, pages("b.example", wire.MaxPageLinks)...)
	ahead.Depth, ahead.FetchedMs, ahead.Size = 7, 0, 0 // what it says of its depth counts for nothing
	few := s.got(far, link.OutcomeNone, pages("d.example", 3)...)
	s.tell("w", "a.example", g.GetEpoch(), ahead, few, s.got(far, link.OutcomeOK, pages("c.example", 5)...))
	for range 10 {
		s.wait(time.Minute)
	}
	if c := s.owner.Counts(s.id); c.Pending != wire.MaxPageLinks+5 {
		t.Errorf("%d pending, want %d", c.Pending, wire.MaxPageLinks+5)
	}
}

// TestAnswersFit: an answer fits into a frame whatever was asked for, and what it has no room for
// comes later.
func TestAnswersFit(t *testing.T) {
	const hosts, each = 16, 40
	s := newScene(t, nil)
	m := &wire.Session{}
	for i := range hosts {
		host := fmt.Sprintf("h%d.example", i)
		var urls []string
		for k := range each {
			urls = append(urls, fmt.Sprintf("http://%s/%d/%s", host, k, strings.Repeat("x", 7000)))
		}
		s.post(0, urls...)
		m.Hosts = append(m.Hosts, &wire.HostWork{Host: host, Want: each})
	}
	s.placed(s.do(nil), "w")
	reply, _ := s.say("w", m)
	if size := proto.Size(reply); size > 4<<20 || len(reply.GetGrants()) == 0 || len(reply.GetRevoked()) == 0 {
		t.Errorf("an answer of %d bytes, %d grants, %d revoked", size, len(reply.GetGrants()), len(reply.GetRevoked()))
	}
	got := make(map[string]int)
	for range 100 {
		again := &wire.Session{}
		for _, g := range reply.GetGrants() {
			got[g.GetHost()] += len(g.GetUrl())
			again.Held = append(again.Held, &wire.HostLease{Host: g.GetHost(), Epoch: g.GetEpoch()})
			again.Hosts = append(again.Hosts, &wire.HostWork{Host: g.GetHost(), Epoch: g.GetEpoch(), Release: true})
		}
		s.placed(s.wait(time.Minute), "w")
		for i := range hosts {
			if host := fmt.Sprintf("h%d.example", i); got[host] == 0 {
				again.Hosts = append(again.Hosts, &wire.HostWork{Host: host, Want: each})
			}
		}
		if len(got) == hosts {
			return
		}
		reply, _ = s.say("w", again)
	}
	t.Errorf("%d of %d hosts were granted", len(got), hosts)
}

// TestHostsHoldNoURLs: what is kept of a host in memory does not hold the URL that first led to it,
// which may have thousands of bytes.
func TestHostsHoldNoURLs(t *testing.T) {
	const hosts, long = 1000, 8000
	s := newScene(t, nil)
	s.store.Forgetful = true
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) - s.store.Bytes()
	}
	before := heap()
	for i := 0; i < hosts; i += 100 {
		var urls []string
		for k := range 100 {
			urls = append(urls, fmt.Sprintf("http://h%d.example/%s", i+k, strings.Repeat("x", long)))
		}
		s.post(0, urls...)
	}
	if grown := heap() - before; grown > hosts*long*7/4 { // the log of the test has each once
		t.Errorf("%d hosts take %d bytes each beside the store", hosts, grown/hosts)
	}
	runtime.KeepAlive(s)
}

// TestRequisitesOfOtherHosts: requisites are taken on any host, those of style sheets as far as
// MaxEmbeds; what else is said to be linked from a requisite is not.
func TestRequisitesOfOtherHosts(t *testing.T) {
	for _, scope := range [][]string{nil, {"a.example"}} {
		s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.Requisites, m.Scope = true, scope })
		s.post(0, "http://a.example/")
		g := s.lease("w", "a.example", 4)
		page := s.got("http://a.example/", link.OutcomeOK, "http://b.example/page", "http://b.example/0", "http://c.example/img")
		page.LinkKind = []byte{byte(link.KindPage), byte(link.KindRequisite), byte(link.KindRequisite)}
		s.tell("w", "a.example", g.GetEpoch(), page)
		for i := range wire.MaxEmbeds + 1 {
			g = s.lease("w", "b.example", 1)
			if url := fmt.Sprintf("http://b.example/%d", i); !slices.Equal(granted(g), []string{url}) {
				t.Fatalf("scope %v: granted %v, want %s", scope, granted(g), url)
			}
			f := s.got(granted(g)[0], link.OutcomeOK, fmt.Sprintf("http://b.example/%d", i+1), "http://b.example/other")
			f.Kind, f.Hops, f.LinkKind = uint32(link.KindRequisite), uint32(i), []byte{byte(link.KindRequisite), byte(link.KindPage)}
			s.tell("w", "b.example", g.GetEpoch(), f)
			s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "b.example", Epoch: g.GetEpoch(), Release: true}}})
		}
		for url, want := range map[string]string{
			"http://c.example/img": "pending", "http://b.example/page": "unknown", "http://b.example/other": "unknown",
			fmt.Sprintf("http://b.example/%d", wire.MaxEmbeds+1): "unknown",
		} {
			if got := s.fate(url); got.State != want {
				t.Errorf("scope %v: %s is %s, want %s", scope, url, got.State, want)
			}
		}
	}
}
