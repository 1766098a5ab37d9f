package robots_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/robots"
)

// shared returns the path of a file in the directory shared beside the repository, or skips the
// test.
func shared(t testing.TB, elements ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		file := filepath.Join(append([]string{dir, "shared"}, elements...)...)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Skip("shared test data not found: " + filepath.Join(elements...))
	return ""
}

// allowed asks for a whole URL.
func allowed(t testing.TB, body []byte, agent, rawURL string) bool {
	t.Helper()
	_, rest, _ := strings.Cut(rawURL, "://")
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		return robots.Parse(body, agent).Allowed("")
	}
	return robots.Parse(body, agent).Allowed(rest[at:])
}

// decided are the contested readings in which we do not follow those who wrote the case, with our
// reason. TestAllowed pins each of them.
var decided = map[string]string{
	"token-chars":      "digits are part of a token, and /robots.txt is always allowed",
	"prefix-agent":     "tokens are compared whole",
	"no-slash-pattern": "a pattern without a leading slash matches nothing",
	"estes-lenient":    "field and value stand on one line",
	"google-literal":   "an encoded unreserved octet equals the plain one",
}

func TestCases(t *testing.T) {
	raw, err := os.ReadFile(shared(t, "testdata", "robots", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Bodies map[string]struct{ Text, B64 string }
		Cases  []struct {
			ID, Robots, Agent, URL, Profile string
			Allowed                         bool
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, c := range file.Cases {
		b := file.Bodies[c.Robots]
		body := []byte(b.Text)
		if b.B64 != "" {
			if body, err = base64.StdEncoding.DecodeString(b.B64); err != nil {
				t.Fatal(err)
			}
		}
		got := allowed(t, body, c.Agent, c.URL)
		if got == c.Allowed {
			passed++
		} else if decided[c.Profile] == "" {
			t.Errorf("%s %s: agent %s, %s: allowed %t, want %t, by\n%s", c.Profile, c.ID, c.Agent, c.URL, got, c.Allowed, body)
		}
	}
	if passed == 0 {
		t.Error("no case passed")
	}
	t.Logf("%d of %d", passed, len(file.Cases))
}

// Our own cases, which are always there: what the package comment promises.
func TestAllowed(t *testing.T) {
	const agent = "apoidea"
	long := strings.Repeat("a", 20_000)
	tests := []struct {
		name    string
		body    string
		url     string
		allowed bool
	}{
		{"empty body", "", "/a", true},
		{"no rule", "User-agent: *\n", "/a", true},
		{"empty disallow", "User-agent: *\nDisallow:\n", "/a", true},
		{"all closed", "User-agent: *\nDisallow: /\n", "/a", false},
		{"robots.txt always", "User-agent: *\nDisallow: /\n", "/robots.txt", true},
		{"robots.txt alone", "User-agent: *\nDisallow: /\n", "/robots.txt.bak", false},
		{"our group only", "User-agent: *\nDisallow: /\nUser-agent: apoidea\nDisallow: /x\n", "/a", true},
		{"our empty group", "User-agent: *\nDisallow: /\nUser-agent: apoidea\n", "/a", true},
		{"our group twice", "User-agent: apoidea\nDisallow: /x\n\nUser-agent: b\nDisallow: /\nUser-agent: APOIDEA\nDisallow: /y\n", "/y", false},
		{"groups of many", "User-agent: a\nUser-agent: apoidea\nUser-agent: *\nDisallow: /x\n", "/x", false},
		{"everybody twice", "User-agent: *\nDisallow: /x\nUser-agent: b\nDisallow: /z\nUser-agent: *\nDisallow: /y\n", "/y", false},
		{"another's group", "User-agent: b\nDisallow: /\n", "/x", true},
		{"rule before any group", "Disallow: /\nUser-agent: *\nAllow: /\n", "/x", true},
		{"longest wins", "User-agent: *\nAllow: /a\nDisallow: /a/b\n", "/a/b/c", false},
		{"longest wins the other way", "User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b/c", true},
		{"tie", "User-agent: *\nDisallow: /a\nAllow: /a\n", "/a", true},
		{"case of paths", "User-agent: *\nDisallow: /A\n", "/a", true},
		{"query", "User-agent: *\nDisallow: /*?\n", "/a?b", false},
		{"fragment", "User-agent: *\nDisallow: /*b\n", "/a#b", true},
		{"end", "User-agent: *\nDisallow: /a$\n", "/ab", true},
		{"end met", "User-agent: *\nDisallow: /a$\n", "/a", false},
		{"wildcard and end", "User-agent: *\nDisallow: /*.php$\n", "/x/y.php", false},
		{"wildcard and end, longer", "User-agent: *\nDisallow: /*.php$\n", "/x/y.php5", true},
		{"end at the last place", "User-agent: *\nDisallow: /*ab$\n", "/abab", false},
		{"literal used once", "User-agent: *\nDisallow: /ab*ba$\n", "/aba", true},
		{"dollar within", "User-agent: *\nDisallow: /a$b\n", "/a$b", false},
		{"star in the URL", "User-agent: *\nDisallow: /a%2Ab\n", "/a*b", false},
		{"star in the URL is a letter", "User-agent: *\nDisallow: /axb\n", "/a*b", true},
		{"lower-case hex", "User-agent: *\nDisallow: /a%c3%a4\n", "/a%C3%A4", false},
		{"raw octets", "User-agent: *\nDisallow: /ä\n", "/%C3%A4", false},
		{"raw space", "User-agent: *\nDisallow: /a b\n", "/a%20b", false},
		{"unreserved decoded", "User-agent: *\nDisallow: /%7Euser\n", "/~user", false},
		{"reserved not decoded", "User-agent: *\nDisallow: /a%2Fb\n", "/a/b", true},
		{"bare percent", "User-agent: *\nDisallow: /100%\n", "/100%25", false},
		{"byte order mark", "\xEF\xBB\xBFUser-agent: *\nDisallow: /\n", "/a", false},
		{"half a byte order mark", "\xEF\xBBUser-agent: *\nDisallow: /\n", "/a", false},
		{"CR only", "User-agent: *\rDisallow: /\r", "/a", false},
		{"CRLF", "User-agent: *\r\nDisallow: /\r\n", "/a", false},
		{"no end of line", "User-agent: *\nDisallow: /", "/a", false},
		{"comment", "User-agent: * # all\nDisallow: /#a\n", "/b", false},
		{"misspelt", "useragent: *\ndissalow: /a\n", "/a", false},
		{"no colon", "User-agent *\nDisallow /a\n", "/a", false},
		{"no colon, three words", "User-agent *\nDisallow /a b\n", "/a", true},
		{"index page", "User-agent: *\nDisallow: /\nAllow: /x/index.html\n", "/x/", true},
		{"index page, other page", "User-agent: *\nDisallow: /\nAllow: /x/index.html\n", "/x/y", false},
		{"version behind the token", "User-agent: apoidea/2.0\nDisallow: /a\n", "/a", false},
		{"star behind the token", "User-agent: apoidea*\nDisallow: /a\n", "/a", false},
		{"digit behind the token", "User-agent: apoidea2\nDisallow: /a\n", "/a", true},
		{"prefix of the token", "User-agent: apo\nDisallow: /a\n", "/a", true},
		{"star and a word", "User-agent: * bots\nDisallow: /a\n", "/a", false},
		{"no leading slash", "User-agent: *\nDisallow: a\n", "/a", true},
		{"leading star", "User-agent: *\nDisallow: *a\n", "/ba", false},
		{"name and value apart", "User-agent: *\nDisallow\n: /a\n", "/a", true},
		{"pattern over its bound", "User-agent: *\nDisallow: /" + long + "\n", "/" + long[:17_000], false},
		{"pattern over its bound, elsewhere", "User-agent: *\nDisallow: /" + long + "\n", "/" + long[:16_000], true},
		{"pattern over its bound that allows", "User-agent: *\nDisallow: /\nAllow: /" + long + "\n", "/" + long, false},
		{"stars over the bound", "User-agent: *\nDisallow: /x" + strings.Repeat("*", 20_000) + "y\n", "/x/z", false},
		{"pattern cut within an escape", "User-agent: *\nDisallow: /" + long[:16_662] + "%C3%BCx\n", "/" + long[:16_662] + "%C3%BCx", false},
		{"pattern cut behind a letter $", "User-agent: *\nDisallow: /" + long[:16_662] + "$$$$\n", "/" + long[:16_662] + "$$$$/x", false},
		{"long comment", "User-agent: *\nDisallow: /a # " + long + "\n", "/a", false},
		{"long comment, elsewhere", "User-agent: *\nDisallow: /a # " + long + "\n", "/b", true},
		{"long white space", "User-agent: *\nDisallow:" + strings.Repeat(" ", 20_000) + "/a\n", "/a", false},
		{"long name of a crawler", "User-agent: apoidea/" + long + "\nDisallow: /a\n", "/a", false},
		{"long names of others", "User-agent: *\nDisallow: /a\nUser-agent: x" + long + "\nDisallow: /\n", "/b", true},
		{"UTF-16 with its mark", "\xff\xfe" + utf16le("User-agent: *\r\nDisallow: /a\r\n"), "/a", false},
		{"UTF-16 the other way round", "\xfe\xff\x00" + utf16le("User-agent: *\nDisallow: /\u00fc\n"), "/%C3%BC", false},
		{"UTF-16 without a mark", utf16le("User-agent: *\nDisallow: /a\n"), "/a", false},
		{"UTF-16, elsewhere", "\xff\xfe" + utf16le("User-agent: *\nDisallow: /a\n"), "/b", true},
		{"UTF-16 with half a character at its end", "\xff\xfe" + utf16le("User-agent: *\nDisallow: /a\n") + "x", "/a", false},
		{"sitemap and delay within a group", "User-agent: *\nCrawl-delay: 1\nSitemap: http://a/b\nUser-agent: b\nDisallow: /\n", "/a", false},
		{"no leading slash in the URL", "User-agent: *\nDisallow: /a\n", "a", false},
		{"empty URL", "User-agent: *\nDisallow: /$\n", "", false},
		{"bytes of no text", "\x00\x01User-agent: *\n\xff\xfe\nDisallow: /\n", "/a", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := robots.Parse([]byte(tt.body), agent).Allowed(tt.url); got != tt.allowed {
				t.Errorf("allowed %t, want %t", got, tt.allowed)
			}
		})
	}
}

// utf16le returns text of the first Unicode characters in UTF-16LE; with a zero in front of it, in
// UTF-16BE and one zero more at the end.
func utf16le(s string) string {
	var b strings.Builder
	for _, c := range s {
		b.WriteByte(byte(c))
		b.WriteByte(0)
	}
	return b.String()
}

// The table of RFC 9309, section 2.2.2, and that of section 2.2.3.
func TestTablesOfTheRFC(t *testing.T) {
	for _, tt := range []struct{ pattern, path string }{
		{"/foo/bar?baz=quz", "/foo/bar?baz=quz"},
		{"/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"},
		{"/foo/bar/ツ", "/foo/bar/%E3%83%84"},
		{"/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"},
		{"/foo/bar/%62%61%7A", "/foo/bar/baz"},
		{"/path/file-with-a-%2A.html", "/path/file-with-a-*.html"},
		{"/path/foo-%24", "/path/foo-$"},
	} {
		rules := robots.Parse([]byte("User-agent: *\nDisallow: "+tt.pattern+"\n"), "apoidea")
		if rules.Allowed(tt.path) {
			t.Errorf("%s does not match %s", tt.pattern, tt.path)
		}
		if !rules.Allowed("/other") {
			t.Errorf("%s matches /other", tt.pattern)
		}
	}
}

func TestBound(t *testing.T) {
	pad := strings.Repeat("#"+strings.Repeat("x", 99)+"\n", robots.MaxBody/101+1)
	tests := []struct {
		name    string
		tail    string // is put so that its first cut bytes are within the bound
		cut     int
		url     string
		allowed bool
	}{
		{"rule within", "Disallow: /x\n", 13, "/x", false},
		{"rule cut to a broader one", "Disallow: /x\n", 11, "/y", true},
		{"rule cut before its end of line", "Disallow: /x\n", 12, "/x", true},
		{"rule behind", "Disallow: /x\n", 0, "/x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const open = "User-agent: *\n"
			body := open + pad[:robots.MaxBody-len(open)-tt.cut-1] + "\n" + tt.tail + pad
			if got := robots.Parse([]byte(body), "apoidea").Allowed(tt.url); got != tt.allowed {
				t.Errorf("allowed %t, want %t", got, tt.allowed)
			}
		})
	}
}

func TestCrawlDelay(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"none", "User-agent: *\nDisallow: /x\n", "none"},
		{"everybody's", "User-agent: *\nCrawl-delay: 5\n", "5s"},
		{"ours", "User-agent: *\nCrawl-delay: 5\nDisallow:\nUser-agent: apoidea\nCrawl-delay: 1.5\n", "1.5s"},
		{"ours without one", "User-agent: *\nCrawl-delay: 5\nDisallow:\nUser-agent: apoidea\nDisallow:\n", "none"},
		{"the largest", "User-agent: *\nCrawl-delay: 1\nCrawl-delay: 3\nCrawl-delay: 2\n", "3s"},
		{"shared by a list", "User-agent: apoidea\nUser-agent: b\nCrawl-delay: 2\n", "2s"},
		{"another's just before", "User-agent: b\nCrawl-delay: 9\nUser-agent: *\nCrawl-delay: 1\nDisallow: /x\n", "1s"},
		{"another's just behind", "User-agent: apoidea\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 9\nDisallow: /x\n", "1s"},
		{"in no group", "Crawl-delay: 9\nUser-agent: *\nDisallow:\n", "none"},
		{"zero", "User-agent: *\nCrawl-delay: 0\n", "0s"},
		{"negative", "User-agent: *\nCrawl-delay: -1\n", "none"},
		{"no number", "User-agent: *\nCrawl-delay: soon\nCrawl-delay: NaN\n", "none"},
		{"beyond all bounds", "User-agent: *\nCrawl-delay: 1e99\nCrawl-delay: Inf\n", "24h0m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := "none"
			if d, ok := robots.Parse([]byte(tt.body), "apoidea").CrawlDelay(); ok {
				got = d.String()
			}
			if got != tt.want {
				t.Errorf("delay %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSitemaps(t *testing.T) {
	body := "Sitemap: https://a.example/1.xml\nUser-agent: b\nsite-map:/2.xml # second\nSitemap:\nSITEMAP: " + strings.Repeat("x", 5000) + "\n"
	if s := strings.Join(robots.Parse([]byte(body), "apoidea").Sitemaps(), " "); s != "https://a.example/1.xml /2.xml" {
		t.Errorf("sitemaps %q", s)
	}
	many := robots.Parse([]byte(strings.Repeat("Sitemap: https://a.example/\n", 2000)), "a")
	if n := len(many.Sitemaps()); n != robots.MaxSitemaps {
		t.Errorf("%d sitemaps kept", n)
	}
}

func TestNilRules(t *testing.T) {
	var r *robots.Rules
	if _, ok := r.CrawlDelay(); ok || !r.Allowed("/a") || r.Sitemaps() != nil || r.Len() != 0 || r.Size() != 0 {
		t.Error("no rules are not no rules")
	}
}
