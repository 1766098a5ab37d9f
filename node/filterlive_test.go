package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/node/control"
)

// TestFilteredWalk: one peer and eight fetch what a walk over the same web comes to that asks for
// nothing else; redirects, robots.txt and sitemaps included.
func TestFilteredWalk(t *testing.T) {
	page := func(u string) string { return u[strings.LastIndex(u, ":")+6:] } // behind the port of five digits
	for _, row := range []struct {
		name   string
		spec   control.JobSpec
		admits func(u string, depth int) bool
	}{
		{
			"expression",
			control.JobSpec{Include: []string{`re:/[^/]*[0-46-9]\.html$`}},
			func(u string, depth int) bool { return depth == 0 || !strings.HasSuffix(u, "5.html") && page(u) != "/" },
		},
		{
			"paths",
			control.JobSpec{Exclude: []string{"h1.web.localhost/*7", "h2.*/*$"}},
			func(u string, _ int) bool {
				return !strings.HasPrefix(u, "http://h2.") && !(strings.HasPrefix(u, "http://h1.") && strings.Contains(page(u), "7"))
			},
		},
		{
			"depths",
			control.JobSpec{HostDepths: []control.HostDepth{{Host: "h0.web.localhost", Depth: 1}, {Host: "h?.web.localhost", Depth: 2}}},
			func(u string, depth int) bool { return depth <= 1 || depth == 2 && !strings.HasPrefix(u, "http://h0.") },
		},
	} {
		for _, peers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, %d peers", row.name, peers), func(t *testing.T) {
				t.Parallel()
				web := serveWeb(t, func(c *webgen.Config) { c.RedirectShare = 0.2 })
				ring := ringOf(t, peers, func(_ int, c *Config) { c.LeaseTTL = 30 * time.Second })
				spec := row.spec
				spec.URLs, spec.Scope = web.Seeds(web.port)[:2], []string{"*.web.localhost"}
				crawlAll(t, ring[0], spec)
				walk := webtruth.Walk{Port: web.port, Seeds: []int{0, 1}, Everywhere: true, MaxDepth: -1, Admits: row.admits}
				right := webtruth.Of(web, walk).URLs
				walk.Admits = nil
				if all := webtruth.Of(web, walk).URLs; len(right) == len(all) || len(right) < 10 {
					t.Errorf("the walk comes to %d pages of %d", len(right), len(all))
				}
				diff(t, fetchedURLs(t, ring[len(ring)-1]), right)
				checkAudit(t, web, ring...)
			})
		}
	}
}
