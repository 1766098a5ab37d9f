package warc

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
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

var withoutBreaks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// splitURL splits a URL as RFC 2396, appendix B, without user, port 0 and fragment. It repairs a
// missing or doubled scheme, and slashes before a host.
func splitURL(url string) (u surtURL) {
	url = withoutBreaks.Replace(strings.TrimSpace(url))
	scheme, rest, ok := strings.Cut(url, ":")
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if !ok || scheme != "http" && scheme != "https" && (strings.Trim(scheme, letters+"0123456789+-.") != "" || strings.TrimLeft(scheme, letters) == scheme) {
		scheme, rest = "http", "//"+url
	}
	for strings.HasPrefix(rest, "//http://") || strings.HasPrefix(rest, "//https://") {
		scheme, rest, _ = strings.Cut(rest[2:], ":")
	}
	rest, _, _ = strings.Cut(rest, "#")
	u.scheme = scheme
	u.path, u.query, _ = strings.Cut(rest, "?")
	if strings.HasPrefix(u.path, "//") || strings.HasPrefix(scheme, "http") && u.path != "" {
		rest := u.path[min(2, len(u.path)):]
		if !strings.HasPrefix(u.path, "//") || strings.HasPrefix(scheme, "http") {
			rest = strings.TrimLeft(u.path, "/")
		}
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		host := rest[strings.LastIndexByte(rest[:end], '@')+1 : end]
		u.path = rest[end:]
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host, u.port = host[:i], escapeOnce(strings.TrimLeft(host[i+1:], "0"))
		}
		u.host = strings.ToLower(strings.Trim(host, "[]"))
	}
	return u
}

// normalize applies the rules of Google Safe Browsing: one escaping, IDNA, no dot segments or empty
// segments. IP addresses are in decimal dotted form already, as in all canonical URLs.
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
	u.path = stripSession(strings.ToLower(u.path), pathSessions)
	if len(u.path) > 1 {
		u.path = strings.TrimSuffix(u.path, "/")
	}
	u.query = sortQuery(stripSession(strings.ToLower(u.query), querySessions))
}

func (u *surtURL) key() string {
	labels := strings.Split(u.host, ".")
	slices.Reverse(labels)
	place := strings.Join(labels, ",")
	switch {
	case u.host == "":
		place = u.scheme + ":"
	case u.port == "":
		place += ")"
	default:
		place += ":" + u.port + ")"
	}
	switch {
	case u.query == "":
		return place + u.path
	case u.path == "":
		return place + "/?" + u.query
	}
	return place + u.path + "?" + u.query
}

// unescapeRepeatedly decodes percent-encoded bytes until none is left, in one pass: a decoded byte
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
	for i := range len(s) {
		if plain(s[i]) {
			continue
		}
		out := append(make([]byte, 0, len(s)+16), s[:i]...)
		for _, c := range []byte(s[i:]) {
			if plain(c) {
				out = append(out, c)
			} else {
				out = fmt.Appendf(out, "%%%02X", c)
			}
		}
		return string(out)
	}
	return s
}

func normalizeHost(host string) string {
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		host = strings.ToValidUTF8(host, "")
		if ascii, err := idna.Punycode.ToASCII(strings.ToLower(host)); err == nil {
			host = ascii
		}
	}
	return escapeOnce(strings.ToLower(strings.Trim(strings.ReplaceAll(host, "..", "."), ".")))
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
	full := slices.DeleteFunc(slices.Clone(kept[:last]), func(s string) bool { return s == "" })
	return "/" + strings.Join(append(full, kept[last]), "/")
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

func stripSession(s string, forms []*regexp.Regexp) string {
	for _, hint := range []string{")/", "sess", "sid=", "cfid="} { // in lower case; nearly all URLs have none
		if strings.Contains(s, hint) {
			for _, form := range forms {
				s = form.ReplaceAllString(s, "$1$2")
			}
			break
		}
	}
	return s
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
