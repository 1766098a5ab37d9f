package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

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

// mannersFamily tests politeness where an exchange is made twice or is slow. A good crawler keeps
// its delay, never has two requests at once, and obeys nofollow, whose forms are in crawl/extract:
// TestRobotsTag, TestMetaRobots.
var mannersFamily = family{
	name:  "manners",
	does:  "connections closed before the next request, slow hosts, nofollow",
	quick: true,
	traps: map[string]trap{
		// The next request is read and not answered: the client takes the connection for one that
		// was closed before, and repeats the request.
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
		"tag": {serve: func(x exchange) {
			x.rw.Header().Set("X-Robots-Tag", "nofollow")
			x.own("/forbidden/nofollow")
		}},
	},
	check: func(j *judge) {
		for _, name := range []string{"stale", "slow"} {
			j.wants(name, numbered("/%d", mannersPages)...)
		}
	},
}

const mannersPages = 12

// waitsFamily defers a crawl. A good crawler obeys Retry-After to the full second, rounded up,
// sends no request to the host meanwhile, and does not delay the end of a crawl beyond its
// patience: such URLs are deferred. Values that are invalid are in crawl/fetch and crawl/robots:
// TestRetryAfter, TestWishesAreNotCut.
var waitsFamily = family{
	name: "waits",
	does: "Retry-After of a million years, of 2099; 429 and 503 for everything, robots.txt included; a Crawl-delay of years",
	traps: map[string]trap{
		"years":   {serve: refuses(503, "1000000000000")},
		"date":    {serve: refuses(503, "Thu, 01 Jan 2099 00:00:00 GMT")},
		"day":     {serve: refuses(503, "86400")},
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
