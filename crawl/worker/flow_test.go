package worker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
)

// pages serves fixed bodies by path or host and path; everything else is not found.
func fixed(bodies map[string]string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.Host+r.URL.Path]
		if !ok {
			body, ok = bodies[r.URL.Path]
		}
		if !ok {
			http.NotFound(rw, r)
			return
		}
		if target, is := strings.CutPrefix(body, "redirect "); is {
			http.Redirect(rw, r, target, http.StatusFound)
			return
		}
		if kind, rest, is := strings.Cut(body, "|"); is {
			name, value, _ := strings.Cut(kind, ": ")
			rw.Header().Set(name, value)
			body = rest
		} else if r.URL.Path != "/robots.txt" {
			rw.Header().Set("Content-Type", "text/html")
		}
		fmt.Fprint(rw, body)
	}
}

// TestOutcomes: what becomes of one URL, by what its site does.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		bodies  map[string]string
		url     string
		want    link.Outcome
		status  uint32
		links   []string
		archive int // records in all
	}{
		{"page", map[string]string{"/": "<a href=/x>"}, "http://a.example/", link.OutcomeOK, 200, []string{"http://a.example/x"}, 2},
		{"not found", nil, "http://a.example/", link.OutcomeHTTPError, 404, nil, 1},
		{"redirect", map[string]string{"/": "redirect /y"}, "http://a.example/", link.OutcomeRedirect, 302, []string{"http://a.example/y"}, 2},
		{"redirect to nothing crawlable", map[string]string{"/": "redirect mailto:a@b"}, "http://a.example/", link.OutcomeRedirect, 302, nil, 1},
		{"nofollow on the link", map[string]string{"/": "<a rel=nofollow href=/x>"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"nofollow on the page", map[string]string{"/": "<meta name=robots content=nofollow><a href=/x>"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"nofollow in the header", map[string]string{"/": "X-Robots-Tag: nofollow|<a href=/x>"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"noindex keeps nothing, follows links", map[string]string{"/": "<meta name=robots content=noindex><a href=/x>"}, "http://a.example/", link.OutcomeNoIndex, 200, []string{"http://a.example/x"}, 1},
		{"noindex in the header", map[string]string{"/": "X-Robots-Tag: noindex|<a href=/x>"}, "http://a.example/", link.OutcomeNoIndex, 200, []string{"http://a.example/x"}, 1},
		{"link out of scope", map[string]string{"/": "<a href=http://b.example/>"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"requisites not asked for", map[string]string{"/": "<img src=/x.png>"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"empty body", map[string]string{"/": ""}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"robots denies", map[string]string{"/robots.txt": "User-agent: *\nDisallow: /no", "/no": "x"}, "http://a.example/no", link.OutcomeRobotsDenied, 0, nil, 0},
		{"robots denies us by name", map[string]string{"/robots.txt": "User-agent: apoidea\nDisallow: /\n\nUser-agent: *\nAllow: /", "/": "x"}, "http://a.example/", link.OutcomeRobotsDenied, 0, nil, 0},
		{"robots allows", map[string]string{"/robots.txt": "User-agent: *\nDisallow: /no", "/": "x"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"robots redirects on the host", map[string]string{"/robots.txt": "redirect /r2", "/r2": "redirect /r3", "/r3": "User-agent: *\nDisallow: /", "/": "x"}, "http://a.example/", link.OutcomeRobotsDenied, 0, nil, 0},
		{"robots redirects for ever", map[string]string{"/robots.txt": "redirect /robots.txt", "/": "x"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"robots redirects to another host", map[string]string{"/robots.txt": "redirect http://b.example/robots.txt", "/": "x"}, "http://a.example/", link.OutcomeOK, 200, nil, 1},
		{"name does not resolve", nil, "http://nowhere.example/", link.OutcomeConnect, 0, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, fixed(tt.bodies), []string{tt.url})
				x.crawl()
				f := x.done(tt.url)
				want := tt.want
				if tt.url == "http://nowhere.example/" {
					want = link.OutcomeDNS
				}
				if got := link.Outcome(f.GetOutcome()); got != want || f.GetStatus() != tt.status {
					t.Errorf("outcome %v, status %d; want %v, %d (%s)", got, f.GetStatus(), want, tt.status, f.GetDetail())
				}
				var links []string
				for _, l := range f.GetLinks() {
					links = append(links, string(l))
				}
				if !slices.Equal(links, tt.links) {
					t.Errorf("links %q, want %q", links, tt.links)
				}
				if n := len(x.archive.saved); n != tt.archive {
					t.Errorf("%d records, want %d", n, tt.archive)
				}
				if e := x.events[tt.url]; e.Outcome != want {
					t.Errorf("event says %v", e.Outcome)
				}
			})
		})
	}
}

// TestArchiveNoIndex: with the option a page that asks not to be indexed is a page like others.
func TestArchiveNoIndex(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const url = "http://a.example/"
		x := newWorld(t, fixed(map[string]string{"/": "<meta name=robots content=noindex>text"}), []string{url}, func(x *world) { x.cfg.Pages.ArchiveNoIndex = true })
		x.crawl()
		if got := link.Outcome(x.done(url).GetOutcome()); got != link.OutcomeOK || len(x.archive.saved) != 1 {
			t.Errorf("outcome %v, %d records; want ok and one", got, len(x.archive.saved))
		}
	})
}

// TestCutBody: of a body over the bound the beginning is archived and marked (WARC 1.1, 5.13), and
// its links are followed. It is nobody's duplicate. What is over the budget of a job is not kept.
func TestCutBody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		budget  uint64
		archive int
	}{
		{"over the peer's bound", 0, 2},
		{"over the budget of the job", 1 << 20, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				// The last link is cut in the midst of its name, and so is none.
				body := "<a href=/x>" + strings.Repeat("a", testMaxBody-20) + "<a href=/half/a/name>"
				urls := []string{"http://a.example/", "http://b.example/"}
				x := newWorld(t, fixed(map[string]string{"/": body}), urls, func(x *world) { x.maxBytes = tt.budget })
				x.crawl()
				for _, u := range urls {
					f := x.done(u)
					if got := link.Outcome(f.GetOutcome()); got != link.OutcomeTooLarge || len(f.GetLinks()) != tt.archive/2 || (len(f.GetRecordId()) == 16) != (tt.archive > 0) {
						t.Errorf("%s: outcome %v, %d links, record %x", u, got, len(f.GetLinks()), f.GetRecordId())
					}
				}
				saved := slices.DeleteFunc(slices.Clone(x.archive.saved), func(e pages.Exchange) bool { return !slices.Contains(urls, e.URL) })
				for _, e := range saved {
					if e.Truncated != fetch.TruncatedLength || len(e.Body) != testMaxBody || e.RevisitOf != nil || len(e.Outlinks) != 1 {
						t.Errorf("%s: truncated %q, %d bytes, revisit of %v, %d links", e.URL, e.Truncated, len(e.Body), e.RevisitOf, len(e.Outlinks))
					}
				}
				if len(saved) != tt.archive || len(x.content.confirmed) != 0 {
					t.Errorf("%d records, want %d; %d confirmed", len(saved), tt.archive, len(x.content.confirmed))
				}
			})
		})
	}
}

// TestDuplicateBecomesRevisit: the same body at a second URL is archived as a revisit of the first,
// and its links are followed unless duplicates are dropped (design, section 4; Apoidea, 2.1).
func TestDuplicateBecomesRevisit(t *testing.T) {
	for _, tt := range []struct {
		name string
		drop bool
		want int // URLs done
	}{
		{"links are extracted", false, 6},
		{"links are dropped", true, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, fixed(map[string]string{
					"a.example/": "<a href=/same>", "b.example/": "<p><a href=http://a.example/>", "/same": "the same <a href=next>", "/next": "Content-Type: text/plain|end",
					"b.example/next": "Content-Type: text/plain|the other end",
				}), []string{"http://a.example/", "http://b.example/"}, func(x *world) { x.cfg.Pages.DuplicatesDrop = tt.drop })
				x.crawl()
				x.owner("b.example").add("http://b.example/same", 1, 0, link.KindPage)
				x.rerun()
				total := 0
				for _, n := range x.outcomes() {
					total += n
				}
				if total != tt.want {
					t.Errorf("%d URLs done, want %d: %v", total, tt.want, x.outcomes())
				}
				first, second := x.done("http://a.example/same"), x.done("http://b.example/same")
				if got := link.Outcome(second.GetOutcome()); got != link.OutcomeDuplicate {
					t.Fatalf("second outcome %v", got)
				}
				i := slices.IndexFunc(x.archive.saved, func(e pages.Exchange) bool { return e.URL == "http://b.example/same" })
				of, id := x.archive.saved[i].RevisitOf, first.GetRecordId()
				if of == nil || of.URL != "http://a.example/same" || len(id) != 16 || of.RecordID != fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]) {
					t.Errorf("revisit of %+v, want the record of the first", of)
				}
				if s := x.worker.Stats(); s.Duplicates != 1 {
					t.Errorf("%d duplicates counted", s.Duplicates)
				}
			})
		})
	}
}

// rerun crawls on with a new worker of the same kind.
func (x *world) rerun() {
	x.t.Helper()
	synctest.Wait() // for offers to the worker before
	x.cfg.Sessions.Incarnation++
	var err error
	if x.worker, err = New(x.cfg, x.deps); err != nil {
		x.t.Fatal(err)
	}
	x.crawl()
}

// TestSameBodyAtOnce: two URLs with one body in one batch of questions. The second waits for the
// first to be on disk, and becomes its revisit.
func TestSameBodyAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*world)
		want    map[link.Outcome]int
		assumed int64
	}{
		{"confirmed in time", func(*world) {}, map[link.Outcome]int{link.OutcomeOK: 2, link.OutcomeDuplicate: 1}, 0},
		{"never confirmed: archived again", func(x *world) { x.content.deaf = true }, map[link.Outcome]int{link.OutcomeOK: 3}, 1},
		{"nobody answers: archived again", func(x *world) { x.content.failing = true }, map[link.Outcome]int{link.OutcomeOK: 3}, 3},
		{"too much parked: archived again", func(x *world) { x.cfg.Pages.MaxParked = 10; x.content.deaf = true }, map[link.Outcome]int{link.OutcomeOK: 3}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, fixed(map[string]string{"/": "<a href=/1><a href=/2>", "/1": "same", "/2": "same"}),
					[]string{"http://a.example/"}, tt.change)
				x.crawl()
				if got := x.outcomes(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("outcomes %v, want %v", got, tt.want)
				}
				if got := x.worker.Stats().Assumed; got != tt.assumed {
					t.Errorf("%d bodies taken for new without an answer, want %d", got, tt.assumed)
				}
			})
		})
	}
}

// TestEmptyBodiesAreNoDuplicates: two empty pages have nothing in common.
func TestEmptyBodiesAreNoDuplicates(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, fixed(map[string]string{"/": "<a href=/1><a href=/2>", "/1": "", "/2": ""}), []string{"http://a.example/"})
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 3 {
			t.Errorf("outcomes %v, want 3 ok", got)
		}
	})
}

// TestReportedIsSynced: no message tells of a page that the last Sync does not cover.
func TestReportedIsSynced(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(200), []string{"http://a.example/"})
		x.deps.Owners = watchful{x, func(m *wire.Session) {
			x.archive.mu.Lock()
			defer x.archive.mu.Unlock()
			synced := make(map[string]bool)
			for _, e := range x.archive.saved[:x.archive.synced] {
				synced[e.URL] = true
			}
			for _, w := range m.GetHosts() {
				for _, f := range w.GetFetched() {
					if !synced[string(f.GetUrl())] {
						t.Errorf("%s was reported before it was synced", f.GetUrl())
					}
				}
			}
		}}
		x.rerun()
		if got := x.outcomes(); got[link.OutcomeOK] != 200 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// watchful looks at messages on their way.
type watchful struct {
	*world
	look func(*wire.Session)
}

func (o watchful) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	o.look(m)
	return o.world.Session(ctx, owner, m)
}

// TestLittleMemory: with memory for two pages nothing is lost.
func TestLittleMemory(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		big := strings.Repeat("x", 20<<10)
		inner := site(300)
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			inner(rw, r)
			if r.URL.Path != "/robots.txt" {
				fmt.Fprint(rw, big)
			}
		}, []string{"http://a.example/", "http://b.example/", "http://c.example/"}, func(x *world) {
			x.cfg.Pages.MaxMemory = 60 << 10
			x.content.failing = true
			x.cfg.Pages.ClaimLinger = 50 * time.Millisecond
		})
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 900 {
			t.Errorf("outcomes %v, want 900 ok", got)
		}
		for _, e := range x.archive.saved {
			if !strings.HasSuffix(string(e.Body), big) || !strings.HasPrefix(string(e.RequestHead), "GET ") || len(e.Outlinks) == 0 {
				t.Fatalf("%s came back changed: %d bytes, %q, %d links", e.URL, len(e.Body), e.RequestHead, len(e.Outlinks))
			}
		}
	})
}

// TestSitemaps: those that robots.txt names are told once, read, and their entries crawled; a job
// may do without.
func TestSitemaps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*wire.JobSpec)
		want   int
	}{
		{"read", func(*wire.JobSpec) {}, 4},
		{"not wanted", func(m *wire.JobSpec) { m.NoSitemaps = true }, 1},
		{"beyond the depth", func(m *wire.JobSpec) { m.HasMaxDepth = true }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, fixed(map[string]string{
					"/": "home", "/robots.txt": "Sitemap: /map.xml\nSitemap: http://b.example/map.xml", "/1": "one", "/2": "two",
					"/map.xml": "Content-Type: application/xml|<urlset><url><loc>http://a.example/1</loc></url><url><loc>http://a.example/2</loc></url></urlset>",
				}), []string{"http://a.example/"}, withSpec(tt.change))
				x.crawl()
				if got := x.outcomes(); got[link.OutcomeOK] != tt.want {
					t.Errorf("outcomes %v, want %d ok", got, tt.want)
				}
			})
		})
	}
}

// TestExchangesHaveProvenance checks the job, outcome, source, hop path and seed of archived pages.
func TestExchangesHaveProvenance(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const seed, page, moved, sitemap, listed = "http://a.example/", "http://a.example/page", "http://a.example/moved", "http://a.example/map.xml", "http://a.example/listed"
		x := newWorld(t, fixed(map[string]string{
			"/": "<a href=page>", "/page": "redirect /moved", "/robots.txt": "Sitemap: /map.xml", "/moved": "<a href=/>moved", "/listed": "listed",
			"/map.xml": "Content-Type: application/xml|<urlset><url><loc>http://a.example/listed</loc></url></urlset>",
		}), []string{seed})
		x.crawl()
		want := map[string][4]string{
			seed: {"", "", seed, "ok"}, page: {seed, "L", seed, "redirect"}, moved: {page, "LR", seed, "ok"},
			sitemap: {"http://a.example/robots.txt", "PM", seed, "ok"}, listed: {sitemap, "PMM", seed, "ok"},
		}
		for i := range x.archive.saved {
			e := &x.archive.saved[i]
			if got := [4]string{e.Via, e.HopPath, e.Seed, e.Outcome}; got != want[e.URL] || e.Job != x.spec.ID {
				t.Errorf("%s of job %s: via, path, seed and outcome are %q, want %q", e.URL, e.Job, got, want[e.URL])
			}
			delete(want, e.URL)
		}
		if len(want) > 0 {
			t.Errorf("not archived: %v", want)
		}
	})
}

// TestLargeSitemap: a sitemap may be larger than any other body, up to the bound of its protocol;
// of one beyond that the beginning counts.
func TestLargeSitemap(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
		want link.Outcome
		read []string
	}{
		{"over the bound on bodies", testMaxBody + 1<<20, link.OutcomeOK, []string{"http://a.example/1", "http://a.example/2"}},
		{"over that of the protocol", extract.MaxSitemap + 1, link.OutcomeTooLarge, []string{"http://a.example/1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				body := "http://a.example/1\n" + strings.Repeat(strings.Repeat(" ", 1<<16-1)+"\n", tt.size>>16) + "http://a.example/2\n"
				x := newWorld(t, fixed(map[string]string{
					"/": "home", "/robots.txt": "Sitemap: http://a.example/map.txt", "/map.txt": "Content-Type: text/plain|" + body, "/1": "one", "/2": "two",
				}), []string{"http://a.example/"})
				x.crawl()
				f := x.done("http://a.example/map.txt")
				if got := link.Outcome(f.GetOutcome()); got != tt.want || len(f.GetLinks()) != len(tt.read) {
					t.Errorf("outcome %v, %q, links %q", got, f.GetDetail(), f.GetLinks())
				}
				for _, url := range tt.read {
					if got := link.Outcome(x.done(url).GetOutcome()); got != link.OutcomeOK {
						t.Errorf("%s: %v", url, got)
					}
				}
			})
		})
	}
}

// TestMaxDepthTellsEveryLink: the owner of a job with a depth keeps all links, so none is held
// back.
func TestMaxDepthTellsEveryLink(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(100), []string{"http://a.example/"}, withSpec(func(m *wire.JobSpec) { m.HasMaxDepth, m.MaxDepth = true, 50 }))
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 100 {
			t.Errorf("outcomes %v", got)
		}
		for i := 1; i < 49; i++ {
			if n := len(x.done(fmt.Sprintf("http://a.example/p%d", i)).GetLinks()); n < 3 {
				t.Errorf("page %d was told with %d links, want all", i, n)
			}
		}
	})
}

// TestKnownLinksAreNotToldAgain: without a depth, a link that was acknowledged is not told again.
func TestKnownLinksAreNotToldAgain(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(500), []string{"http://a.example/"})
		x.crawl()
		told := 0
		for _, f := range x.host("a.example").done {
			told += len(f.GetLinks())
		}
		if told < 499 || told > 1200 { // each page has four links
			t.Errorf("%d links told for 500 pages", told)
		}
	})
}

// TestPoliteness: the gap between two requests of a host is the delay, or what robots.txt asks for.
func TestPoliteness(t *testing.T) {
	for _, tt := range []struct {
		name   string
		delay  time.Duration
		robots string
		want   time.Duration
	}{
		{"the floor", time.Second, "", time.Second},
		{"Crawl-delay", time.Second, "User-agent: *\nCrawl-delay: 3", 3 * time.Second},
		{"Crawl-delay below the floor", 2 * time.Second, "User-agent: *\nCrawl-delay: 1", 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				inner := site(15)
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/robots.txt" && tt.robots != "" {
						fmt.Fprint(rw, tt.robots)
						return
					}
					inner(rw, r)
				}, []string{"http://a.example/", "http://b.example/"}, func(x *world) {
					x.cfg.Politeness = frontier.Config{Delay: tt.delay, Factor: -1}
				})
				x.crawl()
				for host, gap := range x.gaps {
					if gap < tt.want-50*time.Millisecond || gap > tt.want+time.Second {
						t.Errorf("%s: smallest gap %v, want %v", host, gap, tt.want)
					}
				}
				if x.lapped != 0 || len(x.gaps) != 2 {
					t.Errorf("%d overlaps, %d hosts", x.lapped, len(x.gaps))
				}
			})
		})
	}
}

// TestInFlight: what a crash would have fetched again is bounded, and the bound follows how long
// the owner takes to acknowledge.
func TestInFlight(t *testing.T) {
	const most = 8
	for _, tt := range []struct {
		pause time.Duration
		least int // of the most that is seen in flight; the bound is above
		bound int
	}{
		{0, 2, most},
		{40 * time.Millisecond, most / 2, most},
		{100 * time.Millisecond, most + 1, 2 * most},
		{time.Second, 3 * most, 4 * most},
	} {
		t.Run(tt.pause.String(), func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				var x *world
				var seen atomic.Int64
				inner := site(60)
				var seeds []string
				for i := range 12 {
					seeds = append(seeds, fmt.Sprintf("http://h%d.example/", i))
				}
				x = newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					s := x.worker.Stats()
					if n := int64(s.InFlight + s.Processing + s.Unreported); n > seen.Load() {
						seen.Store(n)
					}
					inner(rw, r)
				}, seeds, func(x *world) { x.cfg.MaxInFlight = most })
				x.owner("h0.example").pause = tt.pause
				x.crawl()
				if n := int(seen.Load()); n < tt.least || n > tt.bound {
					t.Errorf("%d in flight at most, want %d to %d", n, tt.least, tt.bound)
				}
			})
		})
	}
}
