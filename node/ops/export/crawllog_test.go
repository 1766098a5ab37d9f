package export

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
)

// TestCrawlLog: the columns of Heritrix, sorted by time, whatever a site put into a field.
func TestCrawlLog(t *testing.T) {
	src := &listed1{ring: world(t), lines: []control.URLLine{
		{
			URL: "http://a.example/", Outcome: "ok", Status: 200, Size: 21, MIME: "text/html", DurationMs: 1500, Fetched: "2026-11-29T01:59:59.250Z", Holder: "p1",
			Digest: "sha256:ab", Kind: "page", Tries: 1,
		},
		{URL: "http://a.example/x", Outcome: "robots_denied", Kind: "page", Depth: 3, Via: "http://a.example/", HopPath: "LLL", Seed: "http://a.example/"},
		{
			URL: "http://a.example/y", Outcome: "http_error", Status: 404, MIME: "text/html x\ty", Fetched: "2026-11-29T01:59:58.000Z", Holder: "p1", Via: "http://a.example/ b",
			Depth: 1, Detail: "one, two\nthree",
		},
		{URL: "http://b.example/", Outcome: "dns", Status: 3, Depth: 1, MIME: "a\x1b[31m\u009b\xff"},
	}}
	var b bytes.Buffer
	r, err := Run(t.Context(), src, Options{What: CrawlLog, Stream: &b})
	if err != nil || !r.Complete || r.Records != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := strings.Join([]string{
		"- -1 - http://b.example/ - - a\\x1b[31m\\u009b\ufffd - - - - dns",
		"- -9998 - http://a.example/x LLL http://a.example/ - - - - http://a.example/ robots_denied",
		"2026-11-29T01:59:58.000Z 404 0 http://a.example/y - http://a.example/%20b text/html%20x%20y p1 20261129015958000+0 - - http_error,detail:one;%20two%20three",
		"2026-11-29T02:00:00.750Z 200 21 http://a.example/ - - text/html p1 20261129015959250+1500 sha256:ab http://a.example/ ok,2t",
		"",
	}, "\n")
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	for line := range strings.Lines(b.String()) {
		if n := len(strings.Fields(line)); n != 12 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for o := range link.Outcome(link.Outcomes) { // each has a status, of its own answer or of the table
		answered := o == link.OutcomeOK || o == link.OutcomeDuplicate || o == link.OutcomeRedirect || o == link.OutcomeTooLarge || o == link.OutcomeNoIndex || o == link.OutcomeTooManyRedirects
		if _, ok := unfetchedStatus[o]; ok == answered {
			t.Errorf("%s: in the table %v", o, ok)
		}
	}
}
