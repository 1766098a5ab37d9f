package robots_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"

	"github.com/apoidea/apoidea/crawl/robots"
)

// words from which bodies and URLs are put together. Left out is where we differ on purpose from
// Google's parser (see the package comment): digits and odd bytes in agents, escapes that it
// compares literally, $ and * as letters.
var (
	lineWords = []string{
		"User-agent: apoidea\n", "user-agent: *\n", "User-Agent: b\n", "useragent: Apoidea/1.0\n", "User-agent: apoidea-news\n", "User-agent: * all\n",
		"Allow: ", "Disallow: ", "disalow:", "Disallow ", "allow : ", "Sitemap: ", "# ", "\n", "\r\n", "\r", "Crawl-delay: 5\n", "nonsense\n", "Disallow:\n",
	}
	pathWords = []string{"/", "a", "b", "ab", ".php", "/index.html", "*", "**", "?", "&a=b", "%2F", "%C3%A4", "-", "/a/b", "x:y", ""}
)

// compose turns fuzzed bytes into a body and a path: each byte is a word, and a byte over 240 ends
// the pattern with an anchor.
func compose(script []byte) (body, path string) {
	var b, p strings.Builder
	p.WriteByte('/')
	inPattern := false
	for i, c := range script {
		switch {
		case i%8 == 7: // the path grows with the body
			if w := pathWords[int(c)%len(pathWords)]; !strings.Contains(w, "*") {
				p.WriteString(w)
			}
		case c > 240 && inPattern:
			b.WriteString("$\n")
			inPattern = false
		case c&1 == 0 || !inPattern:
			w := lineWords[int(c>>1)%len(lineWords)]
			if inPattern {
				b.WriteByte('\n')
			}
			b.WriteString(w)
			inPattern = !strings.ContainsAny(w, "\r\n")
		default:
			b.WriteString(pathWords[int(c>>1)%len(pathWords)])
		}
	}
	return b.String(), p.String()
}

// Parsing once and matching what was compiled comes to the verdict of Google's parser, which reads
// the whole body for each URL.
func FuzzAgainstGoogle(f *testing.F) {
	f.Add([]byte("\x02\x0e\x01\x03\x05\x02\x01\x07"))
	f.Add([]byte{0, 14, 1, 3, 250, 12, 1, 2, 14, 13, 1, 5, 241, 2, 14, 1})
	f.Add([]byte{2, 14, 1, 0, 12, 1, 11, 5, 4, 14, 1, 32, 14, 1, 3, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			return
		}
		body, path := compose(script)
		want := grobotstxt.AgentAllowed(body, "apoidea", "http://site.example"+path)
		if got := robots.Parse([]byte(body), "apoidea").Allowed(path); got != want && path != "/robots.txt" {
			t.Errorf("%s allowed %t, Google's parser says %t, by\n%s", path, got, want, body)
		}
	})
}

// The same for many bodies made of these words, so that a clone without the sample of real bodies
// has a judge, too.
func TestAgainstGoogle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	closed, open := 0, 0
	for range 20_000 {
		script := make([]byte, 8+rnd.IntN(60))
		for i := range script {
			script[i] = byte(rnd.IntN(256))
		}
		script[0] = 0 // "User-agent: apoidea", or most bodies would say nothing
		body, path := compose(script)
		if path == "/robots.txt" {
			continue
		}
		want := grobotstxt.AgentAllowed(body, "apoidea", "http://site.example"+path)
		if got := robots.Parse([]byte(body), "apoidea").Allowed(path); got != want {
			t.Fatalf("%s allowed %t, Google's parser says %t, by\n%s", path, got, want, body)
		}
		if want {
			open++
		} else {
			closed++
		}
	}
	if closed < 1000 || open < 1000 {
		t.Errorf("%d closed and %d open: the words do not try the rules", closed, open)
	}
}

// Any bytes are a body and any string is a path: nothing panics, a verdict does not depend on the
// spelling of the path, and rules do not change by being asked.
func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /*a$\nAllow: /%zz\nCrawl-delay: 1\nSitemap: x\n"), "/a?b=%41")
	f.Add([]byte("\xff\xfeu\x00s\x00e\x00r\x00-\x00a\x00g\x00e\x00n\x00t\x00:\x00*\x00\n\x00d\x00"), "/")
	f.Add([]byte("user-agent:*\ndisallow: /"+strings.Repeat("%41", 6000)+"\nallow: /"+strings.Repeat("*", 17000)), "/AAA")
	f.Add([]byte("\xEF\xBB\xBFuser-agent apoidea\rdisallow:*%2a*$"), "")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		rules := robots.Parse(body, "apoidea")
		verdict := rules.Allowed(path)
		if d, ok := rules.CrawlDelay(); d < 0 || d > robots.MaxCrawlDelay || !ok && d != 0 {
			t.Errorf("delay %s, %t", d, ok)
		}
		if again := rules.Allowed(path); again != verdict {
			t.Errorf("allowed %t, then %t", verdict, again)
		}
		if rules.Len() > 0 && rules.Size() <= 0 {
			t.Errorf("%d rules of size %d", rules.Len(), rules.Size())
		}
		lower := lowerHex(path)
		if got := rules.Allowed(lower); got != verdict {
			t.Errorf("%q allowed %t, %q allowed %t", path, verdict, lower, got)
		}
	})
}

// lowerHex writes the digits of escapes in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' && isHex(b[i+1]) && isHex(b[i+2]) {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }
