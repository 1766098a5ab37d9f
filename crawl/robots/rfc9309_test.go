package robots_test

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/robots"
)

// rfcCase is one question to one robots.txt. The body is outdented first.
type rfcCase struct {
	name  string
	body  string
	agent string // empty: apoidea
	url   string
	want  bool
}

// rfcCases follow RFC 9309 from section to section; each was written from its text. Where the RFC
// leaves a choice, the package comment says ours, and TestAllowed has its cases.
var rfcCases = []struct {
	section string
	cases   []rfcCase
}{
	{"2.1 protocol: groups of user-agent lines and rules", []rfcCase{
		{"one group for all", `
			User-agent: *
			Disallow: /private/
			`, "", "/private/a", false},
		{"outside the pattern", `
			User-agent: *
			Disallow: /private/
			`, "", "/public/a", true},
		{"two crawlers share the rules of a group, the first", `
			User-agent: apoidea
			User-agent: otherbot
			Disallow: /x
			`, "", "/x", false},
		{"two crawlers share the rules of a group, the second", `
			User-agent: otherbot
			User-agent: apoidea
			Disallow: /x
			`, "", "/x", false},
		{"a group ends where the next begins", `
			User-agent: otherbot
			Disallow: /x
			User-agent: apoidea
			Disallow: /y
			`, "", "/x", true},
		{"blank lines do not end a group", `
			User-agent: apoidea

			Disallow: /x

			Disallow: /y
			`, "", "/y", false},
		{"blank lines between user-agent lines", `
			User-agent: otherbot

			User-agent: apoidea
			Disallow: /x
			`, "", "/x", false},
		{"rules before any group belong to nobody", `
			Disallow: /x

			User-agent: *
			Disallow: /y
			`, "", "/x", true},
		{"no group at all", `
			# nothing here
			`, "", "/x", true},
	}},
	{"2.2 formal syntax: lines, white space, comments", []rfcCase{
		{"white space before the field", `
			User-agent: *
			   Disallow: /x
			`, "", "/x", false},
		{"white space around the colon", `
			User-agent : *
			Disallow :	/x
			`, "", "/x", false},
		{"no white space behind the colon", `
			User-agent:*
			Disallow:/x
			`, "", "/x", false},
		{"white space behind the value", "User-agent: *  \nDisallow: /x \t \n", "", "/x", false},
		{"white space behind the value is no part of it", "User-agent: *\nDisallow: /x \nAllow: /x\n", "", "/x", true},
		{"field names in any case", `
			USER-AGENT: *
			dIsAlLoW: /x
			`, "", "/x", false},
		{"a comment on a line of its own", `
			# User-agent: *
			# Disallow: /
			`, "", "/x", true},
		{"a comment behind a rule", `
			User-agent: *
			Disallow: /x # not for robots
			`, "", "/x", false},
		{"a comment behind a product token", `
			User-agent: apoidea# ours
			Disallow: /x
			`, "", "/x", false},
		{"a number sign ends a pattern", `
			User-agent: *
			Disallow: /x#y
			`, "", "/xz", false},
		{"a comment between user-agent lines", `
			User-agent: otherbot
			# and
			User-agent: apoidea
			Disallow: /x
			`, "", "/x", false},
		{"lines end with CR LF", "User-agent: *\r\nDisallow: /x\r\nAllow: /x/y\r\n", "", "/x/y", true},
		{"lines end with CR", "User-agent: *\rDisallow: /x\r", "", "/x", false},
		{"the last line has no end", "User-agent: *\nDisallow: /x", "", "/x", false},
		{"UTF-8 in a pattern", `
			User-agent: *
			Disallow: /straße
			`, "", "/stra%C3%9Fe", false},
		{"a byte order mark in front", "\uFEFFUser-agent: *\nDisallow: /x\n", "", "/x", false},
	}},
	{"2.2.1 the user-agent line", []rfcCase{
		{"case of the token does not count", `
			User-agent: APOIDEA
			Disallow: /x
			`, "apoidea", "/x", false},
		{"case of the crawler's own token does not count", `
			User-agent: examplebot
			Disallow: /x
			`, "ExampleBot", "/x", false},
		{"the group that names the crawler, not that for all", `
			User-agent: *
			Disallow: /x
			User-agent: apoidea
			Disallow: /y
			`, "", "/x", true},
		{"the group for all may stand behind", `
			User-agent: apoidea
			Disallow: /y
			User-agent: *
			Disallow: /x
			`, "", "/x", true},
		{"the group for all when no other names the crawler", `
			User-agent: otherbot
			Disallow: /x
			User-agent: *
			Disallow: /y
			`, "", "/y", false},
		{"neither a group for the crawler nor for all", `
			User-agent: otherbot
			Disallow: /
			`, "", "/x", true},
		{"groups that name the crawler are one: the first", `
			User-agent: apoidea
			Disallow: /x
			User-agent: otherbot
			Disallow: /z
			User-agent: apoidea
			Disallow: /y
			`, "", "/x", false},
		{"groups that name the crawler are one: the second", `
			User-agent: apoidea
			Disallow: /x
			User-agent: otherbot
			Disallow: /z
			User-agent: apoidea
			Disallow: /y
			`, "", "/y", false},
		{"groups that name the crawler are one: not what stands between", `
			User-agent: apoidea
			Disallow: /x
			User-agent: otherbot
			Disallow: /z
			User-agent: apoidea
			Disallow: /y
			`, "", "/z", true},
		{"rules of one group undo those of another", `
			User-agent: apoidea
			Disallow: /x
			User-agent: apoidea
			Allow: /x/y
			`, "", "/x/y", true},
		{"groups for all are one", `
			User-agent: *
			Disallow: /x
			User-agent: otherbot
			Disallow: /z
			User-agent: *
			Disallow: /y
			`, "", "/x", false},
		{"a longer name is another crawler", `
			User-agent: apoidea-images
			Disallow: /x
			`, "", "/x", true},
		{"a shorter name is another crawler", `
			User-agent: apoi
			Disallow: /x
			`, "", "/x", true},
		{"hyphens and underscores are part of a token", `
			User-agent: example_bot-news
			Disallow: /x
			`, "Example_Bot-News", "/x", false},
		{"a crawler named together with all takes the rules once", `
			User-agent: apoidea
			User-agent: *
			Disallow: /x
			`, "", "/x", false},
	}},
	{"2.2.2 the allow and disallow lines", []rfcCase{
		{"a pattern matches from the first octet of the path", `
			User-agent: *
			Disallow: /b
			`, "", "/a/b", true},
		{"and matches what begins so", `
			User-agent: *
			Disallow: /fish
			`, "", "/fishheads/yummy.html", false},
		{"a slash at the end asks for a slash", `
			User-agent: *
			Disallow: /fish/
			`, "", "/fish", true},
		{"paths differ by case", `
			User-agent: *
			Disallow: /Fish
			`, "", "/fish", true},
		{"the root is everything", `
			User-agent: *
			Disallow: /
			`, "", "/", false},
		{"the query belongs to what is matched", `
			User-agent: *
			Disallow: /find?q=
			`, "", "/find?q=bees", false},
		{"another query does not match", `
			User-agent: *
			Disallow: /find?q=
			`, "", "/find?p=bees", true},
		{"most octets: allow", `
			User-agent: *
			Disallow: /a/
			Allow: /a/b/
			`, "", "/a/b/c", true},
		{"most octets: disallow", `
			User-agent: *
			Allow: /a/
			Disallow: /a/b/
			`, "", "/a/b/c", false},
		{"most octets, not the last line", `
			User-agent: *
			Allow: /a/b/
			Disallow: /a/
			`, "", "/a/b/c", true},
		{"most octets count wildcards", `
			User-agent: *
			Allow: /page
			Disallow: /*.htm
			`, "", "/page.htm", false},
		{"equivalent rules: allow", `
			User-agent: *
			Disallow: /a
			Allow: /a
			`, "", "/a", true},
		{"patterns of one length: allow", `
			User-agent: *
			Disallow: /*b
			Allow: /ab
			`, "", "/ab", true},
		{"an empty disallow closes nothing", `
			User-agent: *
			Disallow:
			`, "", "/x", true},
		{"an empty allow opens nothing", `
			User-agent: *
			Disallow: /x
			Allow:
			`, "", "/x", false},
		{"no match among the rules", `
			User-agent: *
			Disallow: /x
			Disallow: /y
			`, "", "/z", true},
		{"a group without rules allows everything, also beside one for all", `
			User-agent: apoidea

			User-agent: otherbot
			Allow: /

			User-agent: *
			Disallow: /
			`, "", "/x", true},
		{"/robots.txt is allowed whatever the rules say", `
			User-agent: *
			Disallow: /
			Disallow: /robots.txt
			`, "", "/robots.txt", true},
		{"octets outside the alphabet, encoded in the path", `
			User-agent: *
			Disallow: /blåbær
			`, "", "/bl%C3%A5b%C3%A6r", false},
		{"octets outside the alphabet, encoded in the pattern", `
			User-agent: *
			Disallow: /bl%C3%A5b%C3%A6r
			`, "", "/blåbær", false},
		{"escapes in either case are the same", `
			User-agent: *
			Disallow: /bl%c3%A5b
			`, "", "/bl%C3%a5b", false},
		{"an unreserved octet is the same encoded, in the path", `
			User-agent: *
			Disallow: /~joe/
			`, "", "/%7Ejoe/index.html", false},
		{"an unreserved octet is the same encoded, in the pattern", `
			User-agent: *
			Disallow: /%7ejoe/
			`, "", "/~joe/index.html", false},
		{"a reserved octet is not the same encoded, in the path", `
			User-agent: *
			Disallow: /a/b
			`, "", "/a%2Fb", true},
		{"a reserved octet is not the same encoded, in the pattern", `
			User-agent: *
			Disallow: /a%3Fb
			`, "", "/a?b", true},
		{"an encoded reserved octet is the same encoded", `
			User-agent: *
			Disallow: /a%2fb
			`, "", "/a%2Fb", false},
	}},
	{"2.2.3 special characters", []rfcCase{
		{"* is any number of octets", `
			User-agent: *
			Disallow: /a/*/z
			`, "", "/a/b/c/z", false},
		{"* is also none", `
			User-agent: *
			Disallow: /a*z
			`, "", "/az", false},
		{"* crosses into the query", `
			User-agent: *
			Disallow: /*session=
			`, "", "/shop?page=2&session=7", false},
		{"* at the end changes nothing", `
			User-agent: *
			Disallow: /x*
			`, "", "/x", false},
		{"* needs what follows it", `
			User-agent: *
			Disallow: /*.gif
			`, "", "/picture.png", true},
		{"several *, in their order", `
			User-agent: *
			Disallow: /*a*b*c
			`, "", "/1a2b3c4", false},
		{"several *, in another order", `
			User-agent: *
			Disallow: /*a*b*c
			`, "", "/1b2a3c4", true},
		{"* takes more than the first that fits", `
			User-agent: *
			Disallow: /*/end$
			`, "", "/a/end/b/end", false},
		{"$ is the end", `
			User-agent: *
			Disallow: /page$
			`, "", "/page", false},
		{"$ is not the end of the path alone", `
			User-agent: *
			Disallow: /page$
			`, "", "/page?x", true},
		{"$ behind the root", `
			User-agent: *
			Disallow: /
			Allow: /$
			`, "", "/", true},
		{"$ behind the root, elsewhere", `
			User-agent: *
			Disallow: /
			Allow: /$
			`, "", "/x", false},
		{"* and $ together", `
			User-agent: *
			Disallow: /*.gif$
			`, "", "/a/b.gif", false},
		{"* and $ together, and more behind", `
			User-agent: *
			Disallow: /*.gif$
			`, "", "/a/b.gif.html", true},
		{"a literal star is written %2A", `
			User-agent: *
			Disallow: /a%2Ab
			`, "", "/a*b", false},
		{"and is no wildcard then", `
			User-agent: *
			Disallow: /a%2Ab
			`, "", "/a--b", true},
		{"a literal dollar is written %24", `
			User-agent: *
			Disallow: /a%24
			`, "", "/a$b", false},
		{"a # within a pattern has to be %23", `
			User-agent: *
			Disallow: /a%23b
			`, "", "/a%23b", false},
	}},
	{"2.2.4 other records", []rfcCase{
		{"a sitemap belongs to no group", `
			User-agent: apoidea
			Sitemap: https://site.example/map.xml
			Disallow: /x
			`, "", "/x", false},
		{"a sitemap does not end a list of user-agent lines", `
			User-agent: apoidea
			Sitemap: https://site.example/map.xml
			User-agent: otherbot
			Disallow: /x
			`, "", "/x", false},
		{"an unknown record is passed over", `
			User-agent: apoidea
			Noise: loud
			Disallow: /x
			`, "", "/x", false},
		{"an unknown record does not end a list of user-agent lines", `
			User-agent: apoidea
			Noise: loud
			User-agent: otherbot
			Disallow: /x
			`, "", "/x", false},
	}},
	{"2.3 and 2.5 what a body may be", []rfcCase{
		{"parts that parse are used though others do not", "User-agent: *\n\x00\xff\xfe nonsense\nDisallow: /x\n", "", "/x", false},
		{"a page of HTML says nothing", "<!doctype html>\n<title>Not found</title>\n<p>Sorry\n", "", "/x", true},
		{"500 kibibytes are read", "User-agent: *\n" + strings.Repeat("# bees\n", (500<<10)/7-4) + "Disallow: /x\n", "", "/x", false},
	}},
	{"5.1 several groups in one file", []rfcCase{
		{"the drone may have its two files, the first", hive, "drone", "/comb/map.html", true},
		{"the drone may have its two files, the second", hive, "drone", "/comb/queen.png", true},
		{"the drone may have nothing else", hive, "drone", "/comb/worker.png", false},
		{"the forager at what is closed to it", hive, "forager", "/comb/map.html", false},
		{"the scout shares the group of the forager", hive, "scout", "/comb/map.html", false},
		{"what is closed to all is not closed to the forager", hive, "forager", "/comb/queen.png", true},
		{"the guest has a group without rules", hive, "guest", "/comb/map.html", true},
		{"any other crawler at a picture", hive, "apoidea", "/queen.png", false},
		{"any other crawler at a picture with a query", hive, "apoidea", "/queen.png?large", true},
		{"any other crawler in the closed part", hive, "apoidea", "/comb/", false},
		{"any other crawler in the open part", hive, "apoidea", "/garden/map.html", true},
		{"any other crawler at a picture in the open part", hive, "apoidea", "/garden/rose.png", true},
	}},
	{"5.2 the longest match", []rfcCase{
		{"the longer rule", `
			User-agent: drone
			Allow: /docs/guide/
			Disallow: /docs/guide/draft.html
			`, "drone", "/docs/guide/draft.html", false},
		{"the shorter rule", `
			User-agent: drone
			Allow: /docs/guide/
			Disallow: /docs/guide/draft.html
			`, "drone", "/docs/guide/final.html", true},
	}},
}

// hive has a group for all, one with exceptions, one of two crawlers and one without a rule.
const hive = `
	User-agent: *
	Disallow: *.png$
	Disallow: /comb/
	Allow: /garden/

	User-agent: drone
	Disallow: /
	Allow: /comb/map.html
	Allow: /comb/queen.png

	User-agent: forager
	User-agent: scout
	Disallow: /comb/map.html

	User-agent: guest
	`

func TestRFC9309(t *testing.T) {
	for _, s := range rfcCases {
		for _, tc := range s.cases {
			t.Run(s.section+"/"+tc.name, func(t *testing.T) {
				agent := tc.agent
				if agent == "" {
					agent = "apoidea"
				}
				body := outdented(tc.body)
				if got := robots.Parse([]byte(body), agent).Allowed(tc.url); got != tc.want {
					t.Errorf("%s may fetch %s: %t, want %t, by\n%.500s", agent, tc.url, got, tc.want, body)
				}
			})
		}
	}
}

// outdented takes the tabs in front of all lines off.
func outdented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
