package link

import "testing"

func TestWithScheme(t *testing.T) {
	for written, want := range map[string]string{"example.org": "http://example.org", " https://a.example/ ": "https://a.example/", "a.example:8080/x": "http://a.example:8080/x"} {
		if got := WithScheme(written); got != want {
			t.Errorf("%q: %q, want %q", written, got, want)
		}
	}
}
