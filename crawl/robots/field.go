package robots

import (
	"bytes"
	"strings"
)

// fields of a robots.txt that mean something here.
type fieldName uint8

const (
	fieldOther fieldName = iota
	fieldUserAgent
	fieldAllow
	fieldDisallow
	fieldCrawlDelay
	fieldSitemap
)

// spellings are what the fields are called, with the misspellings met often enough that Google's
// parser has them. A field name need only begin so.
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

// field splits a line into name and value. Where the colon was forgotten, white space between
// exactly two words stands for it.
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

// trim drops ASCII white space and NUL at both ends: bodies in UTF-16 leave NULs behind.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\v\f\r\n\x00") }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' }

// productToken returns the leading product token of a User-agent value; it ends at the first byte
// that no token has.
func productToken(s string) string {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return s[:i]
		}
	}
	return s
}
