package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// URLs that hang.
//
// The trap: a host with 300 pages and 300 URLs of which nothing ever comes; one of which every
// other URL hangs, and nothing tells these from the others; one that answers for a while and then
// no more; and, which is none, one that takes eight seconds for each page.
//
// A good crawler has what answers: what hangs is tried a few times and goes behind the rest. It
// waits for what is merely slow, and leaves a host alone of which nothing comes any more.
var hangsFamily = family{
	name:  "hangs",
	does:  "half of the URLs of a host hang, in a folder of their own or among the others; a host goes down; a site is slow",
	seeds: func(w *world) []string { return w.urls("hangs", "folder", "alike", "down", "slow") },
	serve: serveHangs,
	// The slow site takes six times eight seconds and as many rests of twice as long.
	within: 6 * time.Minute,
	check:  checkHangs,
}

// hangsPages is how many pages answer, by host; as many of folder and alike hang.
var hangsPages = map[string]int{"folder": 300, "alike": 15, "down": 20, "slow": 5}

const (
	slowPage = 8 * time.Second
	// mostHangs are the requests that may hang before the rest of the host is here: it takes some
	// to know what hangs. mostDown are those that a host may be asked that has gone down.
	mostHangs = 16
	mostDown  = 16
)

func serveHangs(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	n := hangsPages[name]
	if r.URL.Path == "/" {
		links := numbered("/p/%d", n)
		switch name {
		case "folder":
			links = links[:0]
			for i := range n {
				links = append(links, fmt.Sprintf("/h/%d", i), fmt.Sprintf("/p/%d", i))
			}
		case "alike", "down":
			links = numbered("/p/%d", 2*n)
		}
		writePage(rw, page(r.Host, links...))
		return
	}
	var at int
	_, _ = fmt.Sscanf(r.URL.Path, "/p/%d", &at)
	hangs := map[string]bool{"folder": strings.HasPrefix(r.URL.Path, "/h/"), "alike": at%2 == 1, "down": at >= n}[name]
	wait := time.Duration(0)
	switch {
	case hangs:
		wait = dripsFor
	case name == "slow":
		wait = slowPage
	}
	select {
	case <-r.Context().Done():
		return
	case <-w.ctx.Done():
		return
	case <-time.After(wait):
	}
	if hangs {
		panic(http.ErrAbortHandler)
	}
	writePage(rw, page(r.Host+r.URL.Path))
}

func checkHangs(j *judge) {
	for name, n := range hangsPages {
		lost, before, all := n, 0, 0
		met := make(map[string]bool)
		for _, path := range j.w.audit.order(j.w.host(j.family.name, name)) {
			var at int
			_, err := fmt.Sscanf(path, "/p/%d", &at)
			good := err == nil && (name != "alike" || at%2 == 0) && (name != "down" || at < n)
			switch {
			case good && !met[path]:
				met[path] = true
				lost--
				before = all
			case !good && path != "/" && path != "/robots.txt":
				all++
			}
		}
		most := mostHangs
		if name == "down" {
			most, before = mostDown, all
		}
		if lost > 0 {
			j.blame("hangs: %d of %d pages of %s were not asked for", lost, n, name)
		}
		if before > most {
			j.blame("hangs: %s was asked for %d URLs that hang before the rest was here, bound %d", name, before, most)
		}
	}
	// What was slow is here as well.
	for _, path := range numbered("/p/%d", hangsPages["slow"]) {
		j.expect(j.w.url(j.family.name, "slow", path), "ok")
	}
}
