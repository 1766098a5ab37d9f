package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Hosts that are slow.
//
// The trap: 150 hosts that take three seconds for each page, 60 with a robots.txt of 500 KiB, each
// with other rules, and 20 of which that drips; all of one domain and at few addresses. Beside them
// an ordinary site of another domain, which is quick.
//
// A good crawler has fetchers left for what is quick, though it waits for the others.
var slowFamily = family{
	name: "slow",
	does: "150 hosts take 3 s a page, 60 have a robots.txt of 500 KiB, of 20 it drips",
	seeds: func(w *world) []string {
		urls := []string{"http://" + slowSite(w) + "/"}
		for what, n := range slowHosts {
			urls = append(urls, w.urls("slow", numbered(what+"%d", n)...)...)
		}
		return urls
	},
	serve:     serveSlow,
	ownRobots: true,
	within:    6 * time.Minute,
	check:     checkSlow,
}

// slowHosts are the hosts of each kind; slowPages is how many pages one has beside its root,
// sitePages those of the site.
var slowHosts = map[string]int{"late": 150, "large": 60, "drip": 20}

const (
	slowPages = 2
	sitePages = 300
	latePage  = 3 * time.Second
	// firstPages is the time in which 32 fetchers have a first page of all late hosts, as nothing
	// shows before that they are late.
	firstPages = 150 * latePage / 32
)

// siteWithin bounds the time of the site: firstPages, and twice what its pages take alone. That is
// the median gap between requests to the family's good site, which the same peer crawled alone
// before: it is the trial's delay and the time of the machine.
func siteWithin(j *judge) time.Duration {
	gap := trialDelay
	if times := j.w.audit.times(j.w.host(j.family.name, "good")); len(times) > 1 {
		var gaps []time.Duration
		for i, t := range times[1:] {
			gaps = append(gaps, t.Sub(times[i]))
		}
		slices.Sort(gaps)
		gap = max(gap, gaps[len(gaps)/2])
	}
	return 2*sitePages*gap + firstPages
}

// slowSite is the host of the site, of a domain of its own: within one domain hosts have turns, and
// a new one waits for the first page of those before it.
func slowSite(w *world) string { return fmt.Sprintf("site-of-slow.test:%d", w.port) }

func serveSlow(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	kind := strings.TrimRight(name, "0123456789")
	if r.URL.Path == "/robots.txt" {
		serveSlowRobots(w, rw, kind, name)
		return
	}
	if kind == "late" {
		w.sleep(latePage)
	}
	var links []string
	if r.URL.Path == "/" {
		n := slowPages
		if name == "site" {
			n = sitePages
		}
		links = numbered("/p/%d", n)
	}
	writePage(rw, page(r.Host+r.URL.Path, links...))
}

func serveSlowRobots(w *world, rw http.ResponseWriter, kind, name string) {
	_, _ = io.WriteString(rw, defaultRobots)
	switch kind {
	case "large":
		for i := range 12_000 {
			_, _ = fmt.Fprintf(rw, "Disallow: /of/%s/%d/*/private/%d$\n", name, i, i)
		}
	case "drip":
		for range 15 {
			w.sleep(time.Second)
			_, _ = io.WriteString(rw, "# "+strings.Repeat("a", 2048)+"\n")
			_ = http.NewResponseController(rw).Flush()
		}
	}
}

func checkSlow(j *judge) {
	times := j.w.audit.times(slowSite(j.w))
	if len(times) < sitePages+2 {
		j.blame("slow: the site was asked for %d things, and has %d pages", len(times), sitePages)
		return
	}
	took := times[len(times)-1].Sub(times[0])
	if len(j.families) == 1 { // beside other traps the machine has its hands full
		most := siteWithin(j)
		j.report.Say("the site took %.1f s, at most %.1f", took.Seconds(), most.Seconds())
		if took > most {
			j.blame("slow: the site of %d pages took %v beside slow hosts, bound %v", sitePages, took.Round(time.Millisecond), most.Round(time.Millisecond))
		}
	}
	for what, n := range slowHosts {
		for _, name := range numbered(what+"%d", n) {
			j.expect(j.w.url(j.family.name, name, fmt.Sprintf("/p/%d", slowPages-1)), "ok")
		}
	}
}
