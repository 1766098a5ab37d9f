package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Wishes in every form.
//
// The trap: nofollow in each way it can be said (X-Robots-Tag with dates, for agents, twice, in
// lists by comma, space and semicolon; meta elements by name, case, content; rel of a link), each
// before a link to /hidden/; a robots.txt with rules by wildcard; connections that the server has
// closed by the time of the next request, so that it is made again; hosts that answer slowly.
//
// A good crawler asks for nothing below /hidden/, keeps its delay in each case, also when a request
// is made a second time, and never has two requests at once.
var mannersFamily = family{
	name:  "manners",
	does:  "nofollow in every form, wildcards in robots.txt, connections closed before the next request, slow hosts",
	quick: true,
	seeds: func(w *world) []string {
		urls := w.urls("manners", append(numbered("tag%d", len(tagForms)), numbered("meta%d", len(metaForms))...)...)
		return append(urls, w.urls("manners", "rel", "wild", "stale", "slow", "burst", "free")...)
	},
	serve:     serveManners,
	ownRobots: true,
	disallowed: func(_, path string) bool {
		return strings.HasPrefix(path, "/hidden/") || strings.HasPrefix(path, "/forbidden/")
	},
	check: func(j *judge) {
		j.wants("free", numbered("/open/%d", len(freeForms))...)
		for _, name := range []string{"stale", "slow", "burst"} {
			j.wants(name, numbered("/%d", mannersPages)...)
		}
	},
}

const mannersPages = 12

// tagForms are values of X-Robots-Tag, each of which says nofollow to all or to this crawler; lines
// are fields of their own.
var tagForms = []string{
	"nofollow", "noindex, nofollow", "NOFOLLOW", "none", "apoidea: nofollow", "*: nofollow", "unavailable_after: 25 Jun 2110 15:00:00 PST, nofollow",
	"unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, nofollow", "nofollow, unavailable_after: Wed, 01 Jan 2110 00:00:00 GMT", "noarchive\nnofollow",
	"max-snippet: 20, nofollow", "noindex nofollow", "noindex;nofollow", "max-image-preview: large, max-video-preview: -1, nofollow",
	"unavailable_after: 2110-01-01T00:00:00+00:00, nofollow", "other: index\nnofollow", "noindex ,  nofollow ,", "\tnofollow",
	"unavailable_after: 25 Jun 2110 15:00:00 PST\nunavailable_after: Fri, 1 Jan 2110 1:2:3 GMT, noindex, nofollow", "apoidea: noindex, nofollow",
}

// freeForms say nothing to this crawler that keeps it from following.
var freeForms = []string{"noindex", "other: nofollow", "all", "unavailable_after: 25 Jun 2110 15:00:00 PST", "nofollowing", "max-snippet: 20"}

// metaForms are elements that say nofollow.
var metaForms = []string{
	`<meta name="robots" content="nofollow">`, `<META NAME=ROBOTS CONTENT=NOFOLLOW>`, `<meta content="noindex,nofollow" name="robots">`, `<meta name='robots' content='none'>`,
	`<meta name="robots" content="index, , nofollow">`, `<meta name="apoidea" content="nofollow">`, `<meta name=" robots " content=" nofollow ">`,
	`<meta name="robots" content="index"><meta name="robots" content="nofollow">`, `<meta name="robots" content="noindex nofollow">`, `<meta name="robots" content="n&#111;follow">`,
	`<a href="/hidden/early">x</a><meta name="robots" content="nofollow">`,
}

func serveManners(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Path == "/robots.txt" {
		text := defaultRobots
		if name == "wild" {
			text = "User-agent: *\nDisallow: /*/hidden\nDisallow: *.cgi$\nAllow: /hidden/not/\nDisallow: /hidden/\n"
		}
		_, _ = io.WriteString(rw, text)
		return
	}
	var n int
	body := `<a href="/hidden/link">x</a><a href="/hidden/link2">y</a>`
	switch {
	case strings.HasPrefix(name, "tag"):
		_, _ = fmt.Sscanf(name, "tag%d", &n)
		rw.Header()["X-Robots-Tag"] = strings.Split(tagForms[n%len(tagForms)], "\n")
		writePage(rw, "<html>"+body)
	case strings.HasPrefix(name, "meta"):
		_, _ = fmt.Sscanf(name, "meta%d", &n)
		writePage(rw, "<html><head>"+metaForms[n%len(metaForms)]+"</head>"+body)
	case name == "free":
		w.freePage(rw, r)
	case name == "rel":
		writePage(rw, `<html><a rel=nofollow href="/hidden/1">1</a><a rel="external NOFOLLOW ugc" href="/hidden/2">2</a><a href="/hidden/3" rel='a nofollow'>3</a>`)
	default:
		w.manyPages(rw, r, name)
	}
}

// freePage leads to pages whose links may be followed.
func (w *world) freePage(rw http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/form/%d", &n); err == nil && n < len(freeForms) {
		rw.Header()["X-Robots-Tag"] = []string{freeForms[n]}
		writePage(rw, page(r.URL.Path, fmt.Sprintf("/open/%d", n)))
		return
	}
	writePage(rw, page(r.URL.Path, numbered("/form/%d", len(freeForms))...))
}

// manyPages are hosts of some pages whose connections end, or which are slow.
func (w *world) manyPages(rw http.ResponseWriter, r *http.Request, name string) {
	text := page(r.Host+r.URL.Path, numbered("/%d", mannersPages)...)
	switch name {
	case "stale":
		c, buf := hijack(rw)
		defer c.Close()
		_, _ = io.WriteString(c, ok(fmt.Sprintf("Content-Length: %d\r\n", len(text)), text))
		w.answered(c)
		// The next request is read, noted, and not answered: the client takes the connection for
		// one that was closed before, and asks again.
		w.serveRaw(c, buf.Reader, func(*http.Request) bool { return false })
	case "slow":
		w.sleep(150 * time.Millisecond)
		writePage(rw, text)
	default:
		writePage(rw, text)
	}
}
