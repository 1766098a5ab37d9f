package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
)

// spacesFamily has spaces of URLs without end: the endless sites of traptest, one page under any
// number of URLs, and pages that lead on by other means than a link. A good crawler notices that a
// host brings little that is new, asks it less and then not at all; where it does not notice, a
// budget of requests holds. See also crawl/trap: TestTraps, TestEndlessSites.
var spacesFamily = family{
	name:     "spaces",
	within:   10 * time.Minute,
	requests: 2 * mostOfTheSame,
	does:     "endless sites, one page under any number of URLs, redirects, frames, bases and fields that lead on",
	traps:    spacesTraps(),
	check: func(j *judge) {
		for _, h := range j.hosts {
			name, _, _ := strings.Cut(h.Host, ".")
			if h.Requests > mostOfTheSame && !slices.Contains(everNew, name) {
				j.blame("%s, which brings nothing new, was asked %d times, bound %d", name, h.Requests, mostOfTheSame)
			}
		}
	},
}

// everNew are spaces in which ever new texts occur, and the calendar, which takes long: only a
// budget ends the crawl of these. The others end before mostOfTheSame requests.
var everNew = []string{"labyrinth", "markov", "near", "search", "errors", "calendar"}

const mostOfTheSame = 6000

func spacesTraps() map[string]trap {
	traps := make(map[string]trap)
	for _, s := range traptest.Endless() {
		traps[s.Name] = trap{serve: func(x exchange) {
			if x.r.URL.Path == "/" && s.Start != "/" {
				http.Redirect(x.rw, x.r, s.Start, http.StatusFound)
				return
			}
			(&site{s}).serve(x)
		}}
	}
	for name, serve := range spaces {
		traps[name] = trap{serve: serve}
	}
	return traps
}

// onePage is a page that many URLs lead to, in letters of which each can be changed.
const onePage = "the-same-page-again-and-again"

var spaces = map[string]func(x exchange){
	"case": func(x exchange) {
		x.page("case", x.changed(func(c byte) string { return strings.ToUpper(string(c)) })...)
	},
	"escapes": func(x exchange) {
		x.page("escapes", x.changed(func(c byte) string { return fmt.Sprintf("%%%02x", c) })...)
	},
	"jsession":  func(x exchange) { x.page("one", x.links("/p;jsessionid=%x")...) },
	"mirror":    func(x exchange) { x.page(x.r.URL.Path[strings.LastIndexByte(x.r.URL.Path, '/'):], x.links("/m%x/a")...) },
	"semicolon": func(x exchange) { x.page("semi", x.links("/p;a=%x;b=2")...) },
	"slashes": func(x exchange) {
		x.page("slashes", x.r.URL.Path+"/", "/"+x.r.URL.Path, strings.Replace(x.r.URL.Path, "/", "//", 1)+"p")
	},
	"relative": func(x exchange) { x.page("relative", "docs/index.html", "a/b/c/index.html") },
	"refresh": func(x exchange) {
		x.write(htmlType, fmt.Sprintf(`<meta http-equiv="refresh" content="0; url=/%d"><p>refresh`, x.number("/%d")+1))
	},
	"refresh-field": func(x exchange) {
		x.rw.Header().Set("Refresh", fmt.Sprintf("0; url=/%d", x.number("/%d")+1))
		x.page("refresh")
	},
	"link-field": func(x exchange) {
		for _, l := range x.links("/%d") {
			x.rw.Header().Add("Link", "<"+l+">; rel=next")
		}
		x.page("link")
	},
	"frames": func(x exchange) {
		n := x.number("/%d")
		x.write(htmlType, fmt.Sprintf(`<frameset><frame src="/%d"><frame src="/%d"></frameset>frames`, 2*n+1, 2*n+2))
	},
	"base": func(x exchange) {
		x.write(htmlType, fmt.Sprintf(`<base href="%sx/"><a href="y">y</a><base href="//base.spaces.test/">base`, x.r.URL.Path))
	},
	"errors": func(x exchange) { // each page leads to more that are not there
		if x.r.URL.Path != "/" && hashOf(x.r.URL.Path)%4 != 0 {
			http.NotFound(x.rw, x.r)
			return
		}
		x.own(append(x.links("/%d"), x.links("/a/%d")...)...)
	},
	"moves": func(x exchange) {
		n := x.number("/%d")
		if n%2 == 1 {
			http.Redirect(x.rw, x.r, fmt.Sprintf("/%d", n+1), http.StatusFound)
			return
		}
		x.page("moves", fmt.Sprintf("/%d", 2*n+1), fmt.Sprintf("/%d", 2*n+3))
	},
}

// changed are links to onePage with some of its letters changed.
func (x exchange) changed(letter func(c byte) string) (links []string) {
	for _, n := range x.some(5) {
		link := "/"
		for i := range len(onePage) {
			if n>>i&1 == 1 && onePage[i] != '-' {
				link += letter(onePage[i])
			} else {
				link += onePage[i : i+1]
			}
		}
		links = append(links, link)
	}
	return links
}

// mixedFamily has traps that no host shows by itself: two hosts that lead to each other for ever; a
// domain of ever more hosts of three pages each, and one whose pages lead there through redirects.
// A good crawler compares the hosts of a domain. Traps that are a part of a real site are in
// crawl/trap: TestMixed, TestLikeGoesLast.
var mixedFamily = family{
	name: "mixed",
	does: "two hosts in turn, domains of ever more small hosts",
	traps: map[string]trap{
		"left":  {serve: func(x exchange) { otherSide(x, "right") }},
		"right": {unseed: true, serve: func(x exchange) { otherSide(x, "left") }},
		"farm":  {unseed: true, serve: farmPage},
		"hops":  {unseed: true, serve: farmPage},
	},
	more: func(w *world) []string { return []string{w.domain("mixed", "start.farm"), w.domain("mixed", "start.hops")} },
	check: func(j *judge) {
		small := make(map[string]int)
		for _, h := range j.hosts {
			if _, of, _ := strings.Cut(h.Host, "."); strings.Contains(of, "-of-mixed.test") {
				small[of]++
			}
		}
		for of, n := range small {
			if n > mostSmallHosts {
				j.blame("%d hosts of %s, which are all alike, were asked, bound %d", n, of, mostSmallHosts)
			}
		}
		for _, name := range []string{"left", "right"} {
			if n := j.host(name).Requests; n > mostOfTheSame {
				j.blame("%s was asked %d times, bound %d", name, n, mostOfTheSame)
			}
		}
	},
}

// mostSmallHosts of a farm: the budget of a domain that no other domain links to.
const mostSmallHosts = 1000

// otherSide is a page of the same text as all, which leads to new URLs of another host.
func otherSide(x exchange, other string) {
	var links []string
	for _, n := range x.some(3) {
		links = append(links, x.w.url(x.f.name, other, fmt.Sprintf("/%d", n)))
	}
	x.page("sides", links...)
}

// farmPage is one of the three pages of a host of a farm; the last of them leads to more hosts, or
// to redirects to such.
func farmPage(x exchange) {
	if to, ok := strings.CutPrefix(x.name, "to-"); ok {
		http.Redirect(x.rw, x.r, x.w.domain(x.f.name, to), http.StatusFound)
		return
	}
	if x.number("/%d") < 2 {
		x.page("small site", "/1", "/2")
		return
	}
	var links []string
	for _, k := range x.some(5) {
		host := fmt.Sprintf("s%x.%s", k, x.kind)
		if x.kind == "hops" {
			host = "to-" + host
		}
		links = append(links, x.w.domain(x.f.name, host))
	}
	x.page("small site", links...)
}
