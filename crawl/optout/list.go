package optout

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"

	"github.com/apoidea/apoidea/crawl/link"
)

const (
	// MaxList bounds a list in bytes, maxRules its rules, and maxPatterns the URL patterns of one
	// host.
	MaxList     = 16 << 20
	maxRules    = 500_000
	maxPatterns = 256
	// maxLine bounds a line in bytes.
	maxLine = 8 << 10
	// maxTold bounds the invalid lines listed in an error.
	maxTold = 5
)

// Kind is the type of a rule.
type Kind string

// The kinds: the first word of a line.
const (
	KindHost   Kind = "host"
	KindDomain Kind = "domain"
	KindIP     Kind = "ip"
	KindURL    Kind = "url"
)

// Rule is one exclusion.
type Rule struct {
	Kind  Kind   `json:"kind"`  // type of Value
	Value string `json:"value"` // host, domain, address range or URL pattern, in canonical form
}

// String returns the rule as a line of a list.
func (r Rule) String() string { return string(r.Kind) + " " + r.Value }

// List is a set of rules. The nil List is empty.
type List struct {
	rules    []Rule
	hosts    map[string]struct{} // with and without port
	domains  map[string]struct{}
	addrs    bart.Lite
	patterns map[string][]string // of paths, by host
}

// ErrList is returned for a text in which no line is a rule: it is not a list, but perhaps an error
// page.
var ErrList = errors.New("no line is a rule")

// Parse parses a list of one rule per line, with comments after #.
//
//	host example.org            the host, at every port; with a port, at that one
//	domain example.org          the domain and every host below it
//	ip 192.0.2.0/24             hosts at these addresses
//	url example.org/private/    URLs of the host with this prefix; * matches any characters, $ the end
//
// The error lists the first invalid lines, and the list still has all others: a typo in one line
// must not disable the other rules. The list is nil only if there is no rule at all, or the text
// exceeds a limit.
func Parse(text []byte) (*List, error) {
	if len(text) > MaxList {
		return nil, fmt.Errorf("list of %d bytes, at most %d", len(text), MaxList)
	}
	l := &List{hosts: make(map[string]struct{}), domains: make(map[string]struct{}), patterns: make(map[string][]string)}
	var bad []error
	wrong := 0
	lines := bufio.NewScanner(bytes.NewReader(unixLines(text)))
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(l.rules) >= maxRules {
			return nil, fmt.Errorf("line %d: more than %d rules", number, maxRules)
		}
		if err := l.add(line); err != nil {
			if wrong++; wrong <= maxTold {
				bad = append(bad, fmt.Errorf("line %d: %w", number, err))
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line of more than %d bytes: %w", maxLine, err)
	}
	if wrong > maxTold {
		bad = append(bad, fmt.Errorf("and %d more lines", wrong-maxTold))
	}
	if len(l.rules) == 0 && wrong > 0 {
		return nil, errors.Join(append([]error{ErrList}, bad...)...)
	}
	return l, errors.Join(bad...)
}

// unixLines converts CR and CRLF line ends to LF, and drops a byte order mark.
func unixLines(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

func (l *List) add(line string) error {
	word, value, _ := strings.Cut(line, " ")
	value = strings.TrimSpace(value)
	switch kind := Kind(word); kind {
	case KindHost, KindDomain:
		name, err := hostName(value)
		if err == nil && kind == KindDomain && strings.ContainsAny(value, ":[") {
			err = errors.New("a domain has no port")
		}
		if err != nil {
			return fmt.Errorf("%s %.80q: %w", kind, value, err)
		}
		if kind == KindHost {
			l.hosts[name] = struct{}{}
		} else {
			l.domains[name] = struct{}{}
		}
		l.rules = append(l.rules, Rule{kind, name})
		return nil
	case KindIP:
		p, err := prefix(value)
		if err != nil {
			return err
		}
		l.addrs.Insert(p)
		l.rules = append(l.rules, Rule{kind, p.String()})
		return nil
	case KindURL:
		return l.addPattern(value)
	default:
		return fmt.Errorf("%.40q: want host, domain, ip or url, and a value", line)
	}
}

// hostName parses a host name or URL entered by a user.
func hostName(value string) (string, error) {
	if value == "" || strings.ContainsAny(value, "/ \t@?*") {
		return "", errors.New("want a name such as example.org")
	}
	scheme := "http://"
	if strings.HasSuffix(value, ":443") {
		scheme = "https://"
	}
	url, err := link.Canonical(scheme + value + "/")
	if err != nil {
		return "", err
	}
	return link.Host(url), nil
}

func prefix(value string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(value); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(value)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("ip %.80q: want an address or a range such as 192.0.2.0/24", value)
	}
	return p.Masked(), nil
}

func (l *List) addPattern(value string) error {
	bare := strings.TrimPrefix(strings.TrimPrefix(value, "https://"), "http://")
	i := strings.IndexByte(bare, '/')
	if i <= 0 {
		return fmt.Errorf("url %.80q: want a host and a path such as example.org/private/", value)
	}
	name, err := hostName(bare[:i])
	if err != nil {
		return fmt.Errorf("url %.80q: %w", value, err)
	}
	if len(l.patterns[name]) >= maxPatterns {
		return fmt.Errorf("url %.80q: more than %d patterns of one host; a host rule covers it whole", value, maxPatterns)
	}
	l.patterns[name] = append(l.patterns[name], bare[i:])
	l.rules = append(l.rules, Rule{KindURL, name + bare[i:]})
	return nil
}

// Rules returns the rules in their order. The slice must not be changed.
func (l *List) Rules() []Rule {
	if l == nil {
		return nil
	}
	return l.rules
}

// Host returns the rule that covers a host as a whole, except by its address.
func (l *List) Host(host string) (Rule, bool) {
	if l == nil || len(l.hosts)+len(l.domains) == 0 {
		return Rule{}, false
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	for _, h := range []string{host, name} {
		if _, ok := l.hosts[h]; ok {
			return Rule{KindHost, h}, true
		}
	}
	for d, more := name, len(l.domains) > 0; more; _, d, more = strings.Cut(d, ".") {
		if _, ok := l.domains[d]; ok {
			return Rule{KindDomain, d}, true
		}
	}
	if a, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return l.Addr(a)
	}
	return Rule{}, false
}

// Addr returns the rule that covers an address.
func (l *List) Addr(addr netip.Addr) (Rule, bool) {
	if l == nil {
		return Rule{}, false
	}
	p, ok := l.addrs.LookupPrefixLPM(netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
	if !ok {
		return Rule{}, false
	}
	return Rule{KindIP, p.String()}, true
}

// URL returns the rule that covers a canonical URL, by its host or by a pattern.
func (l *List) URL(url string) (Rule, bool) {
	if l == nil || len(l.rules) == 0 {
		return Rule{}, false
	}
	host := link.Host(url)
	if r, ok := l.Host(host); ok {
		return r, true
	}
	if len(l.patterns) == 0 {
		return Rule{}, false
	}
	path := link.PathQuery(url)
	for _, pattern := range l.patterns[host] {
		if link.MatchPath(pattern, path) {
			return Rule{KindURL, host + pattern}, true
		}
	}
	return Rule{}, false
}
