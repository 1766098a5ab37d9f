package trap

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
)

// realScale divides the pages of real sites.
func realScale() int {
	if os.Getenv("APOIDEA_FULL") == "" {
		return 10
	}
	return 1
}

const made = "http://site.example"

// served has the pages of a made-up site crawled as those of the tables here are.
func served(from *traptest.Site) site {
	return site{name: from.Name, answer: func(path string) traptest.Answer { return from.Get(path) }, start: from.Start}
}

// TestRealSites: each page of a real site that says something of its own is fetched.
func TestRealSites(t *testing.T) {
	for _, from := range traptest.Real(realScale()) {
		t.Run(from.Name, func(t *testing.T) {
			t.Parallel()
			got := crawl(t, served(&from), 1_000_000)
			own, lost := 0, 0
			var first string
			for path := range from.Own {
				if own++; !got.got[made+path] {
					if lost++; first == "" {
						first = path
					}
				}
			}
			t.Logf("%d of %d own pages, %d asked, %d left; %s", own-lost, own, got.asked, got.stopped, got.why)
			if lost > 0 {
				t.Errorf("%d of %d pages lost, %s the first", lost, own, first)
			}
		})
	}
}

// TestEndlessSites: sites without new texts end within 6,000 requests.
func TestEndlessSites(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	random := strings.Fields("labyrinth markov near search") // a text for each page: only a budget ends them
	for _, from := range traptest.Endless() {
		if slices.Contains(random, from.Name) {
			continue
		}
		t.Run(from.Name, func(t *testing.T) {
			t.Parallel()
			most := 6000
			if from.Name == "calendar" {
				most = 12_000 // two directions, 29 pages a month, 200 links deep
			}
			got := crawl(t, served(&from), 15_000)
			t.Logf("%d asked, %d left: %s", got.asked, got.stopped, got.why)
			if got.asked > most || got.stopped == 0 {
				t.Errorf("%d pages asked for, %d left; want at most %d, and some left", got.asked, got.stopped, most)
			}
		})
	}
}

// get answers as a made-up site does.
func (s *site) get(url, path, query string) (body string, header http.Header, a traptest.Answer) {
	if s.answer != nil {
		if query != "" {
			path = fmt.Sprint(path, "?", query)
		}
		a = s.answer(path)
		return string(a.Body), http.Header{"Content-Type": {a.Type}}, a
	}
	body, ok := s.page(seeded(url), path, query)
	a = traptest.Answer{Status: 200, Type: "text/html; charset=utf-8"}
	if !ok {
		a.Status = 404
	} else if s.plain != nil && s.plain(path) {
		a.Type = "text/plain"
	}
	return body, http.Header{"Content-Type": {a.Type}}, a
}
