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
			x.site(&s)
		}}
	}
	for name, serve := range spaces {
		traps[name] = trap{serve: serve}
	}
	return traps
}

var spaces = map[string]func(x exchange){
	"case": func(x exchange) {
		var links []string
		for _, n := range x.some(5) {
			link := []byte("the-same-page-again-and-again")
			for i, c := range link {
				if n>>i&1 == 1 && c != '-' {
					link[i] -= 'a' - 'A'
				}
			}
			links = append(links, "/"+string(link))
		}
		x.page("case", links...)
	},
	"mirror": func(x exchange) {
		x.page(x.r.URL.Path[strings.LastIndexByte(x.r.URL.Path, '/'):], x.links("/m%x/a")...)
	},
	"slashes": func(x exchange) {
		x.page("slashes", x.r.URL.Path+"/", "/"+x.r.URL.Path, strings.Replace(x.r.URL.Path, "/", "//", 1)+"p")
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
