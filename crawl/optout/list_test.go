package optout

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
)

const sample = `# what this peer leaves alone
host shop.example.org
host Bücher.example:8080   # a name as people write it
domain example.net
ip 192.0.2.0/24
ip 2001:db8::5
url example.com/private/
url https://example.com/*.pdf$
url example.com/a/*/c
`

func parse(t testing.TB, text string) *List {
	t.Helper()
	l, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r", "\r\n\r"} {
		l := parse(t, "\ufeff"+strings.ReplaceAll(sample, "\n", end))
		if n := len(l.Rules()); n != 8 {
			t.Errorf("lines that end with %q: %d rules", end, n)
		}
	}
}

func TestList(t *testing.T) {
	l := parse(t, sample)
	if n := len(l.Rules()); n != 8 {
		t.Errorf("%d rules: %v", n, l.Rules())
	}
	for _, row := range []struct {
		url  string
		rule string // empty: none covers it
	}{
		{"http://shop.example.org/", "host shop.example.org"},
		{"https://shop.example.org:8443/x", "host shop.example.org"},
		{"http://example.org/", ""},
		{"http://a.shop.example.org/", ""},
		{"http://xn--bcher-kva.example:8080/", "host xn--bcher-kva.example:8080"},
		{"http://xn--bcher-kva.example/", ""},
		{"http://example.net/", "domain example.net"},
		{"http://a.b.example.net:81/", "domain example.net"},
		{"http://notexample.net/", ""},
		{"http://192.0.2.9:8080/", "ip 192.0.2.0/24"},
		{"http://192.0.3.9/", ""},
		{"http://[2001:db8::5]/", "ip 2001:db8::5/128"},
		{"http://example.com/private/", "url example.com/private/"},
		{"https://example.com/private/a?b", "url example.com/private/"},
		{"https://example.com/private", ""},
		{"https://example.com/x/y.pdf", "url example.com/*.pdf$"},
		{"https://example.com/x/y.pdf?z", ""},
		{"https://example.com/a/b/b/cd", "url example.com/a/*/c"},
		{"https://example.com/a/c", ""},
		{"https://www.example.com/private/", ""},
	} {
		if c, err := link.Canonical(row.url); err != nil || c != row.url {
			t.Fatalf("%s is not canonical: %s, %v", row.url, c, err)
		}
		r, ok := l.URL(row.url)
		if ok != (row.rule != "") || ok && r.String() != row.rule {
			t.Errorf("%s: %v %v, want %q", row.url, ok, r, row.rule)
		}
	}
	for addr, want := range map[string]bool{"192.0.2.1": true, "::ffff:192.0.2.1": true, "192.0.1.255": false, "2001:db8::5": true, "2001:db8::6": false} {
		if _, ok := l.Addr(netip.MustParseAddr(addr)); ok != want {
			t.Errorf("%s: %v", addr, ok)
		}
	}
	var none *List
	if _, ok := none.URL("http://a/"); ok || none.Rules() != nil {
		t.Error("the nil list is not empty")
	}
}

// TestParseErrors: a slip in one line is named, with its number and its words, and the other lines
// hold; what is no list at all is refused.
func TestParseErrors(t *testing.T) {
	for _, row := range []struct {
		name, text, says string
		rules            int // -1: refused
	}{
		{"nothing", "", "", 0},
		{"remarks", "# a\n\n  # b\n", "", 0},
		{"a byte order mark", "\ufeffhost a.example\n", "", 1},
		{"an unknown word", "host a.example\nhots b.example\n", `line 2: "hots b.example"`, 1},
		{"no name", "host\nhost a.example", "line 1: host", 1},
		{"a URL for a host", "host http://a.example/\nhost b.example", "line 1", 1},
		{"a pattern for a host", "host *.a.example\nhost b.example", "line 1", 1},
		{"a domain with a port", "domain a.example:80\nhost b.example", "line 1: domain", 1},
		{"no address", "ip 300.0.0.1\nhost b.example", "line 1: ip", 1},
		{"a URL without a path", "url a.example\nhost b.example", "line 1: url", 1},
		{"a page", "<html>\n<body>\nlog in first\n", "no line", -1},
		{"many slips", "host a.example\n" + strings.Repeat("x\n", 9), "4 more", 1},
		{"a line without end", "host a.example\nhost " + strings.Repeat("a", maxLine), "line of more", -1},
		{"too many patterns", strings.Repeat("url a.example/x\n", maxPatterns+1), "more than", maxPatterns},
	} {
		l, err := Parse([]byte(row.text))
		if (l == nil) != (row.rules < 0) || l != nil && len(l.Rules()) != row.rules {
			t.Errorf("%s: %d rules, want %d", row.name, len(l.Rules()), row.rules)
		}
		if (err != nil) != (row.says != "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, err, row.says)
		}
	}
	if _, err := Parse([]byte("<p>")); !errors.Is(err, ErrList) {
		t.Errorf("a page: %v", err)
	}
	if _, err := Parse(make([]byte, MaxList+1)); err == nil {
		t.Error("a list beyond its bound is read")
	}
}

// FuzzParse: whatever is read, each rule read again is itself and covers what it says.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("url a/\xff*$\nip ::/0\ndomain a\nhost [::1]:9"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, _ := Parse(text)
		for _, r := range l.Rules() {
			again, err := Parse([]byte(r.String()))
			if err != nil || len(again.Rules()) != 1 || again.Rules()[0] != r {
				t.Fatalf("%q read again: %v, %v", r, again.Rules(), err)
			}
			if r.Kind == KindHost || r.Kind == KindDomain {
				if _, ok := l.Host(r.Value); !ok {
					t.Errorf("%q does not cover it", r)
				}
			}
		}
		l.URL("http://a.example/private/x.pdf")
	})
}

func TestProof(t *testing.T) {
	host, err := ParseSubject("Example.ORG")
	if err != nil || host != (Subject{KindHost, "example.org"}) {
		t.Fatalf("%+v, %v", host, err)
	}
	whole, err := ParseSubject("domain example.org")
	if err != nil {
		t.Fatal(err)
	}
	out, back := Token(host, Out), Token(host, Back)
	if out == back || out == Token(whole, Out) {
		t.Error("tokens of different wishes are alike")
	}
	for _, row := range []struct {
		name, text string
		a          Action
		want       bool
	}{
		{"the line", out, Out, true},
		{"among others", "# us\r\n  " + out + "  \r\nmore", Out, true},
		{"with a mark, CR alone", "\ufeffus\r" + out + "\r", Out, true},
		{"in UTF-16", "\xff\xfe" + strings.Join(strings.Split(out+"\r\n", ""), "\x00") + "\x00", Out, true},
		{"within a line", "x" + out, Out, false},
		{"another wish", back, Out, false},
		{"of another", Token(whole, Out), Out, false},
		{"withdrawn", back, Back, true},
		{"both", back + "\n" + out, Back, false},
		{"both, opted out", back + "\n" + out, Out, true},
		{"nothing", "", Out, false},
	} {
		if got := Shows(row.text, host, row.a); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
	for _, bad := range []string{"", "host", "ip 192.0.2.1", "domain a.example:80", "domain 192.0.2.1", "host a b", "url a/b", "host *.a"} {
		if s, err := ParseSubject(bad); !errors.Is(err, ErrSubject) {
			t.Errorf("%q: %+v, %v", bad, s, err)
		}
	}
	if _, err := ParseAction("out"); !errors.Is(err, ErrSubject) {
		t.Errorf("an action that is none: %v", err)
	}
	if name := TXTName(Subject{KindHost, "example.org:8080"}); name != "_apoidea.example.org" {
		t.Errorf("TXT at %s", name)
	}
}

// FuzzParseSubject: what is read is a subject, and itself when it is read again.
func FuzzParseSubject(f *testing.F) {
	f.Add("host example.org:81")
	f.Add("domain a.b")
	f.Add("[::1]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSubject(text)
		if err != nil {
			return
		}
		if again, err := ParseSubject(s.String()); err != nil || again != s {
			t.Errorf("%q is %v, and that %v (%v)", text, s, again, err)
		}
	})
}
