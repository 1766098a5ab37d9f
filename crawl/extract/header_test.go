package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestManyLinkHeaders: the links of Link headers are few, however they come, and the others are
// told; those of the body are none of them.
func TestManyLinkHeaders(t *testing.T) {
	one := func(i int, tail string) string { return fmt.Sprintf(`<https://a.example/%d%s>; rel=next`, i, tail) }
	for _, c := range []struct {
		name       string
		n          int
		tail       string
		together   bool
		kept, left int
	}{
		{"900 headers", 900, "", false, MaxHeaderLinks, 900 - MaxHeaderLinks},
		{"900 links of one", 900, "", true, MaxHeaderLinks, 900 - MaxHeaderLinks},
		{"long ones", 40, strings.Repeat("x", 2000), false, MaxHeaderLinkBytes / 2020, 40 - MaxHeaderLinkBytes/2020},
		{"a page in two hundred languages", 200, "/some/page.html?lang=xx", false, 200, 0},
		{"pages before and after, at long URLs", 4, strings.Repeat("y", 4000), true, 4, 0},
	} {
		var list []string
		for i := range c.n {
			list = append(list, one(100+i, c.tail))
		}
		if c.together {
			list = []string{strings.Join(list, ", ")}
		}
		header := http.Header{"Link": list, "Content-Type": {"text/html"}}
		var x Extractor
		var page Page
		if err := x.Document(&page, "https://a.example/", header, []byte(`<a href="/body">one</a>`), Options{}); err != nil {
			t.Fatal(err)
		}
		if len(page.Links) != c.kept+1 || page.LeftOut != c.left {
			t.Errorf("%s: %d links, %d left out", c.name, len(page.Links)-1, page.LeftOut)
		}
	}
}

// TestHeaderLinksInLatin1 keeps the bytes of URLs in headers that are not UTF-8.
func TestHeaderLinksInLatin1(t *testing.T) {
	header := http.Header{"Link": {"</caf\xe9>; rel=next"}, "Refresh": {"0; url=/m\xfcll"}, "Content-Type": {"text/html"}}
	var x Extractor
	var page Page
	if err := x.Document(&page, "https://a.example/", header, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	if len(page.Links) != 2 || page.Links[0].URL != "https://a.example/caf%E9" || page.Links[1].URL != "https://a.example/m%FCll" {
		t.Errorf("links %v", page.Links)
	}
}
