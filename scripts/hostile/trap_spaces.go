package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Spaces of URLs without end.
//
// The trap: a calendar, sessions in the URL, paths that grow in order or at random, parameters in
// every order, an answer of 200 for everything, text at random, one site under ever new prefixes, a
// base that drifts, cases, slashes, path parameters and escapes by which one page has any number of
// URLs.
//
// A good crawler notices that a host brings little that is new, asks it less and then not at all; a
// budget of requests holds where it does not notice.
var spacesFamily = family{
	name:     "spaces",
	within:   10 * time.Minute,
	requests: 2 * mostOfTheSame,
	does:     "calendars, sessions, growing paths, permuted parameters, soft 404s, random text, mirrors, drifting bases",
	seeds: func(w *world) []string {
		return w.urls("spaces", append(slices.Sorted(maps.Keys(spaces)), slices.Sorted(maps.Keys(oddSpaces))...)...)
	},
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
		if s := oddSpaces[name]; s != nil {
			n := 0
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
			s(rw, r, n)
			return
		}
		if s := spaces[name]; s != nil {
			text, links := s(r)
			writePage(rw, page(text, links...))
			return
		}
		http.NotFound(rw, r)
	},
	check: func(j *judge) {
		for _, h := range j.hosts {
			name, _, _ := strings.Cut(h.Host, ".")
			if h.Requests > mostOfTheSame && !slices.Contains(everNew, name) {
				j.blame("spaces: %s, which brings nothing new, was asked %d times, bound %d", name, h.Requests, mostOfTheSame)
			}
		}
	},
}

// everNew are spaces in which ever new texts occur, in calendar one in twenty months: only a budget
// ends the crawl of these. The others end before mostOfTheSame requests.
var everNew = []string{"random", "date", "errors", "counter", "calendar"}

const mostOfTheSame = 6000

// some are a few numbers that hang on a URL.
func some(r *http.Request, n int) []int {
	rng := rand.New(rand.NewPCG(hashOf(r.Host+r.RequestURI), 2))
	out := make([]int, n)
	for i := range out {
		out[i] = rng.IntN(1 << 30)
	}
	return out
}

func linksOf(r *http.Request, format string) []string {
	var links []string
	for _, n := range some(r, 5) {
		links = append(links, fmt.Sprintf(format, n))
	}
	return links
}

// spaces make, for a URL, what the text hangs on, and links.
var spaces = map[string]func(r *http.Request) (text string, links []string){
	"calendar": func(r *http.Request) (string, []string) {
		n := 0
		_, _ = fmt.Sscanf(r.URL.Query().Get("month"), "%d", &n)
		return fmt.Sprintf("month %d", n/20), []string{fmt.Sprintf("/?month=%d", n+1), fmt.Sprintf("/?month=%d", n-1), fmt.Sprintf("/day?month=%d&d=%d", n, n%28)}
	},
	"session": func(r *http.Request) (string, []string) { return r.URL.Path, linksOf(r, "/p?sid=%x") },
	"jsession": func(r *http.Request) (string, []string) {
		return "one", linksOf(r, "/p;jsessionid=%x")
	},
	"grow": func(r *http.Request) (string, []string) {
		return "grow", []string{r.URL.Path + "a/", r.URL.Path + "b/", "x/", "../y/"}
	},
	"shuffle": func(r *http.Request) (string, []string) {
		var links []string
		words := strings.Fields("red blue green small large new old cheap used best")
		for _, n := range some(r, 6) {
			rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			links = append(links, "/"+strings.Join(words[:2+n%8], "/"))
		}
		return "filter", links
	},
	"params": func(r *http.Request) (string, []string) {
		var links []string
		keys := strings.Fields("a b c d e f g h")
		for _, n := range some(r, 5) {
			rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			links = append(links, "/?"+strings.Join(keys[:1+n%8], "=1&")+"=1")
		}
		return "params", links
	},
	"soft404": func(r *http.Request) (string, []string) { return "not found", linksOf(r, "/missing/%x.html") },
	"random":  func(r *http.Request) (string, []string) { return r.RequestURI, linksOf(r, "/article-%d") },
	"date": func(r *http.Request) (string, []string) {
		var links []string
		for _, n := range some(r, 5) {
			links = append(links, fmt.Sprintf("/%d/%02d/%02d/%x", 1900+n%200, 1+n%12, 1+n%28, n))
		}
		return r.RequestURI, links
	},
	"mirror": func(r *http.Request) (string, []string) {
		return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/'):], linksOf(r, "/m%x/a")
	},
	"case": func(r *http.Request) (string, []string) {
		var links []string
		for _, n := range some(r, 5) {
			links = append(links, "/"+cased("the-same-page-again-and-again", n))
		}
		return "case", links
	},
	"slashes": func(r *http.Request) (string, []string) {
		return "slashes", []string{r.URL.Path + "/", "/" + r.URL.Path, strings.Replace(r.URL.Path, "/", "//", 1) + "p"}
	},
	"semicolon": func(r *http.Request) (string, []string) { return "semi", linksOf(r, "/p;a=%x;b=2") },
	"escapes": func(r *http.Request) (string, []string) {
		var links []string
		for _, n := range some(r, 5) {
			links = append(links, "/"+escaped("the-same-page-again-and-again", n))
		}
		return "escapes", links
	},
	"counter": func(r *http.Request) (string, []string) {
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/page/%d", &n)
		return fmt.Sprintf("counter %d", n), []string{fmt.Sprintf("/page/%d", n+1), fmt.Sprintf("/page/%d", 10*n+7)}
	},
	"back": func(r *http.Request) (string, []string) {
		return "back", []string{"/login?return=" + url.QueryEscape(r.RequestURI), "/print?u=" + url.QueryEscape(r.RequestURI)}
	},
	"relative": func(r *http.Request) (string, []string) {
		return "relative", []string{"docs/index.html", "a/b/c/index.html"}
	},
	"facets": func(r *http.Request) (string, []string) {
		q := r.URL.Query()
		var links []string
		for _, n := range some(r, 4) {
			q.Set(string(rune('a'+n%26)), fmt.Sprint(n%9))
			links = append(links, "/list?"+q.Encode())
		}
		return "facets", links
	},
}

// oddSpaces lead on by other means than a link; n is the number in the path.
var oddSpaces = map[string]func(rw http.ResponseWriter, r *http.Request, n int){
	"refresh": func(rw http.ResponseWriter, _ *http.Request, n int) {
		writePage(rw, fmt.Sprintf(`<meta http-equiv="refresh" content="0; url=/%d"><p>refresh`, n+1))
	},
	"refresh-field": func(rw http.ResponseWriter, _ *http.Request, n int) {
		rw.Header().Set("Refresh", fmt.Sprintf("0; url=/%d", n+1))
		writePage(rw, page("refresh"))
	},
	"link-field": func(rw http.ResponseWriter, r *http.Request, _ int) {
		for _, l := range linksOf(r, "/%d") {
			rw.Header().Add("Link", "<"+l+">; rel=next")
		}
		writePage(rw, page("link"))
	},
	"frames": func(rw http.ResponseWriter, _ *http.Request, n int) {
		writePage(rw, fmt.Sprintf(`<frameset><frame src="/%d"><frame src="/%d"></frameset>frames`, 2*n+1, 2*n+2))
	},
	"base": func(rw http.ResponseWriter, r *http.Request, _ int) {
		writePage(rw, fmt.Sprintf(`<base href="%sx/"><a href="y">y</a><base href="//base.spaces.test/">base`, r.URL.Path))
	},
	"errors": func(rw http.ResponseWriter, r *http.Request, _ int) { // each page leads to more that are not there
		if r.URL.Path != "/" && hashOf(r.URL.Path)%4 != 0 {
			http.NotFound(rw, r)
			return
		}
		writePage(rw, page(r.URL.Path, append(linksOf(r, "/%d"), linksOf(r, "/a/%d")...)...))
	},
	"moves": func(rw http.ResponseWriter, r *http.Request, n int) {
		if n%2 == 1 {
			http.Redirect(rw, r, fmt.Sprintf("/%d", n+1), http.StatusFound)
			return
		}
		writePage(rw, page("moves", fmt.Sprintf("/%d", 2*n+1), fmt.Sprintf("/%d", 2*n+3)))
	},
}

// cased is the text in another case, letter by letter.
func cased(s string, n int) string {
	out := []byte(s)
	for i := range out {
		if n>>(i%30)&1 == 1 && out[i] >= 'a' {
			out[i] -= 'a' - 'A'
		}
	}
	return string(out)
}

// escaped is the text with some letters escaped that need not be.
func escaped(s string, n int) string {
	var b strings.Builder
	for i := range len(s) {
		if n>>(i%30)&1 == 1 {
			fmt.Fprintf(&b, "%%%02x", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
