package link

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// spots are the places of a URL at which TestEveryCodePoint puts a character (@).
var spots = []string{
	"http://@/",
	"http://a@_~&.example/", // what the standard allows in hosts beside letters has a branch of its own in the parser
	"https://1.2.3@/",
	"http://@:@\x00a.example/x@/%2@?y@%",
}

// TestEveryCodePoint: whatever a URL is made of, it is refused at once, or its canonical form is
// its own and its host is one that others take.
func TestEveryCodePoint(t *testing.T) {
	unraced(t)
	everyCodePoint(t, 1)
}

// TestManyCodePoints is TestEveryCodePoint where characters hardly differ from their neighbours:
// few of those.
//
// Slow: parses a URL for each of thousands of characters at many places.
func TestManyCodePoints(t *testing.T) {
	step := rune(97)
	if os.Getenv("APOIDEA_FULL") == "" {
		step = 997
	}
	everyCodePoint(t, step)
}

// unraced skips what takes long and what the race detector could say nothing of.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}

func everyCodePoint(t *testing.T, step rune) {
	t.Helper()
	const chunk = 0x1000
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for begin := rune(0); begin <= utf8.MaxRune; begin += chunk {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for r := begin; r < min(begin+chunk, utf8.MaxRune+1); {
				for _, spot := range spots {
					parts := strings.SplitN(spot, "\x00", 2)
					raw := strings.ReplaceAll(parts[0], "@", string(r))
					if len(parts) == 2 { // an at sign that stays
						raw += "@" + strings.ReplaceAll(parts[1], "@", string(r))
					}
					checkStable(t, raw)
				}
				if r < 0x3400 || 0xf900 <= r && r < 0x12000 || 0x1d000 <= r && r < 0x20000 {
					r++
				} else {
					r += step // ideographs, syllables, what is unassigned or private
				}
			}
		})
	}
	all.Wait()
}

// checkStable fails the test if a URL is taken once and is not what it became.
func checkStable(t *testing.T, raw string) {
	t.Helper()
	url, err := Canonical(raw)
	if err != nil {
		if !errors.Is(err, ErrNotCrawlable) && !errors.Is(err, ErrTooLong) {
			t.Errorf("%q: %v", raw, err)
		}
		return
	}
	if again, err := Canonical(url); err != nil || again != url {
		t.Errorf("%q: once %q, twice %q, %v", raw, url, again, err)
	}
	for i := range len(url) {
		if url[i] <= ' ' || url[i] >= 0x7f {
			t.Errorf("%q: %q is not of visible ASCII", raw, url)
			break
		}
	}
}

// TestStable: what single characters do not show.
func TestStable(t *testing.T) {
	for _, raw := range []string{
		"http://\u0130_~&/", "http://\u2260/", "http://a\u226e.example/", "http://\u226f\u226f/", "http://xn--1ch/", "http://xn--gdh/",
		"http://+1.2.3.4/", "http://1.2.3.+4/", "http://1.-2.3.4/", "http://-1/", "http://+1/", "http://-1./", "http://0x-1/", "http://0x+7f.1/", "http://0-1/", "http://0+17/",
		"http://a.-1/", "http://%2B1.2.3.4/", "http://%2d1/", "http://\uff0b1.2.3.4/", "http://\uff0b\uff11/", "http://1\u3002\uff0b2/", "http://0\u00ad-1/",
		"http://[[::1]]/", "http://[::1]]/", "http://[[::1]/", "http://[+1::]/", "http://[::+1.2.3.4]/", "http://[fe80::1%25eth0]/", "http://[::%31]/",
		"http://a\u202eb.example/", "http://\u05d0a.example/", "http://a\u05d0.example/", "http://\u200d.example/", "http://a\u200cb.example/",
		"http://" + strings.Repeat("\u00fc", 60) + ".example/", "http://" + strings.Repeat("\u4e00\u4e8c", 40) + "/", "http://a%00.example/", "http://a%2fb.example/",
		"http://a%25b.example/", "http://a\uff05b.example/", "http://a%ef%bc%85b/", "http://%zz/", "http://%/", "http://%ff/", "http://xn--/", "http://xn--a-/", "http://xn--\u00fc/",
	} {
		if url, err := Canonical(raw); !errors.Is(err, ErrNotCrawlable) {
			t.Errorf("%q became %q, %v", raw, url, err)
		}
	}
	for raw, want := range map[string]string{
		"http://-1.example/":                                       "http://-1.example/",
		"http://1-2.example/":                                      "http://1-2.example/",
		"http://a+b.example/":                                      "http://a+b.example/",
		"http://0x7f.1/":                                           "http://127.0.0.1/",
		"http://0x/":                                               "http://0.0.0.0/",
		"http://XN--BCHER-KVA.example/":                            "http://xn--bcher-kva.example/",
		"http://xn--bcher-KVA.Example/":                            "http://xn--bcher-kva.example/",
		"http://b\u00dccher.example/":                              "http://xn--bcher-kva.example/",
		"http://bu\u0308cher.example/":                             "http://xn--bcher-kva.example/",
		"http://b%C3%BCcher.example/":                              "http://xn--bcher-kva.example/",
		"http://b%c3%bccher%2Eexample/":                            "http://xn--bcher-kva.example/",
		"http://\uff41\uff0eexample/":                              "http://a.example/",
		"http://a\u3002example/":                                   "http://a.example/",
		"http://\uff11\uff0e2.3.4/":                                "http://1.2.3.4/",
		"http://\uff58n--bcher-kva.example/":                       "http://xn--bcher-kva.example/",
		"http://a\u00ad.example/":                                  "http://a.example/",
		"http://fa\u00df.example/":                                 "http://xn--fa-hia.example/",
		"http://[::FFFF:1.2.3.4]/":                                 "http://[::ffff:102:304]/",
		"http://@@@u@:p@@a.example/@x":                             "http://a.example/@x",
		"http:///\t/u:" + strings.Repeat("@", 5000) + "a.example/": "http://a.example/",
	} {
		if url, err := Canonical(raw); err != nil || url != want {
			t.Errorf("%q became %q, %v; want %q", raw, url, err, want)
		}
	}
}

// TestPairsOfMarks: two characters that join, move or hide each other, in the middle of a name and
// at its ends.
func TestPairsOfMarks(t *testing.T) {
	unraced(t)
	var odd []rune
	for _, span := range [][2]rune{
		{0x300, 0x36f},
		{0x483, 0x489},
		{0x591, 0x5c7},
		{0x610, 0x61a},
		{0x64b, 0x65f},
		{0x93c, 0x94d},
		{0x1160, 0x1164},
		{0x11a8, 0x11ac},
		{0x1dc0, 0x1dc8},
		{0x200b, 0x200f},
		{0x202a, 0x202e},
		{0x2060, 0x206f},
		{0x20d0, 0x20d6},
		{0x302a, 0x302f},
		{0x3099, 0x309c},
		{0xfe00, 0xfe0f},
		{0xfe20, 0xfe2f},
		{0xff65, 0xff65},
		{0xff9e, 0xff9f},
	} {
		for r := span[0]; r <= span[1]; r++ {
			odd = append(odd, r)
		}
	}
	odd = append(odd, 'a', '1', '-', '.', '%', '+', 0xad, 0x34f, 0x5d0, 0x627, 0x661, 0x6f1, 0x7ca, 0x915, 0xac00, 0x1100, 0x3002, 0xff0e, 0xff61, 0xff05, 0xff11, 0x130, 0x2135, 0x2260, 0x1d165, 0xe0100)
	for _, first := range odd {
		for _, second := range odd {
			checkStable(t, "http://"+string(first)+string(second)+".example/")
			checkStable(t, "http://a"+string(first)+string(second)+"a/")
		}
	}
}

// TestLongHostsCostLittle: hosts and credentials on which the parser would work for a tenth of a
// second each, and a page has thousands of links, do not come to it.
func TestLongHostsCostLittle(t *testing.T) {
	var each strings.Builder
	for r := rune(0x4e00); r < 0x4e00+2700; r++ {
		each.WriteRune(r)
	}
	for name, raw := range map[string]string{
		"every ideograph": "http://" + each.String() + "/", "at signs": "http://" + strings.Repeat("\u00fc@", 2600) + "a/", "colons": "http://" + strings.Repeat("\u00fc:", 2600) + "@a/",
		"escapes": "http://" + strings.Repeat("%C3%BC", 1300) + "/", "without slashes": "http:" + strings.Repeat("@", 8000) + "a",
	} {
		short, err := shorten([]byte(raw))
		if err == nil && len(short) > maxAuthority+len("http:///") {
			t.Errorf("%s: %d bytes come to the parser", name, len(short))
		}
	}
}
