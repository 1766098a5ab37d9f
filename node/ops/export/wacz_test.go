package export

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/ops/export/text"
)

func TestPageTitle(t *testing.T) {
	const utf8 = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
	for _, tt := range []struct{ name, head, body, want string }{
		{"plain", utf8, "<html><head><title>Title</title>", "Title"},
		{"white space and references", utf8, "<TITLE lang=en>\n  A &amp;\tB </TITLE>", "A & B"},
		{"none", utf8, "<p>text", ""},
		{"empty", utf8, "<title></title><title>second</title>", "second"},
		{"charset of the header", strings.Replace(utf8, "utf-8", "windows-1251", 1), "<title>\xcf\xf0\xe8\xe2\xe5\xf2</title>", "Привет"},
		{"charset of the page", "HTTP/1.1 200 OK\r\n\r\n", "<meta charset=iso-8859-1><title>caf\xe9</title>", "café"},
		{"too long", utf8, "<title>" + strings.Repeat("é", 400) + "</title>", strings.Repeat("é", 250)},
		{"no head", "", "<title>Title</title>", "Title"},
		{"too late", utf8, strings.Repeat("x", titleWithin) + "<title>Title</title>", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := pageTitle([]byte(tt.head), strings.NewReader(tt.body)); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzPageTitle(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), "<title>a</title>")
	f.Fuzz(func(t *testing.T, head []byte, body string) {
		if title := pageTitle(head, strings.NewReader(body)); len(title) > text.MaxTitleBytes || strings.ContainsAny(title, "\r\n") {
			t.Errorf("%q", title)
		}
	})
}
