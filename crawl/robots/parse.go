package robots

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
)

// Size limits.
const (
	// MaxBody is how much of a robots.txt is parsed: the minimum of RFC 9309, section 2.5. Fetch one
	// byte more to detect a truncation.
	MaxBody = 500 << 10
	// maxPattern is how much of a pattern is parsed, about the line limit of Google's parser: eight
	// times the URL limit of certain browsers.
	maxPattern = 2083 * 8
	// MaxSitemaps and MaxSitemapURL bound what Sitemaps returns.
	MaxSitemaps   = 1000
	MaxSitemapURL = 4096
	// MaxCrawlDelay limits the delay: more amounts to disallowing the site, and could overflow.
	MaxCrawlDelay = 24 * time.Hour
)

// Rules are the rules in force for one crawler. The nil *Rules allows everything.
type Rules struct {
	rules    []rule // the longest pattern first, Allow before Disallow
	delay    time.Duration
	hasDelay bool
	sitemaps []string
	size     int
}

// Parse parses at most MaxBody bytes of a robots.txt and returns the rules for agent, the crawler's
// product token. Any bytes are a valid body.
func Parse(body []byte, agent string) *Rules {
	body = withoutMark(bound(asUTF8(body)))
	p := parser{agent: productToken(agent)}
	for len(body) > 0 {
		var line []byte
		line, body = cutLine(body)
		p.line(line)
	}
	return p.finish()
}

// bound truncates the body at MaxBody and then to the end of the last whole line.
func bound(body []byte) []byte {
	if len(body) <= MaxBody {
		return body
	}
	return wholeLines(body[:MaxBody])
}

// wholeLines removes the last line unless it is terminated.
func wholeLines(body []byte) []byte {
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}

// withoutMark removes a byte order mark, also a partial one left by an editor.
func withoutMark(body []byte) []byte {
	for _, b := range []byte{0xEF, 0xBB, 0xBF} {
		if len(body) == 0 || body[0] != b {
			break
		}
		body = body[1:]
	}
	return body
}

// cutPattern truncates a pattern at its limit, and before an escape that the limit would split. A
// truncated pattern that disallows matches all paths that the whole one does, and more.
func cutPattern(value []byte) []byte {
	if len(value) <= maxPattern {
		return value
	}
	value = value[:maxPattern]
	if i := bytes.LastIndexByte(value, '%'); i >= maxPattern-2 {
		value = value[:i]
	}
	if n := len(value); value[n-1] == '$' {
		value = value[:n-1] // was an ordinary character, and would become the anchor
	}
	return value
}

// cutLine splits off the first line, ended by LF, CR or CRLF. A CRLF leaves an empty line, which
// has no effect.
func cutLine(body []byte) (line, rest []byte) {
	lf := bytes.IndexByte(body, '\n')
	if lf < 0 {
		lf = len(body)
	}
	end := lf
	if cr := bytes.IndexByte(body[:lf], '\r'); cr >= 0 {
		end = cr
	}
	if end == len(body) {
		return body, nil
	}
	return body[:end], body[end+1:]
}

// scope collects the rules of one set of groups: those that name the agent, or those for all.
type scope struct {
	rules    []rule
	delay    time.Duration
	hasDelay bool
}

type parser struct {
	agent               string
	ours, everybody     scope
	inOurs, inEverybody bool // which groups the current lines belong to
	namedUs             bool // a group named the agent, even one without a rule
	pastAgents          bool // there was a rule: the next User-agent line opens a new group
	delayOurs, delayAll bool // the same three for Crawl-delay, which ends a list of User-agent lines for delays only
	pastDelay           bool
	sitemaps            []string
}

func (p *parser) line(line []byte) {
	name, value, ok := field(line)
	if !ok {
		return
	}
	switch fieldKind(name) {
	case fieldUserAgent:
		p.userAgent(value)
	case fieldAllow:
		p.allow(string(value))
	case fieldDisallow:
		p.add(string(cutPattern(value)), false)
	case fieldCrawlDelay:
		p.crawlDelay(string(value))
	case fieldSitemap:
		if len(p.sitemaps) < MaxSitemaps && len(value) > 0 && len(value) <= MaxSitemapURL {
			p.sitemaps = append(p.sitemaps, string(value))
		}
	case fieldOther:
	}
}

func (p *parser) userAgent(value []byte) {
	if p.pastAgents {
		p.inOurs, p.inEverybody, p.pastAgents = false, false, false
		p.pastDelay = true
	}
	if p.pastDelay {
		p.delayOurs, p.delayAll, p.pastDelay = false, false, false
	}
	if len(value) > 0 && value[0] == '*' && (len(value) == 1 || isSpace(value[1])) {
		p.inEverybody, p.delayAll = true, true
		return
	}
	if p.agent != "" && strings.EqualFold(productToken(string(value)), p.agent) {
		p.inOurs, p.delayOurs, p.namedUs = true, true, true
	}
}

// allow adds a rule, and another one for the directory where the pattern names its index page.
func (p *parser) allow(value string) {
	if len(value) > maxPattern {
		value = "" // matches nothing: the truncated pattern would allow more than was written
	}
	p.add(value, true)
	if slash := strings.LastIndexByte(value, '/'); slash >= 0 && strings.HasPrefix(value[slash:], "/index.htm") {
		p.add(value[:slash+1]+"$", true)
	}
}

// add adds a rule to the groups of its line. A group that names the agent takes precedence over one
// for all that shares its rules. A rule without a pattern has no effect, but ends the list of
// User-agent lines.
func (p *parser) add(pattern string, allow bool) {
	if !p.inOurs && !p.inEverybody {
		return
	}
	p.pastAgents = true
	r, ok := compile(pattern, allow)
	if !ok {
		return
	}
	s := p.scope(p.inOurs)
	s.rules = append(s.rules, r)
}

func (p *parser) scope(ours bool) *scope {
	if ours {
		return &p.ours
	}
	return &p.everybody
}

func (p *parser) crawlDelay(value string) {
	if !p.delayOurs && !p.delayAll {
		return
	}
	p.pastDelay = true
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !(seconds >= 0) {
		return
	}
	s := p.scope(p.delayOurs)
	s.hasDelay = true
	s.delay = max(s.delay, time.Duration(math.Ceil(min(seconds, MaxCrawlDelay.Seconds())*float64(time.Second))))
}

func (p *parser) finish() *Rules {
	s := &p.everybody
	if p.namedUs {
		s = &p.ours
	}
	slices.SortFunc(s.rules, func(a, b rule) int {
		return cmp.Or(cmp.Compare(b.length(), a.length()), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.text, b.text), cmp.Compare(a.length(), b.length()))
	})
	rules := slices.CompactFunc(s.rules, func(a, b rule) bool { return a == b })
	r := &Rules{rules: slices.Clone(rules), delay: s.delay, hasDelay: s.hasDelay, sitemaps: p.sitemaps}
	r.size = ruleSize * len(r.rules)
	for i := range r.rules {
		r.size += len(r.rules[i].text)
	}
	for _, u := range r.sitemaps {
		r.size += len(u)
	}
	return r
}

// CrawlDelay returns the Crawl-delay of the site for this crawler, at most MaxCrawlDelay, and
// whether there is one.
func (r *Rules) CrawlDelay() (time.Duration, bool) {
	if r == nil {
		return 0, false
	}
	return r.delay, r.hasDelay
}

// Sitemaps returns the values of the Sitemap lines, unchecked and in their order.
func (r *Rules) Sitemaps() []string {
	if r == nil {
		return nil
	}
	return r.sitemaps
}

// Len returns the number of rules in force.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.rules)
}

// Size returns the approximate memory of the rules in bytes, for a bounded cache.
func (r *Rules) Size() int {
	if r == nil {
		return 0
	}
	return r.size
}

// fieldName is a supported field of robots.txt.
type fieldName uint8

const (
	fieldOther fieldName = iota
	fieldUserAgent
	fieldAllow
	fieldDisallow
	fieldCrawlDelay
	fieldSitemap
)

// spellings are the names of the fields, with the common misspellings that Google's parser accepts.
// A field name need only begin with one.
var spellings = []struct {
	prefix string
	name   fieldName
}{
	{"user-agent", fieldUserAgent},
	{"useragent", fieldUserAgent},
	{"user agent", fieldUserAgent},
	{"allow", fieldAllow},
	{"disallow", fieldDisallow},
	{"dissallow", fieldDisallow},
	{"dissalow", fieldDisallow},
	{"disalow", fieldDisallow},
	{"diaslow", fieldDisallow},
	{"diasllow", fieldDisallow},
	{"disallaw", fieldDisallow},
	{"crawl-delay", fieldCrawlDelay},
	{"crawldelay", fieldCrawlDelay},
	{"sitemap", fieldSitemap},
	{"site-map", fieldSitemap},
}

func fieldKind(name []byte) fieldName {
	for _, s := range spellings {
		if len(name) >= len(s.prefix) && strings.EqualFold(string(name[:len(s.prefix)]), s.prefix) {
			return s.name
		}
	}
	return fieldOther
}

// field splits a line into name and value. If the colon is missing, white space between exactly two
// words replaces it.
func field(line []byte) (name, value []byte, ok bool) {
	if i := bytes.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	line = trim(line)
	sep := bytes.IndexByte(line, ':')
	if sep < 0 {
		if sep = bytes.IndexAny(line, " \t"); sep < 0 || bytes.ContainsAny(trim(line[sep:]), " \t") {
			return nil, nil, false
		}
	}
	name, value = trim(line[:sep]), trim(line[sep+1:])
	return name, value, len(name) > 0
}

// trim removes ASCII white space and NUL at both ends: bodies in UTF-16 leave NULs.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\v\f\r\n\x00") }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' }

// productToken returns the leading product token of a User-agent value; it ends at the first
// invalid byte.
func productToken(s string) string {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return s[:i]
		}
	}
	return s
}

// asUTF8 decodes a body in UTF-16, as written by some editors. It is detected by its byte order
// mark, or by two ASCII characters of which every other byte is zero. RFC 9309 requires UTF-8, and
// read as that it would be a file without rules.
func asUTF8(body []byte) []byte {
	order, found := byteOrder(body)
	if !found {
		return body
	}
	// The decoder returns no error: it replaces invalid text by U+FFFD.
	text, _ := unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(body)
	return text
}

func byteOrder(body []byte) (order unicode.Endianness, found bool) {
	zeros := func(first, second bool) bool {
		return len(body) >= 4 && (body[0] == 0) == first && (body[1] == 0) == second && (body[2] == 0) == first && (body[3] == 0) == second
	}
	switch {
	case bytes.HasPrefix(body, []byte("\xff\xfe")), zeros(false, true):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(body, []byte("\xfe\xff")), zeros(true, false):
		return unicode.BigEndian, true
	default:
		return unicode.BigEndian, false
	}
}
