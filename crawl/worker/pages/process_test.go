package pages

import (
	"testing"
	"unicode/utf8"

	"github.com/apoidea/apoidea/crawl/extract"
)

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
