package traptest

import (
	"bytes"
	"html"
	"net/http"
	"os"
	"regexp"
	"testing"
)

const (
	scale = 20
	// most URLs of a real site at the scale of the test, and pages of an endless one that are read.
	most  = 12_000
	pages = 3000
)

var href = regexp.MustCompile(`href="([^"]*)"`)

// walk reads a site from its start, to so many URLs; it fails on an answer that is an error.
func walk(t *testing.T, s Site, most int) map[string]bool {
	known, queue := map[string]bool{s.Start: true}, []string{s.Start}
	for i := 0; i < len(queue); i++ {
		answer := s.Get(queue[i])
		var found []string
		switch answer.Status {
		case http.StatusOK:
			for _, m := range href.FindAllSubmatch(answer.Body, -1) {
				found = append(found, html.UnescapeString(string(m[1])))
			}
		case http.StatusFound:
			found = []string{answer.Location}
		default:
			t.Fatalf("%s: %s answers %d", s.Name, queue[i], answer.Status)
		}
		for _, url := range found {
			if url == "" || url[0] != '/' {
				t.Fatalf("%s: %s leads to %q", s.Name, queue[i], url)
			}
			if !known[url] && len(known) < most {
				known[url] = true
				queue = append(queue, url)
			}
		}
	}
	return known
}

func TestReal(t *testing.T) {
	for _, s := range Real(scale) {
		t.Run(s.Name, func(t *testing.T) {
			known, own := walk(t, s, most), make(map[string]bool)
			for url := range s.Own {
				if own[url] {
					t.Errorf("%s is named twice", url)
				}
				own[url] = true
				if !known[url] {
					t.Errorf("no link leads to %s", url)
				}
			}
			if len(known) == most || len(own) < least {
				t.Errorf("%d URLs, %d own", len(known), len(own))
			}
			t.Logf("%d URLs, %d own", len(known), len(own))
			if s.Get("/no/such/page/here").Status != http.StatusNotFound {
				t.Error("every path is there")
			}
		})
	}
}

// Slow: generates thousands of pages.
func TestEndless(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	for _, s := range Endless() {
		if n := len(walk(t, s, pages)); n < pages {
			t.Errorf("%s ends after %d URLs", s.Name, n)
		}
		if s.Own != nil {
			t.Errorf("%s has pages of its own", s.Name)
		}
	}
}

// Sites made twice answer the same, and so does one that is asked in another order.
func TestDeterministic(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	again := append(Real(scale), Endless()...)
	for i, s := range append(Real(scale), Endless()...) {
		urls := walk(t, s, 200)
		for url := range urls {
			if !bytes.Equal(s.Get(url).Body, again[i].Get(url).Body) {
				t.Fatalf("%s: %s says now this, now that", s.Name, url)
			}
		}
	}
}
