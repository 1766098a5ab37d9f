package warc

import (
	"slices"
	"strings"
)

// SURT returns the sort key of a URL in an index: the host starts with its top-level domain, so
// that a domain with all its hosts is one range. http://www.Example.com:8080/a?y=2&x=1 becomes
// com,example:8080)/a?x=1&y=2. By convention it drops scheme, a leading www, letter case and the
// order of the query. URLs other than http and https are their own keys.
func SURT(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		return url
	}
	rest = strings.ToLower(rest)
	rest, _, _ = strings.Cut(rest, "#")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if path == "" {
		path = "/"
	}
	var b strings.Builder
	b.Grow(len(rest) + 2)
	writeHost(&b, authority)
	b.WriteString(")" + path)
	if hasQuery && query != "" {
		params := strings.Split(query, "&")
		slices.Sort(params)
		b.WriteString("?" + strings.Join(params, "&"))
	}
	return b.String()
}

// writeHost writes the labels of a host in reverse, then its port. An IPv6 address is unchanged.
func writeHost(b *strings.Builder, authority string) {
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i:]
	}
	host = withoutWWW(host)
	if strings.HasPrefix(host, "[") {
		b.WriteString(host + port)
		return
	}
	for {
		i := strings.LastIndexByte(host, '.')
		b.WriteString(host[i+1:])
		if i < 0 {
			break
		}
		b.WriteByte(',')
		host = host[:i]
	}
	b.WriteString(port)
}

// withoutWWW drops a first label of www and digits.
func withoutWWW(host string) string {
	rest, ok := strings.CutPrefix(host, "www")
	if !ok {
		return host
	}
	rest = strings.TrimLeft(rest, "0123456789")
	if rest, ok = strings.CutPrefix(rest, "."); ok && rest != "" {
		return rest
	}
	return host
}
