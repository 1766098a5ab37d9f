package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// robotsFamily has robots.txt without end, and behind redirects. A good crawler limits what it reads
// and obeys the rules that it read. The forms of rules are in crawl/robots: TestCases, TestRFC9309.
var robotsFamily = family{
	name:  "robots",
	does:  "robots.txt without end, compressed, of 40,000 lines, behind redirects, missing",
	quick: true,
	traps: map[string]trap{
		"endless": {serve: secrets, robots: func(x exchange) {
			x.write(plainType, secret)
			for x.w.ctx.Err() == nil {
				if _, err := io.WriteString(x.rw, strings.Repeat("Disallow: /"+prose("x", 3)+"\n", 500)); err != nil {
					return
				}
			}
		}},
		"bomb":  {serve: secrets, robots: func(x exchange) { x.bomb("gzip") }},
		"line":  {serve: secrets, robots: func(x exchange) { x.write(plainType, "# "+strings.Repeat("a", 20<<10)+"\n"+secret) }},
		"lines": {serve: secrets, robots: func(x exchange) { x.write(plainType, secret+strings.Repeat("Disallow: /x\n", 40_000)) }},
		"gone":  {serve: secrets, robots: func(x exchange) { http.NotFound(x.rw, x.r) }},
		"loop": {serve: secrets, robots: func(x exchange) {
			http.Redirect(x.rw, x.r, "/robots.txt", http.StatusFound)
		}},
		"other": {serve: secrets, robots: func(x exchange) {
			http.Redirect(x.rw, x.r, x.w.url(x.f.name, "rules", "/robots.txt"), http.StatusMovedPermanently)
		}},
		"elsewhere": {serve: secrets, robots: func(x exchange) {
			http.Redirect(x.rw, x.r, x.w.url(x.f.name, "rules", "/robots-at/1"), http.StatusFound)
		}},
		"hops": {serve: secrets, robots: func(x exchange) {
			if n := x.number("/robots-at/%d"); n < 3 {
				http.Redirect(x.rw, x.r, fmt.Sprintf("/robots-at/%d", n+1), http.StatusMovedPermanently)
				return
			}
			x.write(plainType, secret)
		}},
		"rules": {unseed: true, serve: secrets, robots: func(x exchange) { x.write(plainType, secret) }},
	},
	disallowed: func(name, path string) bool {
		open := name == "gone" || name == "bomb" || name == "loop" // no rules (RFC 9309, 2.3.1), or rules that may be read either way
		return strings.HasPrefix(path, "/secret/") && !open
	},
	check: func(j *judge) {
		j.wants("gone", "/")
		for _, name := range []string{"line", "lines", "hops", "other", "elsewhere"} {
			j.wants(name, "/open/d")
		}
		for _, name := range []string{"line", "lines"} {
			if n := j.asked(name, "/robots.txt"); n > 2 {
				j.blame("the robots.txt of %s was asked for %d times", name, n)
			}
		}
		for _, name := range []string{"endless", "bomb"} {
			if n := j.host(name).Bytes; n > 8<<20 {
				j.blame("the robots.txt of %s sent %d MiB", name, n>>20)
			}
		}
	},
}

const secret = "User-agent: *\nDisallow: /secret/\n"

func secrets(x exchange) {
	if x.r.URL.Path == "/" {
		x.own("/secret/a", "/%73ecret/b", "/secret/../secret/c", "/open/d")
		return
	}
	x.own()
}

// rulesFamily has 200 hosts whose robots.txt is as large as is read, of rules that no two share. A
// good crawler obeys all of them in bounded memory without requesting the file again and again;
// hosts whose rules do not fit wait.
var rulesFamily = family{
	name: "rules",
	does: "200 hosts with 480 KiB of rules each",
	traps: map[string]trap{"n": {
		hosts: rulesHosts,
		serve: func(x exchange) {
			if x.r.URL.Path == "/" {
				x.own("/closed/a", "/open/1", "/%63losed/b", "/open/2", "/open/3")
				return
			}
			x.own()
		},
		robots: func(x exchange) { x.write(plainType, manyRules(x.name)) },
	}},
	disallowed: func(_, path string) bool { return strings.HasPrefix(path, "/closed/") },
	check: func(j *judge) {
		missed, again, most := 0, 0, 0
		for _, name := range numbered("n%d", rulesHosts) {
			if j.asked(name, "/open/3") == 0 {
				missed++
			}
			n := j.asked(name, "/robots.txt")
			if most = max(most, n); n > 2 {
				again++
			}
		}
		if missed > 0 || again > 0 {
			j.blame("of %d hosts %d were not crawled, and %d asked for robots.txt more than twice (up to %d times)", rulesHosts, missed, again, most)
		}
	},
}

const (
	rulesHosts = 200
	rulesBytes = 480 << 10
)

// manyRules is another file for each name, in which the last rule forbids /closed/.
func manyRules(name string) string {
	rng := rand.New(rand.NewPCG(hashOf(name), 2))
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for b.Len() < rulesBytes {
		n := rng.Uint64()
		for i := range 4 { // compressible to a quarter: hosts are stored on disk
			fmt.Fprintf(&b, "Disallow: /%x*%x\n", n, i)
		}
	}
	b.WriteString("Disallow: /closed/\n")
	return b.String()
}

// mannersFamily tests politeness where an exchange is made twice or is slow. A good crawler keeps its
// delay, never has two requests at once, and follows no link below /hidden/, which each page has
// after nofollow. The forms of nofollow are in crawl/extract: TestRobotsTag, TestMetaRobots.
var mannersFamily = family{
	name:  "manners",
	does:  "connections closed before the next request, slow hosts, nofollow",
	quick: true,
	traps: map[string]trap{
		// The next request is read and not answered: the client takes the connection for one that was
		// closed before, and repeats the request.
		"stale": {serve: func(x exchange) {
			c, buf := x.hijack()
			defer c.Close()
			text := page(x.r.Host+x.r.URL.Path, numbered("/%d", mannersPages)...)
			_, _ = io.WriteString(c, ok(fmt.Sprintf("Content-Length: %d\r\n", len(text)), text))
			x.w.endVisit(c, false)
			x.w.nextRequest(c, buf.Reader)
		}},
		"slow": {serve: func(x exchange) {
			x.pause(150 * time.Millisecond)
			x.own(numbered("/%d", mannersPages)...)
		}},
		"burst": {serve: func(x exchange) { x.own(numbered("/%d", mannersPages)...) }},
		"tag": {serve: func(x exchange) {
			x.rw.Header().Set("X-Robots-Tag", "nofollow")
			x.own("/hidden/1")
		}},
		"meta": {serve: func(x exchange) {
			x.write(htmlType, `<html><head><meta name="robots" content="nofollow"></head><a href="/hidden/1">1</a>`)
		}},
		"rel": {serve: func(x exchange) {
			x.write(htmlType, `<html><a rel=nofollow href="/hidden/1">1</a><a rel="external NOFOLLOW ugc" href="/hidden/2">2</a>`)
		}},
	},
	disallowed: func(_, path string) bool {
		return strings.HasPrefix(path, "/hidden/") || strings.HasPrefix(path, "/forbidden/")
	},
	check: func(j *judge) {
		for _, name := range []string{"stale", "slow", "burst"} {
			j.wants(name, numbered("/%d", mannersPages)...)
		}
	},
}

const mannersPages = 12

// waitsFamily defers a crawl. A good crawler obeys Retry-After to the full second, rounded up,
// sends no request to the host meanwhile, and does not delay the end of a crawl beyond its patience:
// such URLs are deferred. Values that are invalid are in crawl/fetch and crawl/robots: TestRetryAfter,
// TestWishesAreNotCut.
var waitsFamily = family{
	name: "waits",
	does: "Retry-After of a million years, of 2099; 429 and 503 for everything, robots.txt included; a Crawl-delay of years",
	traps: map[string]trap{
		"years":   {serve: refuses(503, "1000000000000")},
		"date":    {serve: refuses(503, "Thu, 01 Jan 2099 00:00:00 GMT")},
		"day":     {serve: refuses(503, "86400")},
		"twice":   {serve: refuses(503, "1", "100000000000000000000000000")},
		"garbage": {serve: refuses(503, "soon, I hope")},
		"seconds": {serve: refuses(503, fmt.Sprint(waitsSeconds))},
		"always":  {serve: refuses(503)},
		"all":     {serve: refuses(429)},
		"ok": {serve: func(x exchange) { // a Retry-After beside a page has no effect
			x.rw.Header().Set("Retry-After", "1000000000000")
			x.own("/1", "/2")
		}},
		"crawldelay": {serve: func(x exchange) { x.own() }, robots: func(x exchange) {
			x.write(plainType, defaultRobots+"Crawl-delay: 1000000000\n")
		}},
		"robotsbusy":  {robots: refuses(429)},
		"robotsyears": {robots: refuses(503, "1000000000000")},
		"robotserror": {robots: refuses(500)},
		"robotsdrop":  {robots: func(exchange) { panic(http.ErrAbortHandler) }},
	},
	disallowed: func(name, path string) bool { // where robots.txt cannot be read, nothing may be asked for
		return strings.HasPrefix(name, "robots") && path != "/robots.txt" || strings.HasPrefix(path, "/forbidden/")
	},
	check: func(j *judge) {
		// robots.txt, the page, which has Retry-After, the page.
		if log := j.host("seconds").log; len(log) > 2 {
			if gap := log[2].at.Sub(log[1].at); gap < waitsSeconds*time.Second {
				j.blame("asked again %.3f s after Retry-After: %d", gap.Seconds(), waitsSeconds)
			}
		}
		for _, name := range []string{"years", "date", "day"} {
			if n := j.asked(name, "/"); n > 1 {
				j.blame("%s is to be asked much later, and was asked %d times", name, n)
			}
		}
	},
}

const waitsSeconds = 6

func refuses(status int, after ...string) func(x exchange) {
	return func(x exchange) {
		if after != nil {
			x.rw.Header()["Retry-After"] = after
		}
		x.rw.WriteHeader(status)
	}
}
