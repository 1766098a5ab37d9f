package warc

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSURT(t *testing.T) {
	const id = "0123456789abcdefghijklemopqrstuv"
	for url, want := range map[string]string{
		"http://example.com/":                      "com,example)/",
		"https://www.Example.com/A?b=2&a=1":        "com,example)/a?a=1&b=2",
		"http://www2.example.com:8080/x":           "com,example:8080)/x",
		"http://a.b.example.co.uk/?":               "uk,co,example,b,a)/",
		"http://[2001:db8::1]:81/x":                "2001:db8::1:81)/x",
		"http://[2001:DB8::1]/x":                   "2001:db8::1)/x",
		"http://user:pw@example.com":               "com,example)/",
		"http://example.com?q":                     "com,example)/?q",
		"http://www.com/":                          "com)/",
		"http://wwwx.example.com/":                 "com,example,wwwx)/",
		"http://www12./":                           "www12)/",
		"http://127.0.0.1:8000/docs/index.html#x":  "1,0,0,127:8000)/docs/index.html",
		"http://017.0.258/":                        "258,0,017)/",
		"http://a.example:b c/":                    "example,a:b%20c)/",
		"http://1.2.3.256/":                        "256,3,2,1)/",
		"http://1.2.3.4.5/":                        "5,4,3,2,1)/",
		"dns:Example.com":                          "dns:example.com",
		"mailto:Bees@example.com":                  "mailto:bees@example.com",
		"  http://http://https://a.example/\n ":    "example,a)/",
		"www.a.example":                            "example,a)/",
		"http:////www.a.example":                   "example,a)/",
		"http://a.example:/x":                      "example,a)/x",
		"http://a.example:0080/x":                  "example,a)/x",
		"http://a.example:443/x":                   "example,a:443)/x",
		"https://a.example:443/x":                  "example,a)/x",
		"ftp://a.example:21/x":                     "example,a:21)/x",
		"http://a..example.../x":                   "example,a)/x",
		"http://b\u00fccher.example/%C3%BC":        "example,xn--bcher-kva)/%c3%bc",
		"http://%62.example/":                      "example,b)/",
		"http://a.example/%2525%41 b%23":           "example,a)/%25a%20b%23",
		"http://a.example/%%%25%32%35asd%%":        "example,a)/%25%25%25asd%25%25",
		"http://a.example//b/./c/../d//":           "example,a)/b/d",
		"http://a.example/../b/":                   "example,a)/../b",
		"http://a.example/b/..":                    "example,a)/",
		"http://a.example/?b&a&a=2&a=1&":           "example,a)/?&a&a=1&a=2&b",
		"http://a.example/?a=%5B1%5D&A=2":          "example,a)/?a=2&a=[1]",
		"http://a.example/?x=1&jsessionid=" + id:   "example,a)/?&x=1",
		"http://a.example/?SID=" + id + "&x=1":     "example,a)/?x=1",
		"http://a.example/?sid=" + id + "0&x=1":    "example,a)/?sid=" + id + "0&x=1",
		"http://a.example/?CFID=1&CFTOKEN=2-3&x=1": "example,a)/?x=1",
		"http://a.example/?ASPSESSIONIDabcdefgh=abcdefghijklmnopqrstuvwx&x=1": "example,a)/?x=1",
		"http://a.example/(A(" + id[:24] + ")B(" + id[:24] + "))/b/C.aspx":    "example,a)/b/c.aspx",
		"http://a.example/photos/36050182@N05/":                               "example,a)/photos/36050182@n05",
		"http://a.example/visit.gif?&r=http%3A//b.example/%20%28Windows%3B)":  "example,a)/visit.gif?&r=http://b.example/%20(windows;)",
	} {
		if got := SURT(url); got != want {
			t.Errorf("SURT(%q) = %q, want %q", url, got, want)
		}
	}
}

// surtModes are the steps of SURT by the names of the shared vectors.
var surtModes = map[string]func(string) string{
	"surt-defaultIASurt": SURT,
	"surt-Canonicalizer.DefaultIA": func(s string) string {
		u := splitURL(s)
		u.normalize()
		u.simplify()
		return u.String()
	},
	"surt-Canonicalizer.IA":           func(s string) string { u := splitURL(s); u.simplify(); return u.String() },
	"surt-googleSupplementalFromSurt": func(s string) string { u := splitURL(s); u.normalize(); return u.String() },
	"surt-unescapeRepeatedly":         unescapeRepeatedly,
	"surt-alphaRorderQuery":           sortQuery,
	"surt-massageHost":                withoutWWW,
	"surt-stripPathSessionId":         func(s string) string { return stripSession(s, pathSessions) },
}

func (u *surtURL) String() string {
	s := u.scheme + "://" + u.host
	if u.port != "" {
		s += ":" + u.port
	}
	if s += u.path; u.query != "" {
		s += "?" + u.query
	}
	return s
}

func TestSURTSharedVectors(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "testdata", "urls", "canon.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no ../shared/testdata here")
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct{ Mode, Input, Expect, ID string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range file.Cases {
		if !strings.HasPrefix(c.Mode, "surt-") {
			continue
		}
		n++
		step := surtModes[c.Mode]
		if step == nil {
			t.Errorf("%s: unknown mode %s", c.ID, c.Mode)
		} else if got := step(c.Input); got != c.Expect {
			t.Errorf("%s: %s(%q) = %q, want %q", c.ID, c.Mode, c.Input, got, c.Expect)
		}
	}
	if n < 20 {
		t.Errorf("%d vectors", n)
	}
}

// FuzzSURT checks that a key is one word of an index line.
func FuzzSURT(f *testing.F) {
	for _, url := range []string{"http://www.a.example/%25?b=1&a", "http://[::1]:80/../x//", "https://1.2/", "mailto:a@b", "http:////x", "%", "a:?b"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		key := SURT(url)
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' && !strings.HasPrefix(url, "filedesc") }) || key == "" {
			t.Errorf("SURT(%q) = %q", url, key)
		}
	})
}

func BenchmarkSURT(b *testing.B) {
	for name, url := range map[string]string{
		"plain": "https://www.h1.example/articles/1234/honey-bees.html?page=3",
		"query": "https://www.en.example.org:8080/wiki/Honey_Bees/Dances?title=Bees&action=history&offset=20260301",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				SURT(url)
			}
		})
	}
}
