package trap

import (
	"fmt"
	"strings"
	"testing"
)

// mixed are sites of which a part has no end, or says nothing, and the rest is real.
var mixed = []struct {
	site
	pages int                // real ones
	url   func(n int) string // of a real page
	most  int                // pages that may be asked for besides
	ends  bool               // the rest ends by itself, and need not be left
}{
	{pages: 3000, most: 23_000, url: func(n int) string { return fmt.Sprintf("/article/%d", n) }, site: site{
		name: "half a calendar with numbers of its own", page: func(_ *maker, path, query string) (string, bool) {
			if d := 0; path == "/calendar" {
				_, _ = fmt.Sscanf(query, "day=%d", &d)
				b := nav + fmt.Sprintf("<h1>%d %s %d</h1><p>Week %d, %d places are free.</p>", d%28+1, months[d/28%12], 2000+d/336, d/7, d*37%91) + lorem
				for i := range 7 {
					b += a(fmt.Sprintf("/calendar?day=%d", d/7*7+7+i), "next week")
				}
				return b, true
			}
			return article("/article/%d", 3000, path) + a(fmt.Sprintf("/calendar?day=%d", 7*numberIn(path)), "calendar"), true
		},
	}},
	{pages: 3501, most: 6000, url: func(n int) string { return fmt.Sprintf("/wiki/%d", n) }, ends: true, site: site{
		name: "a wiki whose histories say the same and lead on", page: func(_ *maker, path, query string) (string, bool) {
			n := numberIn(path)
			if query == "action=history" {
				return nav + lorem + a(fmt.Sprintf("/wiki/%d", n), "back") + leads("/wiki/%d", 3501, n), true
			}
			return nav + seeded(path).words(200) + a(path+"?action=history", "history") + links("/wiki/%d", 3501, n), true
		},
	}},
	{pages: 3501, most: 6000, url: func(n int) string { return fmt.Sprintf("/wiki/%d", n) }, site: site{
		name: "a wiki with histories without end", page: func(_ *maker, path, query string) (string, bool) {
			n, older := numberIn(path), 0
			if strings.HasPrefix(query, "action=history") {
				_, _ = fmt.Sscanf(query, "action=history&offset=%d", &older)
				return nav + lorem + a(path, "back") + a(fmt.Sprintf("%s?action=history&offset=%d", path, older+50), "older"), true
			}
			return nav + seeded(path).words(200) + a(path+"?action=history", "history") + links("/wiki/%d", 3501, n), true
		},
	}},
	{pages: 3501, most: 6000, url: func(n int) string { return fmt.Sprintf("/wiki/%d/page", n) }, ends: true, site: site{
		name: "a wiki with histories by path", page: func(_ *maker, path, _ string) (string, bool) {
			n := 0
			_, _ = fmt.Sscanf(path, "/wiki/%d/", &n)
			if strings.HasSuffix(path, "/history") {
				return nav + lorem + a("page", "back") + leads("/wiki/%d/page", 3501, n), true
			}
			return nav + seeded(path).words(200) + a(fmt.Sprintf("/wiki/%d/history", n), "history") + links("/wiki/%d/page", 3501, n), true
		},
	}},
	{pages: 3501, most: 6000, url: func(n int) string {
		return fmt.Sprintf("/index.php?title=%s", seeded(fmt.Sprint(n)).word()+fmt.Sprint(n))
	}, ends: true, site: site{
		name: "a wiki by parameters, with three pages without news for each article", page: func(_ *maker, _, query string) (string, bool) {
			const articles = 3501
			title := func(n int) string { return seeded(fmt.Sprint(n)).word() + fmt.Sprint(n) }
			name, action, _ := strings.Cut(strings.TrimPrefix(query, "title="), "&")
			n := 0
			_, _ = fmt.Sscanf(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz"), "%d", &n)
			if query == "" {
				return a("/index.php?title="+title(0), "main page"), true
			}
			b := nav + a("/index.php?title="+title(n), "article")
			for _, k := range []int{3*n + 1, 3*n + 2, 3*n + 3} {
				if k < articles {
					b += a("/index.php?title="+title(k), "see also")
				}
			}
			for i := 1; i < 5; i++ {
				b += a("/index.php?title="+title(i*7919*n%articles), "see also")
			}
			if action != "" {
				return b + lorem, true
			}
			for _, act := range []string{"history", "edit", "info"} {
				b += a(fmt.Sprintf("/index.php?title=%s&action=%s", name, act), act)
			}
			return b + seeded(query).words(200), true
		},
	}},
	{pages: 2000, most: 10_000, url: func(n int) string { return fmt.Sprintf("/section%c/%d", 'a'+n%20, n) }, site: site{
		name: "twenty sections behind a trap that has no form of its own", page: func(s *maker, path, _ string) (string, bool) {
			n, own := 0, 0
			if _, err := fmt.Sscanf(path, "/section", &own); err == nil || strings.HasPrefix(path, "/section") {
				n = numberIn(path)
				b := nav + seeded(path).words(200) + a("/sectiona/0", "start")
				for _, k := range []int{2*n + 1, 2*n + 2} {
					if k < 2000 {
						b += a(fmt.Sprintf("/section%c/%d", 'a'+k%20, k), "more")
					}
				}
				return b + a("/"+s.word()+"/"+s.word(), "trap"), true
			}
			b := nav + lorem
			for range 3 {
				b += a("/"+s.word()+"/"+s.word(), "x")
			}
			if path == "/" {
				b += a("/sectiona/0", "start")
			}
			return b, true
		},
	}},
}

// TestLikeGoesLast: pages that say almost the same take long to be told from a trap, and go behind
// the rest of their site long before, so that a budget of requests goes to that.
func TestLikeGoesLast(t *testing.T) {
	const articles = 400
	got := crawl(t, site{name: "a duty rota beside articles", page: func(_ *maker, path, query string) (string, bool) {
		day := 0
		if k, _ := fmt.Sscanf(query, "day=%d", &day); k != 1 {
			return article("/page/%d", articles, path) + a(fmt.Sprintf("/rota?day=%d", 7*numberIn(path)), "rota"), true
		}
		b := nav
		for i := range 7 {
			b += a(fmt.Sprintf("/rota?day=%d", day/7*7+7+i), "day")
		}
		return b + fmt.Sprintf("<p>Day %d of week %d: %d places are free.</p>", day%7, day/7, day*37%91), true
	}}, 1000)
	for n := range articles {
		if url := fmt.Sprintf("http://site.example/page/%d", n); got.urls[url] && !got.got[url] || !got.urls[url] && n > 0 {
			t.Fatalf("%s is not among the first %d", url, got.asked)
		}
	}
}

// article is one of so many pages of its own text, which leads to two more, to the first and to one
// anywhere.
func article(format string, pages int, path string) string {
	n := numberIn(path)
	return nav + seeded(path).words(200) + links(format, pages, n)
}

// links are those of a page of a graph: to the first one, to two more and to some anywhere.
func links(format string, pages, n int) string {
	b := a(fmt.Sprintf(format, 0), "first") + leads(format, pages, n)
	for i := 1; i < 5; i++ {
		b += a(fmt.Sprintf(format, (i*7919*n+i)%pages), "see also")
	}
	return b
}

// leads are links to the two pages behind one in a tree of so many.
func leads(format string, pages, n int) (links string) {
	for _, k := range []int{2*n + 1, 2*n + 2} {
		if k < pages {
			links += a(fmt.Sprintf(format, k), "more")
		}
	}
	return links
}

// TestMixed: the part of a site that brings nothing new is left, and no page of the rest is lost to
// it.
func TestMixed(t *testing.T) {
	for _, m := range some(mixed) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			front := m.site
			front.page = func(s *maker, path, query string) (string, bool) {
				if path == "/" && query == "" {
					body, ok := m.site.page(s, path, query)
					return body + a(m.url(0), "start"), ok
				}
				return m.site.page(s, path, query)
			}
			got := crawl(t, front, 60_000)
			lost := 0
			for n := range m.pages {
				if !got.got["http://site.example"+m.url(n)] {
					lost++
				}
			}
			t.Logf("%d asked, %d of them besides the real pages, %d left: %s", got.asked, got.asked-m.pages+lost, got.stopped, got.why)
			if lost > 0 || got.asked > m.pages+m.most || got.stopped == 0 && !m.ends {
				t.Errorf("%d of %d real pages lost, %d others asked for, at most %d", lost, m.pages, got.asked-m.pages+lost, m.most)
			}
		})
	}
}
