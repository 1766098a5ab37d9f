package extract

import (
	"net/http"
	"testing"
)

func TestRobotsTag(t *testing.T) {
	const noindex, nofollow = 1, 2
	for _, tc := range []struct {
		values []string
		want   int
	}{
		{[]string{"noindex"}, noindex},
		{[]string{"NoIndex , NOFOLLOW"}, noindex | nofollow},
		{[]string{"none"}, noindex | nofollow},
		{[]string{"noindex", "nofollow"}, noindex | nofollow},
		{[]string{"noindex nofollow"}, noindex | nofollow},
		{[]string{"noindex;nofollow"}, noindex | nofollow},
		{[]string{"noarchive\tnoindex|nofollow"}, noindex | nofollow},
		{[]string{`"noindex, nofollow"`}, noindex | nofollow},
		{[]string{"all", "index, follow", "noimageindex, nosnippet"}, 0},
		{[]string{"unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow"}, nofollow},
		{[]string{"unavailable_after: 25 Jun 2025 15:00:00 PST; noindex"}, noindex},
		{[]string{"unavailable_after: 2025-06-25T15:00:00+02:00 nofollow"}, nofollow},
		{[]string{"unavailable_after:25-Jun-25 15:00:00 UTC+2:00,nofollow"}, nofollow},
		{[]string{"Unavailable_After : 3:00 PM, noindex"}, noindex},
		{[]string{"otherbot: unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow"}, 0},
		{[]string{"otherbot: noindex"}, 0},
		{[]string{"otherbot: noindex, nofollow"}, 0},
		{[]string{"otherbot : noindex; nofollow"}, 0},
		{[]string{"360Spider: noindex"}, 0},
		{[]string{"Other Bot/2.0: none"}, 0},
		{[]string{"otherbot: noindex", "nofollow"}, nofollow},
		{[]string{"otherbot: noindex, apoidea: nofollow"}, nofollow},
		{[]string{"apoidea: nofollow, otherbot: noindex"}, nofollow},
		{[]string{"noindex, otherbot: nofollow"}, noindex},
		{[]string{"Apoidea/1.2:nofollow"}, nofollow},
		{[]string{"*: noindex"}, noindex},
		{[]string{"robots:noindex"}, noindex},
		{[]string{"noindex: true, nofollow"}, noindex | nofollow},
		{[]string{"max-image-preview: none"}, 0},
		{[]string{"max-image-preview:none, max-snippet: -1, noindex"}, noindex},
		{[]string{"max-snippet:20 nofollow"}, nofollow},
		{[]string{"", ",;:", "::::", ":noindex"}, noindex},
		{[]string{"noindexed, xnofollow, none-such"}, 0},
	} {
		var x Extractor
		var page Page
		if err := x.Document(&page, site, http.Header{"X-Robots-Tag": tc.values}, nil, Options{Agent: "apoidea"}); err != nil {
			t.Fatal(err)
		}
		got := 0
		if page.NoIndex {
			got |= noindex
		}
		if page.NoFollow {
			got |= nofollow
		}
		if got != tc.want {
			t.Errorf("%q: %d, want %d", tc.values, got, tc.want)
		}
	}
}

func TestMetaRobots(t *testing.T) {
	for html, want := range map[string]Page{
		`<meta name=robots content="unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow">`: {NoFollow: true},
		`<meta name=robots content="noindex nofollow">`:                                           {NoIndex: true, NoFollow: true},
		`<meta name=robots content="noindex;nofollow">`:                                           {NoIndex: true, NoFollow: true},
		`<meta name=" Robots " content="NONE">`:                                                   {NoIndex: true, NoFollow: true},
		`<meta name=robots content="max-image-preview: none">`:                                    {},
		`<meta name=otherbot content="noindex"><meta name=apoidea content="nofollow">`:            {NoFollow: true},
		`<meta http-equiv="X-Robots-Tag" content="otherbot: noindex, apoidea: nofollow">`:         {NoFollow: true},
		`<meta name=robots content="noindex"><meta name=robots content="nofollow">`:               {NoIndex: true, NoFollow: true},
	} {
		var x Extractor
		var page Page
		if err := x.HTML(&page, site, "text/html", []byte(html), Options{Agent: "apoidea"}); err != nil {
			t.Fatal(err)
		}
		if page.NoIndex != want.NoIndex || page.NoFollow != want.NoFollow {
			t.Errorf("%s: noindex %v, nofollow %v", html, page.NoIndex, page.NoFollow)
		}
	}
}

func TestContentType(t *testing.T) {
	for _, tc := range []struct {
		values        []string
		kind, charset string
	}{
		{nil, "", ""},
		{[]string{"text/html"}, "text/html", ""},
		{[]string{"text/html, text/html; charset=utf-8"}, "text/html", "utf-8"},
		{[]string{"text/html; charset=utf-8, text/html"}, "text/html", "utf-8"},
		{[]string{"text/html;charset=koi8-r", "text/html"}, "text/html", "koi8-r"},
		{[]string{"text/html;charset=koi8-r", "text/html;charset=utf-8"}, "text/html", "utf-8"},
		{[]string{"text/plain;charset=koi8-r", "text/html"}, "text/html", ""},
		{[]string{"text/html", "*/*", "", "nonsense"}, "text/html", ""},
		{[]string{`text/html; x="a, text/plain; y=\"b"; charset="utf-8", */*`}, "text/html", "utf-8"},
		{[]string{"application/pdf,text/html"}, "text/html", ""},
		{[]string{",,"}, "", ""},
	} {
		got := ContentType(http.Header{"Content-Type": tc.values})
		if MediaType(got) != tc.kind || headerCharset(got) != tc.charset {
			t.Errorf("%q: %q; want %q of %q", tc.values, got, tc.kind, tc.charset)
		}
	}
}
