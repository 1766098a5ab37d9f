package text

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// numbered repeats a format with the numbers from 0.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostilePages checks that pages which make trees of a multiple of their size, or are slow,
// take limited memory and time.
func TestHostilePages(t *testing.T) {
	bold := "<p>" + numbered("<b id=%d>", 400) + "</p>"
	paragraphs := strings.Repeat("<p>x</p>", 20_000) // 8 million elements with 400 styles in each
	for name, doc := range map[string]string{
		"inline styles in each paragraph":  bold + paragraphs,
		"inline styles of SVG":             "<p><svg><title>" + bold + "</title></svg></p>" + paragraphs,
		"inline styles in CDATA":           "<p><svg><![CDATA[>" + bold + "]]></svg></p>" + paragraphs,
		"inline styles in raw text of SVG": "<p><svg><xmp>" + bold + "</xmp><style>" + bold + "</style></svg>" + paragraphs,
		"links in each paragraph":          "<p>" + numbered("<a id=%d>", 400) + "</p>" + paragraphs,
		"links in tables":                  numbered("<table><a id=%d><td><p>", 400) + paragraphs,
		"deep":                             strings.Repeat("<div>", 200_000) + "text",
		"deep links":                       strings.Repeat("<div><a>", 250) + strings.Repeat("<p>x</a><a>", 10_000),
		"giant attribute":                  `<p class="` + strings.Repeat("content ", 60_000) + `">text`,
		"many attributes":                  "<p " + numbered("a%d ", 200_000) + ">text",
		"breaks":                           "<div>" + strings.Repeat("<br>x", 40_000),
		"break after break":                "<div>" + strings.Repeat("<br>", 90_000),
		"commas":                           "<p>" + strings.Repeat(",", 1<<20),
		"nested tables":                    strings.Repeat("<table><tr><td>", 120) + strings.Repeat("<table><tr><td>x</table>", 2_000),
		"nested lists":                     strings.Repeat("<ul><li>", 200) + strings.Repeat("<li>x", 8_000),
		"no end of a tag":                  strings.Repeat("<p a=", 300_000),
		"no end of a comment":              strings.Repeat("<!--", 300_000),
		"scripts":                          strings.Repeat("<script><!--", 100_000),
		"references":                       strings.Repeat("&notit;&", 200_000),
		"templates":                        strings.Repeat("<template>", 100_000) + "text",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			var x Extractor
			page, err := x.Page("text/html", []byte(doc), true)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if page == nil {
				t.Fatal(err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 || took > 10*time.Second {
				t.Errorf("%d bytes allocated, %s, error %v", used, took, err)
			} else {
				t.Logf("%d MiB allocated, %s, error %v", used>>20, took, err)
			}
		})
	}
}
