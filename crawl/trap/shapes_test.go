package trap

import (
	"fmt"
	"strings"
	"testing"
)

// shapes are finite sites that the rules were not tuned for: written before they were run once.
var shapes = []site{
	{name: "shop with slugs, a cart link and a compare link on each page", idle: "action=", page: func(_ *maker, path, query string) (string, bool) {
		if query != "" {
			return nav + "<p>Your cart</p>" + a("/", "home"), true
		}
		slug := func(n int) string {
			return "/product/" + strings.ReplaceAll(seeded(fmt.Sprint("p", n)).words(3), " ", "-") + fmt.Sprint("-", n)
		}
		if strings.HasPrefix(path, "/product/") {
			m := seeded(path)
			return nav + lorem + "<h1>" + m.words(3) + "</h1><p>" + m.words(12) + "</p>" + a(path+"?action=cart", "add to cart") + a(path+"?action=compare", "compare"), true
		}
		n, b := numberIn(path), nav
		for i := range 30 {
			b += a(slug(n*30+i), "item")
		}
		if n < 99 {
			b += a(fmt.Sprintf("/list/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "parts catalogue of numbers", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		if strings.HasPrefix(path, "/part/") {
			return nav + fmt.Sprintf("<h1>Part %d</h1><table><tr><td>weight<td>%d g<tr><td>length<td>%d mm</table>", n, n*37%997, n*11%409), true
		}
		b := nav
		for i := range 100 {
			b += a(fmt.Sprintf("/part/%d", n*100+i), fmt.Sprint(n*100+i))
		}
		if n < 79 {
			b += a(fmt.Sprintf("/drawer/%d", n+1), "next drawer")
		}
		return b, true
	}},
	{name: "API documentation in five versions", page: func(_ *maker, path, _ string) (string, bool) {
		var v, n int
		if k, _ := fmt.Sscanf(path, "/v%d/api/%d.html", &v, &n); k != 2 {
			return a("/v1/api/0.html", "API"), true
		}
		text := seeded(fmt.Sprint("api", n)).words(60)
		if n%4 == 0 {
			text += fmt.Sprintf(" Since version %d: %s", v, seeded(path).words(5))
		}
		b := nav + "<h1>Function</h1>" + text
		for i := 1; i <= 5; i++ {
			b += a(fmt.Sprintf("/v%d/api/%d.html", i, n), "version")
		}
		for _, k := range []int{2*n + 1, 2*n + 2} {
			if k < 1200 {
				b += a(fmt.Sprintf("/v%d/api/%d.html", v, k), "see also")
			}
		}
		return b, true
	}},
	{name: "encyclopaedia", page: func(_ *maker, path, _ string) (string, bool) {
		n, b := numberIn(path), nav+seeded(path).words(80)
		for i := range 12 {
			b += a(fmt.Sprintf("/entry/%d", (n*7+i*i*31+1)%12_000), "see")
		}
		return b + a(fmt.Sprintf("/entry/%d", (n+1)%12_000), "next"), true
	}},
	{name: "statistics portal of tables by year and region", page: func(_ *maker, path, query string) (string, bool) {
		var y, r int
		_, _ = fmt.Sscanf(query, "year=%d&region=%d", &y, &r)
		b := nav + "<h1>Population</h1><table>"
		for i := range 8 {
			b += fmt.Sprintf("<tr><td>%d<td>%d", i, (y*8191+r*131+i)*7919%100_003)
		}
		b += "</table>"
		for i := range 60 {
			b += a(fmt.Sprintf("/table?year=%d&region=%d", 1960+i, r), fmt.Sprint(1960+i))
		}
		for i := range 40 {
			b += a(fmt.Sprintf("/table?year=%d&region=%d", max(y, 1960), i), fmt.Sprint("region ", i))
		}
		return b, true
	}},
	{name: "sections of a law, linked by next alone", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		b := nav + fmt.Sprintf("<h1>Section %d</h1>", n) + seeded(path).words(40)
		if n < 3000 {
			b += a(fmt.Sprintf("/law/section/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "calendar of ten years with an event each day", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		b := nav + fmt.Sprintf("<h1>Day %d</h1><p>%s</p>", n, seeded(path).words(9))
		if n > 0 {
			b += a(fmt.Sprintf("/day/%d", n-1), "previous")
		}
		if n < 3652 {
			b += a(fmt.Sprintf("/day/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "album whose pages differ in the image alone", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		b := nav + fmt.Sprintf("<p>A photo</p><img src=/img/%d.jpg>", n)
		if n < 2500 {
			b += a(fmt.Sprintf("/view/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "mailing list by thread and by date", page: func(_ *maker, path, _ string) (string, bool) {
		var m, n int
		if k, _ := fmt.Sscanf(path, "/2%d/msg%d.html", &m, &n); k == 2 {
			return nav + seeded(path).words(50) + a("date.html", "by date") + a("thread.html", "by thread"), true
		}
		if k, _ := fmt.Sscanf(path, "/2%d/", &m); k != 1 {
			b := nav
			for i := range 60 {
				b += a(fmt.Sprintf("/2%03d/date.html", i), "month")
			}
			return b, true
		}
		b := nav
		for i := range 50 {
			b += a(fmt.Sprintf("/2%03d/msg%d.html", m, i), "message")
		}
		return b, true
	}},
	{name: "link directory without a text", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		if strings.HasPrefix(path, "/site/") {
			return nav + seeded(path).words(20), true
		}
		b := ""
		for i := range 3 {
			b += a(fmt.Sprintf("/site/%d", n*3+i), "a site")
		}
		if n < 2000 {
			b += a(fmt.Sprintf("/dir/%d", n+1), "more")
		}
		return b, true
	}},
	{name: "forum of a board with profiles that say the same", idle: "/user/", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		if strings.HasPrefix(path, "/user/") {
			return nav + "<p>You must log in to see this profile.</p>" + a("/login", "log in"), true
		}
		b := nav + seeded(path).words(60)
		for i := range 4 {
			b += a(fmt.Sprintf("/user/%d", n*4+i), "author")
		}
		for _, k := range []int{2*n + 1, 2*n + 2} {
			if k < 2500 {
				b += a(fmt.Sprintf("/topic/%d", k), "related")
			}
		}
		return b, true
	}},
}

// TestShapes: every text of a finite site that nobody tuned the rules for is fetched.
func TestShapes(t *testing.T) {
	for _, s := range some(shapes) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got, all := crawl(t, s, 60_000), crawlBy(t, s, 60_000, Rules{})
			t.Logf("%d of %d URLs asked for, %d of %d texts", got.asked, len(all.urls), len(got.texts), len(all.texts))
			if len(got.texts) != len(all.texts) {
				t.Errorf("%d of %d texts, %d URLs left: %s", len(got.texts), len(all.texts), got.stopped, got.why)
			}
		})
	}
}
