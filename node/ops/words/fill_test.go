package words

import "testing"

func TestFill(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"paragraphs":     {"one two three four\nfive\n\nsix", "one two three\nfour five\n\nsix"},
		"columns":        {"  ab  one two three four\n  c   five", "  ab  one two\n      three\n      four\n  c   five"},
		"indented alone": {"  one two three four", "  one two\n  three four"},
		"one long word":  {"https://a.example/", "https://a.example/"},
		"wide letters":   {"déjà déjà déjà déjà", "déjà déjà déjà\ndéjà"},
	} {
		if got := Fill(c.text, 14); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
