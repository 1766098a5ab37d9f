package main

import (
	"fmt"
	"net/http"
	"strings"
)

// Traps that are a part of something else, or that no host shows by itself.
//
// The trap: a real site of which half is a calendar, a wiki each article of which has a history
// without end; pages that say the same between pages of their own text; two hosts that lead to each
// other for ever; a domain of ever more hosts of three pages each, and one whose pages lead there
// by way of a redirect.
//
// A good crawler leaves the part that brings nothing and fetches every page of the rest, and looks
// at what all hosts of a domain say.
var mixedFamily = family{
	name: "mixed",
	does: "half a calendar, histories without end, pages that say the same between others, two hosts in turn, domains of small hosts",
	seeds: func(w *world) []string {
		urls := w.urls("mixed", "calendar", "rota", "wiki", "paths", "alternate", "left")
		return append(urls, farmURL(w, "start.farm"), farmURL(w, "start.hops"))
	},
	serve: func(w *world, rw http.ResponseWriter, r *http.Request, name string) {
		if last(name) == "farm" || last(name) == "hops" {
			farmPage(w, rw, r, name)
			return
		}
		if s := mixedSites[name]; s != nil {
			s(w, rw, r)
			return
		}
		http.NotFound(rw, r)
	},
	check: func(j *judge) {
		small := make(map[string]int)
		for _, h := range j.hosts {
			name, _, _ := strings.Cut(h.Host, ".")
			switch bound := mixedBounds[name]; {
			case strings.HasSuffix(strings.Split(h.Host, ":")[0], "-of-mixed.test"):
				_, of, _ := strings.Cut(h.Host, ".")
				small[of]++
			case bound > 0 && h.Requests > bound:
				j.blame("mixed: %s was asked %d times, bound %d", name, h.Requests, bound)
			}
		}
		for of, n := range small {
			if n > mostSmallHosts {
				j.blame("mixed: %d hosts of %s, which all say the same, were asked, bound %d", n, of, mostSmallHosts)
			}
		}
		for name, real := range map[string]string{"calendar": "/page/%d", "rota": "/page/%d", "wiki": "/page/%d", "paths": "/page/%d/text"} {
			j.wants(name, numbered(real, realPages)...)
		}
	},
}

const (
	realPages = 400
	// mostSmallHosts of a farm: the budget of a domain that no other domain links to.
	mostSmallHosts = 1000
)

// mixedBounds are the most requests to a host: real pages, and what it takes to see that the rest
// brings nothing. Rota is not seen to within the budget of a trial, since each of its pages says
// something; half of the pages of alternate have a text of their own, where nothing but a budget
// ends a crawl.
var mixedBounds = map[string]int{
	"calendar": realPages + mostOfTheSame, "wiki": realPages + mostOfTheSame, "paths": realPages + mostOfTheSame, "left": mostOfTheSame, "right": mostOfTheSame,
}

// realPage is one of the real pages of a site, in a graph of which each leads to two more and to
// some anywhere, and to what else there is.
func realPage(rw http.ResponseWriter, r *http.Request, format string, n int, more ...string) {
	links := []string{fmt.Sprintf(format, 0)}
	for _, k := range []int{2*n + 1, 2*n + 2, n * 7919 % realPages, n * 104729 % realPages} {
		if k < realPages {
			links = append(links, fmt.Sprintf(format, k))
		}
	}
	writePage(rw, page(r.Host+r.URL.Path, append(links, more...)...))
}

var mixedSites = map[string]func(w *world, rw http.ResponseWriter, r *http.Request){
	"calendar": func(_ *world, rw http.ResponseWriter, r *http.Request) {
		var n, y, m int
		if k, _ := fmt.Sscanf(r.URL.Path, "/cal/%d/%d", &y, &m); k == 2 {
			links := []string{fmt.Sprintf("/cal/%d/%d", y+m/12, m%12+1)}
			for d := range 28 {
				links = append(links, fmt.Sprintf("/cal/%d/%d/%d", y, m, d+1))
			}
			writePage(rw, page("calendar", links...))
			return
		}
		_, _ = fmt.Sscanf(r.URL.Path, "/page/%d", &n)
		realPage(rw, r, "/page/%d", n, "/cal/2024/1")
	},
	"rota": func(_ *world, rw http.ResponseWriter, r *http.Request) {
		n, day := 0, 0
		if k, _ := fmt.Sscanf(r.URL.RawQuery, "day=%d", &day); k == 1 {
			var links []string
			for i := range 7 {
				links = append(links, fmt.Sprintf("/rota?day=%d", day/7*7+7+i))
			}
			writePage(rw, page("rota", links...)+fmt.Sprintf("<p>Day %d of week %d: %d places are free.</p>", day%7, day/7, day*37%91))
			return
		}
		_, _ = fmt.Sscanf(r.URL.Path, "/page/%d", &n)
		realPage(rw, r, "/page/%d", n, fmt.Sprintf("/rota?day=%d", 7*n))
	},
	"wiki": func(_ *world, rw http.ResponseWriter, r *http.Request) {
		n, older := 0, 0
		_, _ = fmt.Sscanf(r.URL.Path, "/page/%d", &n)
		if strings.HasPrefix(r.URL.RawQuery, "action=history") {
			_, _ = fmt.Sscanf(r.URL.RawQuery, "action=history&offset=%d", &older)
			writePage(rw, page("history", r.URL.Path, fmt.Sprintf("%s?action=history&offset=%d", r.URL.Path, older+50)))
			return
		}
		realPage(rw, r, "/page/%d", n, fmt.Sprintf("/page/%d?action=history", n))
	},
	"paths": func(_ *world, rw http.ResponseWriter, r *http.Request) {
		n, older := 0, 0
		if k, _ := fmt.Sscanf(r.URL.Path, "/page/%d/history/%d", &n, &older); k == 2 {
			writePage(rw, page("history", fmt.Sprintf("/page/%d/text", n), fmt.Sprintf("/page/%d/history/%d", n, older+1)))
			return
		}
		realPage(rw, r, "/page/%d/text", n, fmt.Sprintf("/page/%d/history/0", n))
	},
	"alternate": func(_ *world, rw http.ResponseWriter, r *http.Request) {
		text := "the same"
		if hashOf(r.RequestURI)%2 == 0 {
			text = r.RequestURI
		}
		writePage(rw, page(text, linksOf(r, "/%d")...))
	},
	"left":  func(w *world, rw http.ResponseWriter, r *http.Request) { otherSide(w, rw, r, "right") },
	"right": func(w *world, rw http.ResponseWriter, r *http.Request) { otherSide(w, rw, r, "left") },
}

// otherSide is a page that says what all say and leads to new URLs of another host.
func otherSide(w *world, rw http.ResponseWriter, r *http.Request, other string) {
	var links []string
	for _, n := range some(r, 3) {
		links = append(links, w.url("mixed", other, fmt.Sprintf("/%d", n)))
	}
	writePage(rw, page("sides", links...))
}

// farmURL is the root of a host of a domain of its own that belongs to the family.
func farmURL(w *world, name string) string {
	return fmt.Sprintf("http://%s-of-mixed.test:%d/", name, w.port)
}

// farmPage is one of the three pages of a host of a farm; the last of them leads to more hosts, or
// to redirects to such.
func farmPage(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	kind := last(name)
	if to, ok := strings.CutPrefix(name, "to-"); ok {
		http.Redirect(rw, r, farmURL(w, to), http.StatusFound)
		return
	}
	n := 0
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
	if n < 2 {
		writePage(rw, page("small site", "/1", "/2"))
		return
	}
	var links []string
	for _, k := range some(r, 5) {
		host := fmt.Sprintf("s%x.%s", k, kind)
		if kind == "hops" {
			host = "to-" + host
		}
		links = append(links, farmURL(w, host))
	}
	writePage(rw, page("small site", links...))
}
