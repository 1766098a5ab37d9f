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
)

// Bounds on what a site can make us keep.
const (
	// MaxBody is how much of a robots.txt is read: what RFC 9309, section 2.5, asks for at least.
	// Fetch one byte more, so that a cut shows.
	MaxBody = 500 << 10
	// maxPattern is how much of a pattern is read, about what Google's parser reads of a line:
	// eight times what a URL may have in certain browsers.
	maxPattern = 2083 * 8
	// MaxSitemaps and MaxSitemapURL bound what Sitemaps returns.
	MaxSitemaps   = 1000
	MaxSitemapURL = 4096
	// MaxCrawlDelay is the largest delay believed: more is the same as a closed door, and would
	// overflow in the end.
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

// Parse reads at most MaxBody bytes of a robots.txt and keeps what concerns agent, the crawler's
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

// bound cuts the body at MaxBody and then back to the end of the last whole line.
func bound(body []byte) []byte {
	if len(body) <= MaxBody {
		return body
	}
	return wholeLines(body[:MaxBody])
}

// wholeLines drops the last line unless it is ended.
func wholeLines(body []byte) []byte {
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}

// withoutMark drops a byte order mark, also one that was broken on its way through some editor.
func withoutMark(body []byte) []byte {
	for _, b := range []byte{0xEF, 0xBB, 0xBF} {
		if len(body) == 0 || body[0] != b {
			break
		}
		body = body[1:]
	}
	return body
}

// cutPattern cuts a pattern at its bound, and before an escape that the bound would cut in two.
// What is left of one that disallows holds for more paths than the whole, and so for all that the
// site meant.
func cutPattern(value []byte) []byte {
	if len(value) <= maxPattern {
		return value
	}
	value = value[:maxPattern]
	if i := bytes.LastIndexByte(value, '%'); i >= maxPattern-2 {
		value = value[:i]
	}
	if n := len(value); value[n-1] == '$' {
		value = value[:n-1] // was a letter within the pattern, and would be the end of one
	}
	return value
}

// cutLine splits off the first line; LF, CR and CRLF end one. A CRLF leaves an empty line behind,
// which means nothing.
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

// scope collects what one set of groups says: those that name the agent, or those for everybody.
type scope struct {
	rules    []rule
	delay    time.Duration
	hasDelay bool
}

type parser struct {
	agent               string
	ours, everybody     scope
	inOurs, inEverybody bool // which groups the current lines belong to
	namedUs             bool // some group named the agent, even one without a rule
	pastAgents          bool // a rule was met: the next User-agent line opens a new group
	delayOurs, delayAll bool // the same three for Crawl-delay, which ends a list of User-agent lines for its own kind only
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

// allow adds a rule, and another where the pattern names a directory's index page: a site that
// admits the page admits the directory.
func (p *parser) allow(value string) {
	if len(value) > maxPattern {
		value = "" // a rule that admits nothing: its beginning would admit more than was written
	}
	p.add(value, true)
	if slash := strings.LastIndexByte(value, '/'); slash >= 0 && strings.HasPrefix(value[slash:], "/index.htm") {
		p.add(value[:slash+1]+"$", true)
	}
}

// add adds a rule to the groups that the line stands in. A group that names us takes precedence
// over one for everybody that it shares its rules with. A rule without a pattern says nothing, but
// ends the list of User-agent lines.
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

// CrawlDelay returns the delay between requests that the site asks of us, at most MaxCrawlDelay,
// and whether it asks for one.
func (r *Rules) CrawlDelay() (time.Duration, bool) {
	if r == nil {
		return 0, false
	}
	return r.delay, r.hasDelay
}

// Sitemaps returns the URLs of the Sitemap lines as they were written, in their order. They may be
// anything.
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

// Size returns about how many bytes of memory the rules take, for a cache that bounds them.
func (r *Rules) Size() int {
	if r == nil {
		return 0
	}
	return r.size
}
