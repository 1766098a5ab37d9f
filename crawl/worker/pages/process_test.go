package pages

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestContent checks what is a change of a page's content. The values are stored by owners and
// computed by all peers, so they must not change.
func TestContent(t *testing.T) {
	links := []link.Link{{URL: "http://a.example/1"}, {URL: "http://a.example/2", Kind: link.KindRequisite}}
	reversed := slices.Clone(links)
	slices.Reverse(reversed)
	one, other := sha256.Sum256([]byte("1")), sha256.Sum256([]byte("2"))
	of := func(text uint64, found []link.Link, body [32]byte, size int) uint64 {
		content, _ := contentOf(&extract.Page{Text: text, Links: found}, body, size)
		return content
	}
	html := of(7, links, one, 9)
	for _, tt := range []struct {
		name string
		got  uint64
		same bool // as html
	}{
		{"other body", of(7, links, other, 9), true},
		{"other order of links", of(7, reversed, one, 9), true},
		{"other text", of(8, links, one, 9), false},
		{"link gone", of(7, links[:1], one, 9), false},
		{"no HTML", of(0, links, one, 9), false},
	} {
		if (tt.got == html) != tt.same || tt.got == 0 {
			t.Errorf("%s: %x, with %x before", tt.name, tt.got, html)
		}
	}
	if html != 0xd22231aa8b15fb57 {
		t.Errorf("HTML: %#x", html)
	}
	if got := of(0, nil, one, 1); got != 0x6b86b273ff34fce1 {
		t.Errorf("no HTML: %#x, want the start of the SHA-256", got)
	}
	if got := of(0, nil, [32]byte{}, 1); got != 1 {
		t.Errorf("digest that begins with zeros: %d, want 1", got)
	}
	if got := of(0, nil, one, 0); got != 0 {
		t.Errorf("no body: %d, want 0", got)
	}
}

// BenchmarkContent is the cost of the content digest of a page with 150 links.
func BenchmarkContent(b *testing.B) {
	found := extract.Page{Text: 7}
	for i := range 150 {
		found.Links = append(found.Links, link.Link{URL: fmt.Sprintf("http://a.example/library/page%d.html", i)})
	}
	for b.Loop() {
		contentOf(&found, [32]byte{}, 9)
	}
}

// TestRecordUUID reads what an archive calls a record.
func TestRecordUUID(t *testing.T) {
	for _, tt := range []struct {
		urn  string
		want string
	}{
		{"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"},
		{"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0", ""},
		{"urn:uuid:0001020g-0405-0607-0809-0a0b0c0d0e0f", ""},
		{"00010203-0405-0607-0809-0a0b0c0d0e0f", ""},
		{"", ""},
	} {
		if got := recordUUID(tt.urn); string(got) != tt.want {
			t.Errorf("%q: %x", tt.urn, got)
		} else if tt.want != "" && recordURN(got) != tt.urn {
			t.Errorf("%q: %s", tt.urn, recordURN(got))
		}
	}
}

// TestOnlyText: what a message cannot hold of a site's answer is left out, and does not keep the
// rest from being sent.
func TestOnlyText(t *testing.T) {
	if got := short("\xe4"); got != "" {
		t.Errorf("a tag that is no text: %q", got)
	}
	if got := short("ä"); got != "ä" {
		t.Errorf("a tag: %q", got)
	}
	if got := short(extract.MediaType("text/\xe4; charset=x")); !utf8.ValidString(got) {
		t.Errorf("a type: %q", got)
	}
}
