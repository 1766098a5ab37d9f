package robots_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/apoidea/apoidea/crawl/robots"
)

// A body is parsed once for a crawler and asked for every URL.
func ExampleParse() {
	rules := robots.Parse([]byte(`
User-agent: *
Disallow: /

User-agent: apoidea
Disallow: /private/
Allow: /private/*.html$
Crawl-delay: 2

Sitemap: https://example.org/sitemap.xml
`), "apoidea")

	for _, path := range []string{"/", "/private/", "/private/bees.html", "/private/bees.html?all"} {
		fmt.Println(path, rules.Allowed(path))
	}
	delay, _ := rules.CrawlDelay()
	fmt.Println(delay, rules.Sitemaps())
	// Output:
	// / true
	// /private/ false
	// /private/bees.html true
	// /private/bees.html?all false
	// 2s [https://example.org/sitemap.xml]
}

// What follows when robots.txt cannot be had depends on why.
func ExampleFromFetch() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, status := range []int{http.StatusOK, http.StatusNotFound, http.StatusInternalServerError} {
		state := robots.FromFetch(robots.Answer{Status: status, Body: []byte("User-agent: *\nDisallow: /x\n")}, now, nil)
		fmt.Println(status, state.Verdict, state.Allowed("apoidea", "/y"), "for", state.Expires.Sub(now))
	}
	// Output:
	// 200 obey true for 24h0m0s
	// 404 allow_all true for 24h0m0s
	// 500 disallow_all false for 5s
}
