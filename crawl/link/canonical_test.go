package link

import (
	"errors"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"as it is", "https://a.example/b/c.html?d=e", "https://a.example/b/c.html?d=e"},
		{"empty path", "http://a.example", "http://a.example/"},
		{"query without path", "http://a.example?x", "http://a.example/?x"},
		{"empty query stays", "http://a.example/?", "http://a.example/?"},
		{"fragment", "http://a.example/x#y?z", "http://a.example/x"},
		{"fragment behind host", "http://a.example#y", "http://a.example/"},
		{"white space", " \t\nhttp://a.example/x y\n", "http://a.example/x%20y"},
		{"space before fragment", "http://a.example/x #y", "http://a.example/x%20"},
		{"case of scheme and host", "HTTP://A.Example/B", "http://a.example/B"},
		{"default port", "https://a.example:443/", "https://a.example/"},
		{"other scheme's port", "http://a.example:443/", "http://a.example:443/"},
		{"port with zeros", "http://a.example:0080/", "http://a.example/"},
		{"empty port", "http://a.example:/", "http://a.example/"},
		{"credentials", "http://u:p@a.example/", "http://a.example/"},
		{"unreserved escapes", "http://a.example/%7e%41?%2D", "http://a.example/~A?-"},
		{"reserved escapes", "http://a.example/%2f%c3?%3d", "http://a.example/%2F%C3?%3D"},
		{"escaped dots", "http://a.example/a/%2e%2E/b%2e", "http://a.example/b."},
		{"lone percent", "http://a.example/100%", "http://a.example/100%"},
		{"escape after lone percent", "http://a.example/%%34%31", "http://a.example/%%341"},
		{"escape after half an escape", "http://a.example/%4%31%7e", "http://a.example/%4%31~"},
		{"dot segments", "http://a.example/./a/../../b/.", "http://a.example/b/"},
		{"empty segments", "http://a.example//a//../b", "http://a.example//a/b"},
		{"backslashes", `http:\\a.example\b`, "http://a.example/b"},
		{"dot after host", "http://a.example./", "http://a.example/"},
		{"punycode", "http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"},
		{"IPv4", "http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"},
		{"IPv4 as one number", "http://2130706433/", "http://127.0.0.1/"},
		{"IPv6", "http://[0:0::1]:80/", "http://[::1]/"},
		{"underscore", "http://a_b.example/", "http://a_b.example/"},
		{"semicolon and case kept", "http://a.example/A;b=1?b=2&a=1", "http://a.example/A;b=1?b=2&a=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Canonical(tc.in)
			if err != nil || got != tc.want {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
			if again, err := Canonical(got); err != nil || again != got {
				t.Errorf("twice: %q, %v", again, err)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	long := strings.Repeat("a", MaxURL)
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"empty", "", ErrNotCrawlable},
		{"relative", "/x", ErrNotCrawlable},
		{"no host", "http://", ErrNotCrawlable},
		{"space as host", "http:// /", ErrNotCrawlable},
		{"mail", "mailto:a@a.example", ErrNotCrawlable},
		{"ftp", "ftp://a.example/", ErrNotCrawlable},
		{"web socket", "ws://a.example/", ErrNotCrawlable},
		{"port out of range", "http://a.example:99999/", ErrNotCrawlable},
		{"port of mail", "http://a.example:25/", ErrNotCrawlable},
		{"port zero", "http://a.example:0/", ErrNotCrawlable},
		{"port of a store of keys", "http://a.example:6379/", ErrNotCrawlable},
		{"the same written otherwise", "HTTP://a.example:06379", ErrNotCrawlable},
		{"port of a cache", "https://[2001:db8::1]:11211/", ErrNotCrawlable},
		{"port of an orchestrator", "http://192.0.2.7:10250/pods", ErrNotCrawlable},
		{"open bracket", "http://[::1/", ErrNotCrawlable},
		{"empty label", "http://a..example/", ErrNotCrawlable},
		{"dots alone", "http://./", ErrNotCrawlable},
		{"dots at the end", "http://a.example../", ErrNotCrawlable},
		{"long label", "http://" + long[:64] + ".example/", ErrNotCrawlable},
		{"long name", "http://" + strings.Repeat("abc.", 63) + "example/", ErrNotCrawlable},
		{"bad IPv4", "http://1.2.3.256/", ErrNotCrawlable},
		{"too long", "http://a.example/" + long, ErrTooLong},
		{"too long once escaped", "http://a.example/" + strings.Repeat(" ", MaxURL/2) + "x", ErrTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Canonical(tc.in); !errors.Is(err, tc.want) {
				t.Errorf("got %q, %v; want %v", got, err, tc.want)
			}
		})
	}
	if _, err := Canonical("http://a.example/#" + long); err != nil {
		t.Errorf("a long fragment: %v", err)
	}
}

func TestPairs(t *testing.T) {
	var data struct {
		Cases []struct{ ID, Kind, A, B, Why string }
	}
	readShared(t, "urls/pairs.json", &data)
	for _, tc := range data.Cases {
		a, errA := Canonical(tc.A)
		b, errB := Canonical(tc.B)
		switch tc.Kind {
		case "not-crawlable":
			if errA == nil {
				t.Errorf("%s: %q became %q", tc.ID, tc.A, a)
			}
		case "same":
			if errA != nil || errB != nil || a != b {
				t.Errorf("%s (%s): %q, %v and %q, %v", tc.ID, tc.Why, a, errA, b, errB)
			}
		case "different":
			if errA != nil || errB != nil || a == b {
				t.Errorf("%s (%s): %q, %v and %q, %v", tc.ID, tc.Why, a, errA, b, errB)
			}
		default:
			t.Errorf("%s: kind %q", tc.ID, tc.Kind)
		}
	}
}

// FuzzCanonical: canonical twice is canonical once, the fast path agrees with the parser, and the
// parts of the URL are those it has.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		"https://a.example/b/../c?d=%7e#f", "http://127.0.0.1:80/%%34%31", "http://a-.b--c.example./", "http://u@a:25/", "http:/a/./..//b",
		"https://a.example:65535?/./../", "http://1.2.3.4.5/", "http://0x7f.1/", "http://xn--a/", "http://[::1]:81/\\..", "HTTP://É/%e9%2e%2e",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		url, err := Canonical(raw)
		slow, slowErr := canonicalSlow(raw)
		if url != slow || (err == nil) != (slowErr == nil) {
			t.Fatalf("%q: fast %q, %v; slow %q, %v", raw, url, err, slow, slowErr)
		}
		if err != nil {
			if !errors.Is(err, ErrNotCrawlable) && !errors.Is(err, ErrTooLong) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if again, err := Canonical(url); err != nil || again != url {
			t.Fatalf("%q: once %q, twice %q, %v", raw, url, again, err)
		}
		if len(url) > MaxURL || Host(url) == "" || Origin(url)+PathQuery(url) != url {
			t.Fatalf("%q: %q has host %q, origin %q, path %q", raw, url, Host(url), Origin(url), PathQuery(url))
		}
	})
}

// canonicalSlow is Canonical without the fast path.
func canonicalSlow(raw string) (string, error) {
	in, err := trim([]byte(raw))
	if err != nil {
		return "", err
	}
	out, err := appendParsed(nil, in, nil)
	return string(out), err
}

func BenchmarkCanonical(b *testing.B) {
	for _, bc := range []struct{ name, url string }{
		{"plain", "https://docs.example.org/3/library/os.path.html"},
		{"fragment", "https://docs.example.org/3/library/os.path.html#os.path.join"},
		{"query", "https://docs.example.org/search.html?q=crawler&check_keywords=yes"},
		{"slow", "https://docs.example.org/3/library/os path.html"},
		{"international", "https://мойсайт.пример.рф/путь/1"},
		{"international labels", "https://" + strings.Repeat("б.", 30) + "com/"},
		{"international, long", "https://" + strings.Repeat("бвгдежзиклмнопрстуфх.", 6) + "com/"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Canonical(bc.url); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(bc.url)), "ns/byte")
		})
	}
}

func TestEscapeInvalid(t *testing.T) {
	for raw, want := range map[string]string{
		"/caf\xe9?q=\xfc#a": "/caf%E9?q=%FC#a",
		"/café":             "/café",
		"/caf\xe9/é":        "/caf%E9/%C3%A9",
		"/a%zz":             "/a%zz",
	} {
		if got := EscapeInvalid(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}
