package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// hangsFamily has URLs that never answer. A good crawler fetches what answers: URLs that hang are
// retried a few times and go behind the rest. It waits for what is merely slow, and leaves a host
// that stopped answering. The order is in crawl/owner: TestHangsGoLast, TestHostThatHangs.
var hangsFamily = family{
	name: "hangs",
	does: "half of the URLs of a host hang; a host goes down; a site takes 8 s a page",
	traps: map[string]trap{
		"folder": {serve: hanging(300, 0)}, // /h/ hangs
		"down":   {serve: hanging(20, 0)},  // it goes down after 20 pages
		"slow":   {serve: hanging(5, 8*time.Second)},
	},
	// The slow site takes six times eight seconds and as many pauses of twice as long.
	within: 6 * time.Minute,
	check: func(j *judge) {
		for name, n := range map[string]int{"folder": 300, "down": 20, "slow": 5} {
			lost, before, all := n, 0, 0
			met := make(map[string]bool)
			for _, r := range j.host(name).log {
				at, err := 0, error(nil)
				_, err = fmt.Sscanf(r.path, "/p/%d", &at)
				good := err == nil && at < n
				switch {
				case good && !met[r.path]:
					met[r.path] = true
					lost--
					before = all
				case !good && r.path != "/" && r.path != "/robots.txt":
					all++
				}
			}
			if name == "down" { // it hangs after all pages
				before = all
			}
			if lost > 0 {
				j.blame("%d of %d pages of %s were not asked for", lost, n, name)
			}
			if before > mostHangs {
				j.blame("%s was asked for %d URLs that hang before the rest was fetched, bound %d", name, before, mostHangs)
			}
		}
		for _, path := range numbered("/p/%d", 5) {
			j.expect(j.w.url(j.family.name, "slow", path), "ok")
		}
	},
}

// mostHangs bounds the requests that hang before the rest of a host is fetched, which it takes to
// learn what hangs, and those to a host that has gone down.
const mostHangs = 16

// hanging serves n pages, each after a pause; others hang.
func hanging(n int, pause time.Duration) func(x exchange) {
	return func(x exchange) {
		if x.r.URL.Path == "/" {
			var links []string
			for i := range n {
				switch x.kind {
				case "folder":
					links = append(links, fmt.Sprintf("/h/%d", i))
				case "down":
					links = append(links, fmt.Sprintf("/p/%d", n+i))
				}
				links = append(links, fmt.Sprintf("/p/%d", i))
			}
			x.own(links...)
			return
		}
		if strings.HasPrefix(x.r.URL.Path, "/h/") || x.number("/p/%d") >= n {
			x.pause(dripsFor)
			panic(http.ErrAbortHandler)
		}
		if x.pause(pause) {
			x.own()
		}
	}
}

// slowFamily has 150 hosts that take three seconds a page and 20 whose robots.txt drips, all of one
// domain and at few addresses, beside a quick site of another domain. A good crawler keeps fetchers
// for what is quick, and still fetches the others.
var slowFamily = family{
	name: "slow",
	does: "150 hosts take 3 s a page, of 20 robots.txt drips",
	traps: map[string]trap{
		"late": {hosts: slowHosts["late"], serve: func(x exchange) {
			x.pause(latePage)
			slowSite(x, slowPages)
		}},
		"drip": {hosts: slowHosts["drip"], serve: func(x exchange) { slowSite(x, slowPages) }, robots: func(x exchange) {
			x.write(plainType, defaultRobots)
			for range 15 {
				x.pause(time.Second)
				_, _ = io.WriteString(x.rw, "# "+strings.Repeat("a", 2048)+"\n")
				_ = http.NewResponseController(x.rw).Flush()
			}
		}},
		"site": {unseed: true, serve: func(x exchange) { slowSite(x, sitePages) }},
	},
	// The site is of a domain of its own: within one domain hosts have turns, and a new one waits for
	// the first page of those before it.
	more:   func(w *world) []string { return []string{w.domain("slow", "site")} },
	within: 6 * time.Minute,
	check: func(j *judge) {
		h := j.byName[fmt.Sprintf("site-of-slow.test:%d", j.w.port)]
		if h == nil || len(h.log) < sitePages+2 {
			j.blame("the site, which has %d pages, was not asked for all of them", sitePages)
			return
		}
		took := h.log[len(h.log)-1].at.Sub(h.log[0].at)
		if len(j.families) == 1 { // beside other traps the machine is busy
			most := siteWithin(j)
			j.report.Say("the site took %.1f s, at most %.1f", took.Seconds(), most.Seconds())
			if took > most {
				j.blame("the site of %d pages took %v beside slow hosts, bound %v", sitePages, took.Round(time.Millisecond), most.Round(time.Millisecond))
			}
		}
		for what, n := range slowHosts {
			for _, name := range numbered(what+"%d", n) {
				j.expect(j.w.url(j.family.name, name, fmt.Sprintf("/p/%d", slowPages-1)), "ok")
			}
		}
	},
}

// slowHosts are the hosts of each kind; slowPages is how many pages one has beside its root,
// sitePages those of the site.
var slowHosts = map[string]int{"late": 150, "drip": 20}

const (
	slowPages = 2
	sitePages = 300
	latePage  = 3 * time.Second
	// firstPages is the time in which 32 fetchers have a first page of all late hosts, which cannot
	// be known to be late before.
	firstPages = 150 * latePage / 32
)

func slowSite(x exchange, pages int) {
	if x.r.URL.Path == "/" {
		x.own(numbered("/p/%d", pages)...)
		return
	}
	x.own()
}

// siteWithin bounds the time of the site: firstPages, and twice what its pages take alone. That is
// the median gap between requests to the family's good site, which the same peer crawled alone
// before: it is the trial's delay and the time of the machine.
func siteWithin(j *judge) time.Duration {
	gap := trialDelay
	if log := j.host("good").log; len(log) > 1 {
		var gaps []time.Duration
		for i, r := range log[1:] {
			gaps = append(gaps, r.at.Sub(log[i].at))
		}
		slices.Sort(gaps)
		gap = max(gap, gaps[len(gaps)/2])
	}
	return 2*sitePages*gap + firstPages
}
