package words

import (
	"bytes"
	"math"
	"testing"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, [][]string{{"A", "B", "C"}, {"1", "not running", ""}, {"22", "idle", "x"}}); err != nil {
		t.Fatal(err)
	}
	if want := "A   B            C\n1   not running\n22  idle         x\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestSmallWords(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(1023): "1023 B", Bytes(1024): "1.0 KiB", Bytes(51_600_000): "49.2 MiB", Bytes(3 << 40): "3.0 TiB",
		Rate(999): "999 B/s", Rate(250_000): "250.0 kB/s", Rate(3e9): "3.0 GB/s",
		Seconds(0): "0s", Seconds(-3): "0s", Seconds(math.NaN()): "0s", Seconds(1e300): "over 100 years", Seconds(math.Inf(1)): "over 100 years",
		Seconds(61.26): "1m1.3s", Short("12D3KooWabcdefgh"): "abcdefgh", Short("tiny"): "tiny",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "abc", 3},
		{"delay", "delay", 0},
		{"dealy", "delay", 2},
		{"kitten", "sitting", 3},
		{"max-deptth", "max-depth", 1},
	} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := editDistance(c.b, c.a); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestSingular(t *testing.T) {
	for text, want := range map[string]string{
		"1 pages, 1 duplicates, 11 hosts, 21 peers": "1 page, 1 duplicate, 11 hosts, 21 peers",
		"3s: 1 pages (0.1 pages); 1,001 links":      "3s: 1 page (0.1 pages); 1,001 links",
		"1 members known":                           "1 member known",
		"1 pages":                                   "1 page",
		"1 records, 1 distinct URLs":                "1 record, 1 distinct URL",
	} {
		if got := Singular(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestWrap checks where lines break, and that a word stays whole.
func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		line          string
		indent, width int
		want          string
	}{
		{"key  one two three", 5, 0, "key  one two three"},
		{"one two three", 0, 0, "one two three"},
		{"key  one two three", 5, 18, "key  one two three"},
		{"key  one two three", 5, 12, "key  one two\n     three"},
		{"key  äöü äöü äöü", 5, 12, "key  äöü äöü\n     äöü"},
		{"key  averyverylongword", 5, 12, "key  averyverylongword"},
		{"a long first column  one two", 21, 24, "a long first column  one two"},
	} {
		if got := Wrap(tt.line, tt.indent, tt.width); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.line, tt.width, got, tt.want)
		}
	}
}
