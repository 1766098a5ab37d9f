package robots

import (
	"bytes"
	"strings"
)

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
