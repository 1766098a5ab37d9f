package worker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestLargeRules: the rules of many hosts with files of 500 KiB take bounded memory, and all of them are kept to.
func TestLargeRules(t *testing.T) {
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
		most := 0
		inner := x.deps.Events
		x.worker.deps.Events = func(e Event) {
			inner(e)
			x.worker.mu.Lock()
			defer x.worker.mu.Unlock()
			sum := 0
			for _, h := range x.worker.hosts {
				for _, o := range h.origins {
					if !h.running {
						sum += o.rules.Size()
					}
				}
			}
			x.worker.rules.mu.Lock()
			defer x.worker.rules.mu.Unlock()
			for _, m := range x.worker.rules.list {
				sum += m.rules.Size()
			}
			if x.worker.rules.bytes > mostRules {
				t.Errorf("%d bytes of rules are counted", x.worker.rules.bytes)
			}
			most = max(most, sum)
		}
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 2*hosts || got[link.OutcomeRobotsDenied] != 2*hosts {
			t.Errorf("outcomes %v", got)
		}
		if most == 0 || most > mostRules {
			t.Errorf("rules of %d bytes were kept, want some and at most %d", most, mostRules)
		}
	})
}
