package worker

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
)

// TestLargeRules: the rules of many hosts with files of 500 KiB take bounded memory, and all of
// them are kept to.
//
// Slow: parses 24 robots.txt files of 480 KiB.
func TestLargeRules(t *testing.T) {
	unraced(t)
	crawltest.Bubble(t, func(t *testing.T) {
		const hosts = 24
		var file strings.Builder
		file.WriteString("User-agent: *\n")
		for i := 0; file.Len() < 480<<10; i++ {
			fmt.Fprintf(&file, "Disallow:/x%d*y\n", i)
		}
		file.WriteString("Disallow: /closed\n")
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(rw, file.String())
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintln(rw, r.Host, r.URL.Path, "<a href=/closed/1></a><a href=/open></a><a href=/x7/y></a>")
		}, manyHosts(hosts))
		most := x.watchShelf()
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 2*hosts || got[link.OutcomeRobotsDenied] != 2*hosts {
			t.Errorf("outcomes %v", got)
		}
		if most.rules == 0 || most.rules > 8<<20 {
			t.Errorf("rules of %d bytes were kept, want some and at most 8 MiB", most.rules)
		}
	})
}

// TestManyLargeFiles: so many hosts have files of 480 KiB that are not to be packed that there is
// no room for all. Those without room wait; few files are asked for again, and all are kept to.
//
// Slow: parses 60 robots.txt files of 480 KiB.
func TestManyLargeFiles(t *testing.T) {
	unraced(t)
	crawltest.Bubble(t, func(t *testing.T) {
		const hosts = 60
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(rw, "User-agent: *\nDisallow: /closed\n")
				for rng, n := rand.New(rand.NewPCG(uint64(len(r.Host)), uint64(r.Host[1]))), 0; n < 480<<10; {
					k, _ := fmt.Fprintf(rw, "Disallow: /%x%x%x%x\n", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64())
					n += k
				}
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintln(rw, r.Host, r.URL.Path, "<a href=/closed/1></a><a href=/open></a>")
		}, manyHosts(hosts))
		most := x.watchShelf()
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 2*hosts || got[link.OutcomeRobotsDenied] != hosts {
			t.Errorf("outcomes %v", got)
		}
		if most.states < 8<<20 || most.states > 24<<20+8*robots.MaxBody {
			t.Errorf("files of %d bytes were kept, want many and not much over 24 MiB", most.states)
		}
		sum := 0
		for i := range hosts {
			n := x.asked[fmt.Sprintf("http://h%d.example/robots.txt", i)]
			if sum += n; n > 3 {
				t.Errorf("robots.txt of host %d was asked for %d times", i, n)
			}
		}
		if sum > hosts+hosts/2 {
			t.Errorf("robots.txt of %d hosts was asked for %d times", hosts, sum)
		}
		if _, states, rules := x.worker.visits.Weight(); states != 0 || rules != 0 {
			t.Errorf("%d bytes of files and %d of rules are counted when no host is left", states, rules)
		}
	})
}

// shelved is what was kept of robots.txt at most.
type shelved struct{ states, rules int }

// watchShelf looks at what is kept whenever there is an outcome.
func (x *world) watchShelf() *shelved {
	var most shelved
	inner := x.worker.deps.Events
	x.worker.deps.Events = func(e Event) {
		inner(e)
		w := x.worker
		w.mu.Lock()
		defer w.mu.Unlock()
		_, states, rules := w.visits.Weight()
		most.states, most.rules = max(most.states, states), max(most.rules, rules)
	}
	return &most
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
