package text

import "testing"

// TestControlCharacters: neither a title nor a main text controls a terminal.
func TestControlCharacters(t *testing.T) {
	if got := Title([]byte("<title>a\x1b[31m\u009bb</title>")); got != "a[31mb" {
		t.Errorf("%q", got)
	}
	if got := printable("a\x1b\tb\n\x7fc"); got != "a\tb\nc" {
		t.Errorf("%q", got)
	}
}
