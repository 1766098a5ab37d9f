package trap

import (
	"fmt"
	"slices"
	"strings"
)

var months = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}

// traps are sites without end whose pages have no text of their own, or only numbers, and how many
// pages of each are asked for at most. Others run to their budget.
var traps = []site{
	{name: "calendar", most: 6500, page: func(_ *maker, path, _ string) (string, bool) {
		var y, m, d int
		if n, _ := fmt.Sscanf(path, "/cal/%d/%d/%d", &y, &m, &d); n == 3 {
			return fmt.Sprintf("<h1>%d %s %d</h1>%s<p>No events.</p>%s", d, months[m%12], y, lorem, a(fmt.Sprintf("/cal/%d/%d", y, m), "back")), true
		}
		y, m = max(y, 2024), max(m, 1)
		b := fmt.Sprintf("<h1>%s %d</h1>", months[m%12], y)
		for d := range 28 {
			b += a(fmt.Sprintf("/cal/%d/%d/%d", y, m, d+1), fmt.Sprint(d+1))
		}
		return b + a(fmt.Sprintf("/cal/%d/%d", y+m/12, m%12+1), "next"), true
	}},
	{name: "calendar with next alone, by a query", most: 6000, page: func(_ *maker, _, query string) (string, bool) {
		var n int
		_, _ = fmt.Sscanf(query, "month=%d", &n)
		return fmt.Sprintf("<h1>%s</h1><table><tr><td>1<td>2</table>%s", months[n%12], a(fmt.Sprintf("/?month=%d", n+1), "next")), true
	}},
	{name: "filters in every order, named in links", most: 6000, page: func(s *maker, _, _ string) (string, bool) {
		b := seeded("filters").words(120)
		words := strings.Fields("red blue green small large new old cheap used best")
		for range 6 {
			s.rnd.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			to := "/" + strings.Join(words[:2+s.rnd.IntN(8)], "/")
			b += a(to, to)
		}
		return b, true
	}},
	{name: "session in the path", most: 6000, page: func(s *maker, path, _ string) (string, bool) {
		return session(path, func(k int) string { return fmt.Sprintf("/s/%016x/page%d", s.rnd.Uint64(), k) }), true
	}},
	{name: "session in the query", most: 6000, page: func(s *maker, path, _ string) (string, bool) {
		return session(path, func(k int) string { return fmt.Sprintf("/page%d?sid=%s", k, s.word()+s.word()) }), true
	}},
	{name: "growing path", most: 6000, page: func(_ *maker, path, _ string) (string, bool) {
		dir := strings.TrimSuffix(path, "/") + "/"
		return "<h1>Folder</h1>" + lorem + a(dir+"a/", "a") + a(dir+"b/", "b") + a(dir+"c/", "c"), true
	}},
	{name: "growing path of many words", most: 6000, page: func(_ *maker, path, _ string) (string, bool) {
		dir, b := strings.TrimSuffix(path, "/")+"/", lorem
		for _, w := range []string{"news", "shop", "help", "team", "jobs", "press", "blog"} {
			b += a(dir+w+"/", w)
		}
		return b, true
	}},
	{name: "facets in any order", most: 6000, page: func(_ *maker, _, query string) (string, bool) {
		b := lorem
		for _, f := range []string{"color", "size", "brand", "price", "sort"} {
			for v := range 6 {
				q := strings.TrimPrefix(query+"&"+fmt.Sprintf("%s=%s%d", f, f, v), "&")
				b += a("/list?"+q, f)
			}
		}
		return b, true
	}},
	{name: "a list of one page", most: 6000, page: func(_ *maker, path, _ string) (string, bool) {
		if path == "/" {
			return listed(path), true
		}
		return "<h1>Please enable scripts</h1>" + lorem, true
	}},
}

// listed are more links than anybody should follow, all of one page, as those of a sitemap are.
func listed(path string) string {
	var b strings.Builder
	for i := range 25_000 {
		if path == "/" {
			b.WriteString(a(fmt.Sprintf("/old/%d", i), "x"))
		}
	}
	return b.String()
}

// session is a shop of forty pages that everybody gets with links of his own.
func session(path string, href func(k int) string) string {
	k := 0
	if i := strings.Index(path, "page"); i >= 0 {
		_, _ = fmt.Sscanf(path[i:], "page%d", &k)
	}
	b := seeded(fmt.Sprint(k)).words(150)
	for i := range 5 {
		b += a(href((k*3+i)%40), "see also")
	}
	return b
}

// innocents end, and all of their pages are to be fetched.
var innocents = []site{
	{name: "shop of one template", page: func(_ *maker, path, query string) (string, bool) {
		n, b := numberIn(path), nav+strings.Repeat(lorem, 3)
		if strings.HasPrefix(path, "/p/") {
			m := seeded(path)
			return b + fmt.Sprintf("<h1>%s</h1><p>Price %d.99</p>", m.word(), m.rnd.IntN(90)) + a(fmt.Sprintf("/p/%d", (n+1)%4500), "next") + a(fmt.Sprintf("/p/%d", n*7%4500), "also bought"), true
		}
		_, _ = fmt.Sscanf(query, "page=%d", &n)
		for i := range 30 {
			b += a(fmt.Sprintf("/p/%d", n*30+i), "item")
		}
		if n < 149 {
			b += a(fmt.Sprintf("/c?page=%d", n+1), "more")
		}
		return b, true
	}},
	{name: "rows of a table", page: func(_ *maker, path, query string) (string, bool) {
		n := numberIn(path)
		if _, err := fmt.Sscanf(query, "id=%d", &n); err == nil {
			return nav + fmt.Sprintf("<table><tr><td>id<td>%d<tr><td>value<td>%d<tr><td>unit<td>kg</table>", n, n*37%1009) + a(fmt.Sprintf("/table/%d", n/50), "table"), true
		}
		b := nav + "<h1>Table</h1>"
		for i := range 50 {
			b += a(fmt.Sprintf("/row?id=%d", n*50+i), fmt.Sprint(n*50+i))
		}
		if n < 99 {
			b += a(fmt.Sprintf("/table/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "items that lead to three more each", page: func(_ *maker, path, _ string) (string, bool) {
		n, b := numberIn(path), nav+lorem
		b += fmt.Sprintf("<h1>Item %d</h1>", n)
		for i := 1; i < 4; i++ {
			if k := 3*n + i; k < 5000 {
				b += a(fmt.Sprintf("/p/%d", k), "see also")
			}
		}
		return b, true
	}},
	{name: "photos of albums, one after the other", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		b := nav + lorem + fmt.Sprintf("<h1>IMG_%04d</h1><p>Taken at f/%d, 1/%d s</p>", n, n%13, n%997) + a(fmt.Sprintf("/album/%d", n/50), "album")
		if n < 5000 {
			b += a(fmt.Sprintf("/photo/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "versions and languages in which nothing differs", page: func(_ *maker, path, _ string) (string, bool) {
		var l, v, n int
		_, _ = fmt.Sscanf(path, "/l%d/v%d/page%d.html", &l, &v, &n)
		b := nav + seeded(fmt.Sprint(n)).words(200)
		for i := range 6 {
			b += a(fmt.Sprintf("/l%d/v%d/page%d.html", i, v, n), "language")
		}
		for i := range 9 {
			b += a(fmt.Sprintf("/l%d/v%d/page%d.html", l, i, n), "version")
		}
		for i := 1; i < 5; i++ {
			b += a(fmt.Sprintf("page%d.html", (n*4+i)%80), "see also")
		}
		if path == "/" {
			return a("/l0/v0/page0.html", "documentation"), true
		}
		return b, true
	}},
	{name: "documentation", page: func(s *maker, path, _ string) (string, bool) {
		b := nav + s.words(300)
		if path == "/" {
			for i := range 50 {
				b += a(fmt.Sprintf("/ref/%d.html", i*40), s.word())
			}
		}
		n := numberIn(path)
		for i := range 5 {
			b += a(fmt.Sprintf("/ref/%d.html", (n+i*i+1)%2000), s.word())
		}
		return b, true
	}},
	{name: "blog with pages of posts", page: func(_ *maker, path, _ string) (string, bool) {
		if strings.HasPrefix(path, "/post/") {
			return nav + seeded(path).words(250) + a("/", "all posts"), true
		}
		n, b := numberIn(path), nav+lorem
		for i := n * 10; i < n*10+10; i++ {
			b += a(fmt.Sprintf("/post/%d", i), seeded(fmt.Sprint("title", i)).words(6))
		}
		if n < 300 {
			b += a(fmt.Sprintf("/page/%d", n+1), "older")
		}
		return b, true
	}},
	{name: "gallery with an image a page", page: func(_ *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		b := nav + fmt.Sprintf("<h1>Our trip</h1><p>Image %d of 3000</p><img src=/img/DSC%06d.jpg>", n, n*7)
		if n < 3000 {
			b += a(fmt.Sprintf("/photo/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "gallery of like pages with an index", page: func(_ *maker, path, _ string) (string, bool) {
		if path != "/" {
			return nav + lorem + fmt.Sprintf("<p>Image %d</p>", numberIn(path)), true
		}
		b := nav
		for i := range 5000 {
			b += a(fmt.Sprintf("/view/%d", i), "image")
		}
		return b, true
	}},
	{name: "API reference with a line of difference", page: func(_ *maker, path, _ string) (string, bool) {
		b := nav + strings.Repeat(lorem, 3)
		if path == "/" {
			for i := range 3000 {
				b += a(fmt.Sprintf("/api/%s.html", seeded(fmt.Sprint(i)).word()), "f")
			}
			return b, true
		}
		return b + "<code>" + seeded(path).words(2) + "</code>", true
	}},
	{name: "wiki with histories", idle: "?action=history", page: func(_ *maker, path, query string) (string, bool) {
		n := numberIn(path)
		if query == "action=history" {
			return nav + "<h1>History</h1>" + a(fmt.Sprintf("/wiki/%d", n), "back") + strings.Repeat("<p>edited by somebody</p>", 20), true
		}
		b := nav + seeded(path).words(200) + a(path+"?action=history", "history")
		for i := range 6 {
			b += a(fmt.Sprintf("/wiki/%d", (n*5+i)%1500), seeded(fmt.Sprint(n*5+i)).word())
		}
		return b, true
	}},
	{name: "forum of which each post has an address of its own", page: func(_ *maker, _, query string) (string, bool) {
		n, p := 0, 0
		if _, err := fmt.Sscanf(query, "p=%d", &p); err == nil {
			n = p / 10
		} else if _, err := fmt.Sscanf(query, "t=%d", &n); err != nil {
			return nav + a("/viewtopic.php?t=0", "threads"), true
		}
		b := nav + a("/viewtopic.php?t=0", "first") + seeded(fmt.Sprint("thread", n)).words(200)
		for i := range 10 {
			b += a(fmt.Sprintf("/viewtopic.php?p=%d", 10*n+i), "permalink")
		}
		for _, k := range []int{2*n + 1, 2*n + 2} {
			if k < 400 {
				b += a(fmt.Sprintf("/viewtopic.php?t=%d", k), "see also")
			}
		}
		return b, true
	}},
	{name: "wiki by parameters with pages without news that end", idle: "&action=", page: func(_ *maker, _, query string) (string, bool) {
		n, action := 0, ""
		_, _ = fmt.Sscanf(query, "title=%d&action=%s", &n, &action)
		b := nav + a(fmt.Sprintf("/index.php?title=%d", n), "article")
		if action != "" {
			return b + lorem, true
		}
		for _, act := range []string{"history", "edit", "info"} {
			b += a(fmt.Sprintf("/index.php?title=%d&action=%s", n, act), act)
		}
		for i := 1; i < 6; i++ {
			b += a(fmt.Sprintf("/index.php?title=%d", (n*5+i)%1200), "see also")
		}
		return b + seeded(fmt.Sprint(n)).words(200), true
	}},
	{name: "forum with lists", page: func(_ *maker, path, _ string) (string, bool) {
		if strings.HasPrefix(path, "/thread/") {
			return nav + seeded(path).words(120), true
		}
		n, b := numberIn(path), nav+"<p>Threads of this forum, sorted by date</p>"
		for i := n * 20; i < n*20+20; i++ {
			b += a(fmt.Sprintf("/thread/%d", i), seeded(fmt.Sprint("t", i)).words(5)) + "<p>by somebody at 12:30</p>"
		}
		if n < 150 {
			b += a(fmt.Sprintf("/list/%d", n+1), "next")
		}
		return b, true
	}},
	{name: "listing of folders", plain: func(path string) bool { return !strings.HasSuffix(path, "/") }, page: func(_ *maker, path, _ string) (string, bool) {
		if !strings.HasSuffix(path, "/") {
			return "data of " + path, true
		}
		b, s := "<h1>Index of "+path+"</h1><pre>Name Last modified Size", seeded(path)
		for range 6 {
			b += a(path+s.word()+".txt", "file") + "2024-01-02 12:00 123\n"
		}
		if strings.Count(path, "/") < 5 {
			for range 6 {
				b += a(path+s.word()+"/", "folder") + "2024-01-02 12:00 -\n"
			}
		}
		return b + a("../", "Parent Directory") + "</pre>", true
	}},
	{name: "mirror under two prefixes", page: func(_ *maker, path, _ string) (string, bool) {
		if path == "/" {
			return a("/mirror1/0.html", "one") + a("/mirror2/0.html", "two"), true
		}
		if !strings.HasPrefix(path, "/mirror") {
			return "<h1>A page</h1>" + lorem, true
		}
		prefix, n := path[:len("/mirror1/")], numberIn(path)
		b := nav + seeded(fmt.Sprint(n)).words(200)
		for i := range 4 {
			b += a(fmt.Sprintf("%s%d.html", prefix, (n*4+i+1)%2000), "see")
		}
		return b, true
	}},
	{name: "six versions of one tree", page: func(_ *maker, path, _ string) (string, bool) {
		versions := []string{"stable", "latest", "trixie", "noble", "jammy", "sid"}
		b := nav
		i := slices.IndexFunc(versions, func(v string) bool { return strings.HasPrefix(path, "/"+v+"/") })
		if i < 0 {
			for _, v := range versions {
				b += a("/"+v+"/0.html", v)
			}
			return b, true
		}
		n := numberIn(path)
		for i2 := range 4 {
			b += a(fmt.Sprintf("/%s/%d.html", versions[i], (n*4+i2+1)%1500), "see")
		}
		return b + seeded(fmt.Sprint(n)).words(200), true
	}},
	{name: "old addresses that are gone", page: func(_ *maker, path, _ string) (string, bool) {
		if path != "/" {
			return "", false
		}
		b := nav
		for i := range 1500 {
			b += a(fmt.Sprintf("/gone/%d", i), "old")
		}
		return b, true
	}},
	{name: "chapters of a book, one after the other", page: func(s *maker, path, _ string) (string, bool) {
		n := numberIn(path)
		if n >= 2500 {
			return "The end", true
		}
		return s.words(200) + a(fmt.Sprintf("/chapter/%d", n+1), "next"), true
	}},
}
