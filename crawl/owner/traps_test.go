package owner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// rules turns the trap rules on, with n pages for a pattern and for a host.
func rules(m *wire.JobSpec, n uint32) {
	m.TrapRules = &wire.TrapRules{Pattern: n, Depth: 200, DepthStale: 100, Queries: 1000, QueryStale: 500, Host: n}
}

// endless answers each URL of a host with the same words and links to two more.
func (s *scene) endless(url string) *wire.Fetched {
	f := s.got(url, link.OutcomeOK, url+"a/", url+"b/")
	f.Text, f.Masked = 77, 77
	return f
}

// crawl has a worker fetch all that it is granted of a host until nothing is left, or most URLs
// were fetched, and returns those.
func (s *scene) crawl(name string, most int, answer func(url string) *wire.Fetched) (asked []string) {
	s.t.Helper()
	for round := 0; len(asked) < most; round++ {
		if round > 10_000 {
			s.t.Fatal("no end")
		}
		s.placed(s.wait(time.Second), "w")
		reply, _ := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: name, Want: 16}}})
		if len(reply.GetGrants()) == 0 {
			if s.owner.Totals().URLsPending == 0 {
				return asked
			}
			continue
		}
		g := reply.GetGrants()[0]
		work := &wire.HostWork{Host: name, Epoch: g.GetEpoch(), Release: true}
		for _, url := range granted(g) {
			asked = append(asked, url)
			work.Fetched = append(work.Fetched, answer(url))
		}
		s.say("w", &wire.Session{Held: []*wire.HostLease{{Host: name, Epoch: g.GetEpoch()}}, Hosts: []*wire.HostWork{work}})
	}
	return asked
}

// TestTrapEnds: a host that answers everything with the same page and links to more is left, which
// its URLs and the host say; also after a crash on the way, and by the next owner of the host.
func TestTrapEnds(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	s.post(0, "http://a.example/")
	first := s.crawl(host, 50, s.endless)
	s.crash(s.now, rand.New(rand.NewPCG(1, 2)))
	s.now = s.now.Add(time.Minute)
	asked := append(first, s.crawl(host, 1000, s.endless)...)
	if len(asked) > 150 {
		t.Fatalf("%d requests to a trap of which 40 pages are to be enough", len(asked))
	}
	totals := s.owner.Totals()
	if totals.Traps == 0 || totals.URLsPending != 0 || totals.Errors != 0 {
		t.Errorf("%d requests, then %+v", len(asked), totals)
	}
	left := ""
	for _, url := range asked { // some of what they lead to is refused by its form
		if f := s.fate(url + "a/"); f.Final.Outcome == link.OutcomeTrap {
			left = f.Final.Detail
		}
	}
	d, _ := s.owner.Host(host)
	if !strings.Contains(left, "rule ") || d.Jobs[0].Trap == "" || d.Jobs[0].Requests != int64(len(asked)) {
		t.Errorf("a URL says %q, the host %+v", left, d.Jobs[0])
	}

	next := newScene(t, func(m *wire.JobSpec, c *owner.Config) { c.Self = "next"; rules(m, 40) })
	next.now = s.now
	handoff(s, next, host)
	next.post(0, "http://a.example/more/", "http://a.example/still/more/")
	if more := next.crawl(host, 100, next.endless); len(more) > 0 {
		t.Errorf("the next owner has %d more URLs asked for", len(more))
	}
}

// TestTwoHosts: of hosts that say the same on every page and bring each other ever new URLs each is
// left.
func TestTwoHosts(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	s.check = false
	hosts := []string{"a.example", "b.example"}
	s.post(0, "http://a.example/0")
	asked := 0
	for range 1000 {
		host := hosts[asked%2]
		if got := s.crawl(host, 1, func(url string) *wire.Fetched {
			asked++
			f := s.got(url, link.OutcomeOK, fmt.Sprintf("http://%s/%d", hosts[asked%2], asked))
			f.Text, f.Masked = 77, 77
			return f
		}); len(got) == 0 {
			break
		}
	}
	if totals := s.owner.Totals(); asked > 400 || totals.Traps == 0 || totals.URLsPending != 0 {
		t.Errorf("%d requests, then %+v", asked, totals)
	}
}

// TestTwoHostsInTurns: it takes no more when each of them is asked for hundreds of URLs before the
// other has its turn.
func TestTwoHostsInTurns(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 400) })
	s.check = false
	hosts := []string{"a.example", "b.example"}
	s.post(0, "http://a.example/0")
	asked := make(map[string]int)
	for turn := range 40 {
		name, other := hosts[turn%2], hosts[1-turn%2]
		for got, idle := 0, 0; got < 256 && idle < 4; {
			s.placed(s.wait(time.Second), "w")
			reply, _ := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: name, Want: 64}}})
			if len(reply.GetGrants()) == 0 {
				idle++
				continue
			}
			g := reply.GetGrants()[0]
			work := &wire.HostWork{Host: name, Epoch: g.GetEpoch(), Release: true}
			for _, url := range granted(g) {
				var to []string
				for range 3 {
					to = append(to, fmt.Sprintf("http://%s/%x", other, rand.Uint64()))
				}
				f := s.got(url, link.OutcomeOK, to...)
				f.Text, f.Masked = 77, 77
				work.Fetched = append(work.Fetched, f)
			}
			got += len(work.GetFetched())
			asked[name] += len(work.GetFetched())
			s.say("w", &wire.Session{Held: []*wire.HostLease{{Host: name, Epoch: g.GetEpoch()}}, Hosts: []*wire.HostWork{work}})
		}
	}
	if totals := s.owner.Totals(); max(asked[hosts[0]], asked[hosts[1]]) > 1400 || totals.Traps == 0 || totals.URLsPending != 0 {
		t.Errorf("%v requests, then %+v", asked, totals)
	}
}

// TestPartsOfAHost: a wiki of which every article has a history that says what the others say, and
// leads on, loses no article; each history that is left says why.
func TestPartsOfAHost(t *testing.T) {
	const articles = 600
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	s.post(0, "http://a.example/wiki/0")
	got := make(map[string]bool)
	asked := s.crawl(host, 5000, func(url string) *wire.Fetched {
		n := 0
		_, _ = fmt.Sscanf(url, "http://a.example/wiki/%d", &n)
		links := []string{"http://a.example/wiki/0"}
		for _, k := range []int{2*n + 1, 2*n + 2, n * 7919 % articles, n * 104729 % articles} {
			if k < articles {
				links = append(links, fmt.Sprintf("http://a.example/wiki/%d", k))
			}
		}
		history := strings.Contains(url, "?")
		if history {
			links = append(links, url+"0")
		} else {
			links = append(links, url+"?action=history&offset=1")
		}
		f := s.got(url, link.OutcomeOK, links...)
		f.Text, f.Masked = 77, 77
		if !history {
			got[url] = true
			f.Text = uint64(pick(url, 1<<31-1))<<31 | uint64(pick(url+"low", 1<<31-1)) // not below 0
			f.Masked = f.Text
		}
		return f
	})
	totals := s.owner.Totals()
	if len(got) != articles || totals.Traps == 0 || totals.URLsPending != 0 || len(asked) > articles+400 {
		t.Errorf("%d of %d articles, %d requests, then %+v", len(got), articles, len(asked), totals)
	}
	if f := s.fate("http://a.example/wiki/599?action=history&offset=1"); f.Final.Outcome != link.OutcomeTrap || !strings.Contains(f.Final.Detail, "rule ") {
		t.Errorf("a history says %+v", f.Final)
	}
}

// TestManyLeftAtOnce: of a part with more URLs behind others than one step leaves, all are left.
func TestManyLeftAtOnce(t *testing.T) {
	const urls, own = 2000, 20
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	s.post(0, "http://a.example/")
	var links []string
	for i := range urls {
		links = append(links, fmt.Sprintf("http://a.example/cal/%d", i))
	}
	for i := range own {
		links = append(links, fmt.Sprintf("http://a.example/page/%d", i))
	}
	asked := s.crawl(host, 1000, func(url string) *wire.Fetched {
		f := s.got(url, link.OutcomeOK)
		switch {
		case strings.Contains(url, "/cal/"):
			f.Text, f.Masked = 77, 77
		case strings.Contains(url, "/page/"):
			f.Text = uint64(pick(url, 1<<31-1)) << 31 // not below 0
			f.Masked = f.Text
		default:
			f = s.got(url, link.OutcomeOK, links...)
		}
		return f
	})
	if totals := s.owner.Totals(); len(asked) > 120 || totals.URLsPending != 0 || totals.Traps != int64(urls+own+1-len(asked)) {
		t.Errorf("%d requests, then %+v", len(asked), totals)
	}
}

// TestTrapOnASite: what is no part of the trap is fetched all the same.
func TestTrapOnASite(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	want := map[string]bool{}
	for i := range 300 {
		url := fmt.Sprintf("http://a.example/page%c%c", 'a'+i/26, 'a'+i%26)
		want[url] = true
		s.post(0, url)
	}
	s.post(0, "http://a.example/cal/")
	asked := s.crawl(host, 2000, func(url string) *wire.Fetched {
		if strings.Contains(url, "/cal/") {
			return s.endless(url)
		}
		f := s.got(url, link.OutcomeOK)
		f.Text = uint64(pick(url, 1<<31-1))<<31 | uint64(pick(url+"low", 1<<31-1)) // not below 0
		f.Masked = f.Text
		return f
	})
	for _, url := range asked {
		delete(want, url)
	}
	if len(want) > 0 || len(asked) > 600 {
		t.Errorf("%d requests, %d pages of the site were not among them", len(asked), len(want))
	}
}

// TestRequestsOfAHost: as many requests as the budget says and not one more, whatever comes of them
// and whatever happens meanwhile.
func TestRequestsOfAHost(t *testing.T) {
	const budget = 50
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxRequests = budget })
	s.post(0, pages(host, 90)...)
	n := 0
	answer := func(url string) *wire.Fetched {
		n++
		return s.got(url, []link.Outcome{link.OutcomeOK, link.OutcomeHTTPError, link.OutcomeRedirect, link.OutcomeRobotsDenied}[n%4])
	}
	asked := s.crawl(host, 20, answer)
	s.crash(s.now, rand.New(rand.NewPCG(1, 2)))
	s.now = s.now.Add(time.Minute)
	asked = append(asked, s.crawl(host, 1000, answer)...)
	if len(asked) != budget {
		t.Errorf("%d requests, want %d", len(asked), budget)
	}
	totals := s.owner.Totals()
	if totals.OutOfBudget != 90-budget || totals.URLsPending != 0 {
		t.Errorf("%+v", totals)
	}
	left := 0
	for _, url := range pages(host, 90) {
		if f := s.fate(url); f.Final.Outcome == link.OutcomeOutOfBudget {
			left++
			if !strings.Contains(f.Final.Detail, "--max-requests-per-host 50") {
				t.Fatalf("%s says %q", url, f.Final.Detail)
			}
		}
	}
	if left != 90-budget {
		t.Errorf("%d URLs are told to be out of budget", left)
	}
}

// TestPagesOfAHost: as many pages are fetched of a host as a job says, whatever they turned out to
// be and whatever happens meanwhile; what is no page does not count.
func TestPagesOfAHost(t *testing.T) {
	const bound = 12
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.MaxPagesPerHost = bound })
	s.post(0, pages(host, 90)...)
	kinds := []link.Outcome{link.OutcomeOK, link.OutcomeDuplicate, link.OutcomeTooLarge, link.OutcomeHTTPError, link.OutcomeRedirect}
	fetched, n := 0, 0
	answer := func(url string) *wire.Fetched {
		outcome := kinds[n%len(kinds)]
		if n++; outcome == link.OutcomeOK || outcome == link.OutcomeDuplicate || outcome == link.OutcomeTooLarge {
			fetched++
		}
		return s.got(url, outcome)
	}
	s.crawl(host, 4, answer)
	s.crash(s.now, rand.New(rand.NewPCG(1, 2)))
	s.now = s.now.Add(time.Minute)
	next := newScene(t, func(m *wire.JobSpec, c *owner.Config) { c.Self, m.MaxPagesPerHost = "next", bound })
	s.crawl(host, 4, answer)
	handoff(s, next, host)
	next.crawl(host, 1000, answer)
	if fetched != bound {
		t.Errorf("%d pages were fetched, of %d", fetched, bound)
	}
	if got := next.owner.Totals(); got.OutOfBudget == 0 || got.URLsPending != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRetriesAreRequests: a URL that is tried again has been asked for again.
func TestRetriesAreRequests(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxRequests = 10 })
	s.post(0, pages(host, 8)...)
	asked := s.crawl(host, 1000, func(url string) *wire.Fetched {
		f := s.got(url, link.OutcomeHTTPError)
		f.Status = 503
		return f
	})
	if len(asked) != 10 {
		t.Errorf("%d requests, want 10", len(asked))
	}
}

// TestHostsOfAPage: the links of a page lead to so many new hosts and not to more; those that are
// known count for nothing.
func TestHostsOfAPage(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.PageHosts = 10 })
	known := wide(0, 5)
	s.post(0, known...)
	s.post(0, "http://a.example/")
	g := s.lease("w", host, 1)
	s.tell("w", host, g.GetEpoch(), s.got("http://a.example/", link.OutcomeOK, append(wide(100, 50), append(known, "http://a.example/x")...)...))
	if got := s.owner.Totals(); got.HostsOwned != 1+5+10 || got.LinksCut != 40 {
		t.Errorf("%d hosts, %d links cut; want 16 and 40", got.HostsOwned, got.LinksCut)
	}
	d, _ := s.owner.Host(host)
	if d.Jobs[0].LinksCut != 40 || d.Jobs[0].Accepted != 2 {
		t.Errorf("the host says %+v", d.Jobs[0])
	}
}

// TestHostsOfAPageInPieces: so it is where the links come in several messages, and in several
// pages' messages.
func TestHostsOfAPageInPieces(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.PageHosts = 10 })
	s.post(0, "http://a.example/", "http://a.example/next")
	g := s.lease("w", host, 2)
	for i, piece := range []struct {
		url     string
		outcome link.Outcome
		hosts   int64
	}{
		{"http://a.example/", link.OutcomeNone, 10},
		{"http://a.example/", link.OutcomeNone, 10},
		{"http://a.example/", link.OutcomeOK, 10},
		{"http://a.example/next", link.OutcomeNone, 20},
		{"http://a.example/next", link.OutcomeOK, 20},
	} {
		f := s.got(piece.url, piece.outcome, wide(wire.MaxPageLinks*i, wire.MaxPageLinks)...)
		if piece.outcome == link.OutcomeNone {
			f = &wire.Fetched{Url: f.GetUrl(), Job: f.GetJob(), Links: f.GetLinks(), LinkKind: f.GetLinkKind()}
		}
		if i == 1 { // as of a worker whose lease is over
			s.say("late", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Fetched: []*wire.Fetched{f}}}})
		} else {
			s.tell("w", host, g.GetEpoch(), f)
		}
		if got := s.owner.Totals().HostsOwned; got != 1+piece.hosts {
			t.Fatalf("%d hosts after message %d, want %d", got, i+1, 1+piece.hosts)
		}
	}
}

// TestFarmOfDomains: hosts with words of their own, each of a domain of its own, that lead to ever
// more such bring a bounded number of them, and none at last. A web of which the sites lead to one
// another, and a directory of sites that lead nowhere, lose none.
func TestFarmOfDomains(t *testing.T) {
	fullOnly(t)
	crawl := func(pages int, links func(i int) []string) (s *scene) {
		s = newScene(t, func(m *wire.JobSpec, c *owner.Config) { rules(m, 400); c.PageHosts = 10_000 })
		s.check = false
		for i := range pages {
			name := fmt.Sprintf("n%d.example", i)
			f := says(s.got("http://"+name+"/", link.OutcomeOK, links(i)...))
			s.post(0, string(f.GetUrl()))
			s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: name, Fetched: []*wire.Fetched{f}}}})
		}
		return s
	}
	const pages = 2000
	s := crawl(pages, func(i int) []string { return wide(100_000+50*i, 50) })
	if brought := s.owner.Totals().HostsOwned - pages; brought > 20_100 {
		t.Errorf("a farm of %d hosts brought %d", pages, brought)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	s = crawl(pages, func(i int) (list []string) {
		for range 10 { // most lead anywhere, some where many do
			n := rnd.IntN(50_000)
			if rnd.IntN(10) == 0 {
				n = rnd.IntN(100)
			}
			list = append(list, wide(100_000+n, 1)...)
		}
		return list
	})
	if cut := s.owner.Totals().LinksCut; cut != 0 {
		t.Errorf("%d links of a web were cut", cut)
	}
	s = crawl(1, func(int) []string { return wide(100_000, 9000) })
	if cut := s.owner.Totals().LinksCut; cut != 0 {
		t.Errorf("%d links of a directory were cut", cut)
	}
}
