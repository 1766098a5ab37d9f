package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Rules by the ten thousand.
//
// The trap: 200 hosts whose robots.txt is as large as one is read, of rules that no two have in
// common.
//
// A good crawler keeps to all of them, in bounded memory, without asking for the file again and
// again; hosts for whose rules there is no room wait.
var rulesFamily = family{
	name:  "rules",
	does:  "200 hosts with 480 KiB of rules each",
	seeds: func(w *world) []string { return w.urls("rules", numbered("n%d", rulesHosts)...) },
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, _ string) {
		links := []string{"/closed/a", "/open/1", "/%63losed/b", "/open/2", "/open/3"}
		if r.URL.Path != "/" {
			links = nil
		}
		writePage(rw, page(r.Host+r.URL.Path, links...))
	},
	robots:     func(_ *world, name string) string { return manyRules(name) },
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
			j.blame("rules: of %d hosts %d were not crawled, and %d asked for robots.txt more than twice (up to %d times)", rulesHosts, missed, again, most)
		}
	},
}

const (
	rulesHosts = 200
	rulesBytes = 480 << 10
)

// manyRules is another file for each name, in which the last rule closes what is closed.
func manyRules(name string) string {
	rng := rand.New(rand.NewPCG(hashOf(name), 2))
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for b.Len() < rulesBytes {
		n := rng.Uint64()
		for i := range 4 { // so that it can be packed somewhat: hosts are remembered on disk
			fmt.Fprintf(&b, "Disallow: /%x*%x\n", n, i)
		}
	}
	b.WriteString("Disallow: /closed/\n")
	return b.String()
}
