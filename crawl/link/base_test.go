package link

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

func TestResolve(t *testing.T) {
	for _, tc := range []struct{ name, href, want string }{
		{"file", "c.html", "https://a.example:81/x/y/c.html"},
		{"up", "../c.html#d", "https://a.example:81/x/c.html"},
		{"up beyond the root", "../../../../c", "https://a.example:81/c"},
		{"up from within", "../y/./../c/..", "https://a.example:81/x/"},
		{"here", ".", "https://a.example:81/x/y/"},
		{"above", "..", "https://a.example:81/x/"},
		{"three dots", ".../", "https://a.example:81/x/y/.../"},
		{"root", "/c", "https://a.example:81/c"},
		{"empty", "", "https://a.example:81/x/y/z.html?q"},
		{"blank", " \n", "https://a.example:81/x/y/z.html?q"},
		{"fragment", "#d", "https://a.example:81/x/y/z.html?q"},
		{"query", "?r=../s", "https://a.example:81/x/y/z.html?r=../s"},
		{"other host", "//b.example", "https://b.example/"},
		{"other host, default port", "//b.example:443/c", "https://b.example/c"},
		{"absolute", "http://b.example/c", "http://b.example/c"},
		{"scheme without slashes", "https:c", "https://a.example:81/x/y/c"},
		{"another scheme without slashes", "http:c/d", "http://c/d"},
		{"colon in the first segment", "1:c", "https://a.example:81/x/y/1:c"},
		{"colon in front", ":c", "https://a.example:81/x/y/:c"},
		{"colon behind a slash", "c/d:e", "https://a.example:81/x/y/c/d:e"},
		{"tabs and newlines", "\n  /a\tb\n.html ", "https://a.example:81/ab.html"},
		{"newline in the scheme", "ht\ntp://b.example/", "http://b.example/"},
		{"backslash", `\c\d`, "https://a.example:81/c/d"},
		{"escapes", "%7ec%c3", "https://a.example:81/x/y/~c%C3"},
		{"escaped dots", "%2e%2e/c", "https://a.example:81/x/c"},
		{"UTF-8", "ö?ü'", "https://a.example:81/x/y/%C3%B6?%C3%BC%27"},
		{"invalid UTF-8", "\xff", "https://a.example:81/x/y/%EF%BF%BD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := mustBase(t, "https://a.example:81/x/y/z.html?q")
			got, err := base.AppendResolve([]byte("dst "), []byte(tc.href))
			if err != nil || string(got) != "dst "+tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	base := mustBase(t, "https://a.example/x/y")
	for _, href := range []string{
		"javascript:void(0)", "java\nscript:x", "mailto:a@b.example", "data:text/html,<a>", "tel:1", "ftp://b.example/", "//", "http://:80",
		"//b.example:25/", "file:///etc/passwd", "blob:https://a.example/x", "about:blank",
	} {
		if got, err := base.AppendResolve([]byte("dst"), []byte(href)); !errors.Is(err, ErrNotCrawlable) || string(got) != "dst" {
			t.Errorf("%q: %q, %v", href, got, err)
		}
	}
	if _, err := base.AppendResolve(nil, bytes.Repeat([]byte("a/"), MaxURL/2)); !errors.Is(err, ErrTooLong) {
		t.Errorf("long href: %v", err)
	}
}

func TestRebase(t *testing.T) {
	for _, tc := range []struct{ name, base, href, want string }{
		{"folder", "/sp/", "z", "https://a.example/sp/z"},
		{"file", "sp/file", "z", "https://a.example/x/sp/z"},
		{"other host", "http://b.example/c/", "z", "http://b.example/c/z"},
		{"white space", " /sp/\n", "z", "https://a.example/sp/z"},
		{"query", "/sp/?q", "", "https://a.example/sp/?q"},
		{"javascript", "javascript:x", "z", "https://a.example/x/z"},
		{"data", "data:,x", "z", "https://a.example/x/z"},
		{"not a URL", "http://[", "z", "https://a.example/x/z"},
		{"ftp, relative", "ftp://b.example/", "z", ""},
		{"ftp, absolute", "ftp://b.example/", "http://c.example/z", "http://c.example/z"},
		{"mail, relative", "mailto:x", "#z", ""},
		{"refused port", "http://b.example:25/", "/z", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := mustBase(t, "https://a.example/x/y").Rebase([]byte(tc.base))
			got, err := base.AppendResolve(nil, []byte(tc.href))
			if string(got) != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestResolveEncoded(t *testing.T) {
	for _, tc := range []struct {
		name string
		enc  encoding.Encoding
		href string
		want string
	}{
		{"path stays UTF-8", charmap.Windows1252, "ü?ü", "https://a.example/%C3%BC?%FC"},
		{"not in the encoding", charmap.Windows1252, "?ж'", "https://a.example/?%26%231078%3B%27"},
		{"white space", charmap.KOI8R, "?\tж \n", "https://a.example/?%D6"},
		{"fragment", charmap.KOI8R, "?ж #ж", "https://a.example/?%D6%20"},
		{"several bytes", japanese.ShiftJIS, "?日本", "https://a.example/?%93%FA%96{"},
		{"ASCII", charmap.KOI8R, "?a=b", "https://a.example/?a=b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := mustBase(t, "https://a.example/")
			base.Encoding = tc.enc
			got, err := base.AppendResolve(nil, []byte(tc.href))
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// FuzzResolve: the fast path agrees with the parser, and what comes out is canonical.
func FuzzResolve(f *testing.F) {
	for _, href := range []string{
		"../library/os.html#os.path", "//b.example:80/..", "?a#b", "./../%2e/%41", "http:x", "a:b", "/\\x", "//u@c.", "\x01a\tb", "..", "a/.?.",
	} {
		f.Add("https://a.example/x/y?z", href)
	}
	f.Add("http://a.example:8080//x/", "..//../.")
	f.Fuzz(func(t *testing.T, page, href string) {
		base, err := NewBase(page)
		if err != nil {
			return
		}
		fast, fastErr := base.AppendResolve(nil, []byte(href))
		in, err := trim([]byte(href))
		if err != nil {
			return
		}
		slow, slowErr := base.appendSlow(nil, in)
		if (fastErr == nil) != (slowErr == nil) || !bytes.Equal(fast, slow) {
			t.Fatalf("%q against %q: fast %q, %v; slow %q, %v", href, base, fast, fastErr, slow, slowErr)
		}
		if fastErr != nil {
			return
		}
		if again, err := Canonical(string(fast)); err != nil || again != string(fast) {
			t.Fatalf("%q against %q: %q is not canonical: %q, %v", href, base, fast, again, err)
		}
	})
}

func mustBase(t testing.TB, url string) *Base {
	t.Helper()
	base, err := NewBase(url)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

func BenchmarkResolve(b *testing.B) {
	base := mustBase(b, "https://docs.example.org/3/tutorial/classes.html")
	for _, bc := range []struct{ name, href string }{
		{"file", "modules.html"},
		{"up", "../library/os.html#os.path"},
		{"fragment", "#a-word-about-names-and-objects"},
		{"root", "/genindex-all.html"},
		{"absolute", "https://www.example.org/dev/peps/pep-0008/"},
		{"mail", "mailto:docs@example.org"},
		{"space", "../library/os path.html"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			dst, href := make([]byte, 0, 256), []byte(bc.href)
			b.ReportAllocs()
			for b.Loop() {
				if out, err := base.AppendResolve(dst, href); err != nil && !strings.HasPrefix(bc.href, "mailto") {
					b.Fatal(err)
				} else if cap(out) != cap(dst) {
					b.Fatal("dst grew")
				}
			}
		})
	}
}
