package warc

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// SURT returns the key of a URL in an index (Sort-friendly URI Reordering Transform). The host
// starts with its top-level domain, so that a domain with all its hosts is one range:
// http://www.Example.com:8080/a/?y=2&x=1 becomes com,example:8080)/a?x=1&y=2. The key drops scheme,
// user, default port, a leading www, letter case, fragment, session IDs, a trailing slash, and the
// order of the query, as surt.surt(url) of the Python package surt 0.3.1, which replay tools use.
// URLs without a host, such as mailto:, keep their scheme. An IPv6 address has no brackets.
func SURT(url string) string {
	switch {
	case url == "":
		return "-"
	case strings.HasPrefix(url, "filedesc"):
		return strings.Join(strings.Fields(url), "%20")
	}
	u := splitURL(url)
	u.normalize()
	u.simplify()
	return u.key()
}

// surtURL is a URL on its way to a key. Missing parts are empty.
type surtURL struct{ scheme, host, port, path, query string }

// splitURL splits a URL as RFC 2396, appendix B, without user and fragment. It repairs a missing
// scheme, a doubled one, and slashes before a host.
func splitURL(url string) (u surtURL) {
	url = strings.Trim(url, " \t\n\r\v\f")
	if strings.ContainsAny(url, "\t\n\r") {
		url = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(url)
	}
	if schemeEnd(url) < 0 {
		url = "http://" + url
	}
	for rest := afterHTTP(url); rest != afterHTTP(rest); rest = afterHTTP(url) {
		url = rest
	}
	end := schemeEnd(url)
	u.scheme, url = url[:end], url[end+1:]
	url, _, _ = strings.Cut(url, "#")
	u.path, u.query, _ = strings.Cut(url, "?")
	if rest, ok := strings.CutPrefix(u.path, "//"); ok {
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		u.path = rest[end:]
		u.setAuthority(rest[:end])
	}
	if u.host == "" && strings.HasPrefix(u.scheme, "http") && u.path != "" {
		u.host, u.path, _ = strings.Cut(strings.TrimLeft(u.path, "/"), "/")
		u.path = "/" + u.path
	}
	return u
}

// schemeEnd returns the index of the colon after a scheme, -1 without one.
func schemeEnd(url string) int {
	for i := range len(url) {
		switch c := url[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return i
		default:
			return -1
		}
	}
	return -1
}

func afterHTTP(url string) string {
	rest, ok := strings.CutPrefix(url, "https://")
	if !ok {
		rest = strings.TrimPrefix(url, "http://")
	}
	return rest
}

// setAuthority splits host and port; it drops a user and port 0.
func (u *surtURL) setAuthority(text string) {
	text = text[strings.LastIndexByte(text, '@')+1:]
	if inner, ok := strings.CutPrefix(text, "["); ok {
		u.host, text, _ = strings.Cut(inner, "]")
		_, u.port, _ = strings.Cut(text, ":")
	} else {
		u.host, u.port, _ = strings.Cut(text, ":")
	}
	u.host = strings.ToLower(u.host)
	if n, err := strconv.Atoi(u.port); err == nil {
		u.port = strconv.Itoa(n)
	}
	if u.port = escapeOnce(u.port); u.port == "0" {
		u.port = ""
	}
}

// normalize applies the rules of Google Safe Browsing: one escaping, IDNA, decimal IP addresses, no
// dot segments or empty segments.
func (u *surtURL) normalize() {
	u.query = escapeOnce(unescapeRepeatedly(u.query))
	u.path = unescapeRepeatedly(u.path)
	if u.host != "" {
		u.host = normalizeHost(unescapeRepeatedly(u.host))
		u.path = normalizePath(u.path)
	}
	u.path = escapeOnce(u.path)
}

// simplify applies the rules of the Internet Archive, which map URLs of the same page to one key.
func (u *surtURL) simplify() {
	u.host = strings.ToLower(u.host)
	if u.scheme != "dns" {
		u.host = withoutWWW(u.host)
	}
	if s := strings.ToLower(u.scheme); s == "http" && u.port == "80" || s == "https" && u.port == "443" {
		u.port = ""
	}
	u.path = stripPathSession(strings.ToLower(u.path))
	if len(u.path) > 1 {
		u.path = strings.TrimSuffix(u.path, "/")
	}
	u.query = sortQuery(stripQuerySession(strings.ToLower(u.query)))
}

func (u *surtURL) key() string {
	var b strings.Builder
	b.Grow(len(u.scheme) + len(u.host) + len(u.port) + len(u.path) + len(u.query) + 4)
	if u.host == "" {
		b.WriteString(u.scheme + ":")
	} else {
		for host, i := u.host, 0; i >= 0; {
			i = strings.LastIndexByte(host, '.')
			b.WriteString(host[i+1:])
			if i >= 0 {
				b.WriteByte(',')
				host = host[:i]
			}
		}
		if u.port != "" {
			b.WriteString(":" + u.port)
		}
		b.WriteByte(')')
	}
	b.WriteString(u.path)
	if u.query != "" {
		if u.path == "" {
			b.WriteByte('/')
		}
		b.WriteString("?" + u.query)
	}
	return b.String()
}

// unescapeRepeatedly decodes percent-encoded bytes until none is left, in one pass: the decoded byte
// may complete an escape before it.
func unescapeRepeatedly(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out); n > 2 && out[n-3] == '%'; n -= 2 {
			var b [1]byte
			if _, err := hex.Decode(b[:], out[n-2:]); err != nil {
				break
			}
			out = append(out[:n-3], b[0])
		}
	}
	return string(out)
}

// escapeOnce encodes all bytes but printable ASCII, and # and %.
func escapeOnce(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '#' && c != '%' }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)+16), s[:i]...)
	for ; i < len(s); i++ {
		if c := s[i]; plain(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return string(out)
}

func normalizeHost(host string) string {
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		host = strings.ToValidUTF8(host, "")
		if ascii, err := idna.Punycode.ToASCII(strings.ToLower(host)); err == nil {
			host = ascii
		}
	}
	host = strings.Trim(strings.ReplaceAll(host, "..", "."), ".")
	if addr, ok := parseIPv4(host); ok {
		return addr
	}
	return escapeOnce(strings.ToLower(host))
}

// parseIPv4 parses the forms of inet_aton(3) in decimal and octal digits: one to four numbers, of
// which the last fills the remaining bytes. A single number is decimal, modulo 2^32.
func parseIPv4(host string) (addr string, ok bool) {
	if host == "" || host[0] < '0' || host[0] > '9' || strings.Trim(host, "0123456789.") != "" {
		return "", false
	}
	var ip uint64
	parts := strings.Split(host, ".")
	if len(parts) > 4 || len(parts) > 1 && host[0] == '0' && strings.ContainsAny(host, "89") {
		return "", false
	}
	for i, part := range parts {
		base, bits, shift := 10, 8, 24-8*i
		if part != "" && part[0] == '0' && len(parts) > 1 {
			base = 8
		}
		if i == len(parts)-1 {
			bits, shift = 8*(4-i), 0
		}
		if len(parts) == 1 {
			bits = 64
		}
		n, err := strconv.ParseUint(part, base, bits)
		if err != nil {
			return "", false
		}
		ip |= n << shift
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint64(nil, ip)[4:])).String(), true
}

// normalizePath removes dot segments and empty segments; a ".." above the root stays.
func normalizePath(path string) string {
	if !strings.Contains(path, "/.") && !strings.Contains(path, "//") && strings.HasPrefix(path, "/") {
		return path
	}
	var kept []string
	_, path, _ = strings.Cut(path, "/")
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == ".":
		case segment == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, segment)
		}
	}
	if len(kept) == 0 {
		return "/"
	}
	last := len(kept) - 1
	return strings.Join(append(append([]string{""}, slices.DeleteFunc(kept[:last:last], func(s string) bool { return s == "" })...), kept[last]), "/")
}

// withoutWWW drops a first label of www and digits.
func withoutWWW(host string) string {
	rest, ok := strings.CutPrefix(host, "www")
	if !ok {
		return host
	}
	if rest, ok = strings.CutPrefix(strings.TrimLeft(rest, "0123456789"), "."); ok {
		return rest
	}
	return host
}

// The forms of session IDs, as known from ASP.NET, Java, PHP, ASP and ColdFusion.
var (
	pathSessions = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$`),
		regexp.MustCompile(`(?i)^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$`),
	}
	querySessions = []*regexp.Regexp{
		regexp.MustCompile(`^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`^(.*)sid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$`),
		regexp.MustCompile(`^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$`),
	}
)

func stripPathSession(path string) string {
	if !strings.Contains(path, ")/") {
		return path
	}
	for _, form := range pathSessions {
		path = form.ReplaceAllString(path, "$1$2")
	}
	return path
}

// stripQuerySession expects a query in lower case.
func stripQuerySession(query string) string {
	if !strings.Contains(query, "sess") && !strings.Contains(query, "sid=") && !strings.Contains(query, "cfid=") {
		return query
	}
	for _, form := range querySessions {
		query = form.ReplaceAllString(query, "$1$2")
	}
	return query
}

// sortQuery sorts parameters by name and value; a name without "=" comes before its values.
func sortQuery(query string) string {
	if strings.IndexByte(query, '&') < 0 {
		return query
	}
	params := strings.Split(query, "&")
	slices.SortFunc(params, func(a, b string) int {
		nameA, valueA, _ := strings.Cut(a, "=")
		nameB, valueB, _ := strings.Cut(b, "=")
		return cmp.Or(strings.Compare(nameA, nameB), strings.Compare(valueA, valueB), len(a)-len(b))
	})
	return strings.Join(params, "&")
}
