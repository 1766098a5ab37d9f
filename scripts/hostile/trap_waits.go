package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Wishes to be asked later.
//
// The trap: Retry-After of a million years, of 2099, negative, garbage, given twice; 429 and 503
// for everything, for ever, robots.txt included, which fails in other ways at others; a Crawl-delay
// of years; 503 with a wish of some seconds, which is a wish to be kept.
//
// A good crawler keeps the wish to the full second, rounded up, never asks the host for anything
// meanwhile, and does not hold up the end of a crawl for a wish beyond its patience: such URLs are
// put off.
var waitsFamily = family{
	name: "waits",
	does: "Retry-After of a million years, of 2099, negative, garbage; 429 and 503 for everything",
	seeds: func(w *world) []string {
		return w.urls("waits", "years", "date", "past", "negative", "garbage", "twice", "all", "seconds", "day", "always", "ok", "robots429", "robots503", "robotsyears", "robots500", "robotsdrop", "crawldelay")
	},
	serve:     serveWaits,
	ownRobots: true,
	disallowed: func(name, path string) bool { // where robots.txt cannot be had, nothing may be asked for
		return strings.HasPrefix(name, "robots") && path != "/robots.txt" || strings.HasPrefix(path, "/forbidden/")
	},
	check: func(j *judge) {
		times := j.w.audit.times(j.w.host(j.family.name, "seconds"))
		for i := range times {
			// robots.txt, the page, which says when to come again, the page.
			if i >= 2 {
				if gap := times[i].Sub(times[i-1]); i == 2 && gap < waitsSeconds*time.Second {
					j.blame("waits: asked again %.3f s after Retry-After: %d", gap.Seconds(), waitsSeconds)
				}
			}
		}
		for _, name := range []string{"years", "date", "day"} {
			if n := j.asked(name, "/"); n > 1 {
				j.blame("waits: %s wants to be asked much later, and was asked %d times", name, n)
			}
		}
	},
}

const waitsSeconds = 6

func serveWaits(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Path == "/robots.txt" && !strings.HasPrefix(name, "robots") {
		_, _ = io.WriteString(rw, defaultRobots)
		if name == "crawldelay" {
			_, _ = io.WriteString(rw, "Crawl-delay: 1000000000\n")
		}
		return
	}
	status := http.StatusServiceUnavailable
	wish := map[string][]string{
		"years":    {"1000000000000"},
		"date":     {"Thu, 01 Jan 2099 00:00:00 GMT"},
		"past":     {"Thu, 01 Jan 1970 00:00:00 GMT"},
		"negative": {"-5"},
		"garbage":  {"soon, I hope"},
		"twice":    {"1", "100000000000000000000000000"},
		"seconds":  {fmt.Sprint(waitsSeconds)},
		"day":      {"86400"},

		"robotsyears": {"1000000000000"},
	}[name]
	switch {
	case name == "crawldelay":
		writePage(rw, page(r.Host+r.URL.Path))
		return
	case name == "ok":
		// A wish beside a page is none.
		rw.Header().Set("Retry-After", "1000000000000")
		writePage(rw, page(r.Host+r.URL.Path, "/1", "/2"))
		return
	case name == "all", name == "robots429":
		status = http.StatusTooManyRequests
	}
	switch name {
	case "robots500":
		status = http.StatusInternalServerError
	case "robotsdrop":
		panic(http.ErrAbortHandler)
	}
	if wish != nil {
		rw.Header()["Retry-After"] = wish
	}
	rw.WriteHeader(status)
}
