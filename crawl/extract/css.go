package extract

import (
	"bytes"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/apoidea/apoidea/crawl/link"
)

// StyleSheet extracts the requisites of a body that is CSS by its type: imports, images and fonts.
// The error says that pageURL is not crawlable.
func (x *Extractor) StyleSheet(page *Page, pageURL string, header http.Header, body []byte) error {
	base, err := x.begin(page, pageURL)
	if err != nil || mediaType(ContentType(header)) != "text/css" {
		return err
	}
	x.css(page, []byte(link.EscapeInvalid(string(body))))
	x.resolve(page, base)
	x.finish(page)
	return nil
}

// css notes what url() and @import name in CSS, which is text in UTF-8 that stays as it is (CSS
// Syntax Level 3, section 4). Fragments alone are parts of the document itself, and the url() of
// @namespace names nothing to fetch.
func (x *Extractor) css(page *Page, s []byte) {
	var rule []byte // name of the at-rule whose prelude is at hand
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '/' && i+1 < len(s) && s[i+1] == '*':
			n := bytes.Index(s[i+2:], []byte("*/"))
			if n < 0 {
				return
			}
			i += n + len("/**/")
		case c == '"' || c == '\'':
			value, next := cssString(s, i)
			if equalFold(rule, "import") {
				x.embed(page, value)
				rule = nil // a later string belongs to its conditions
			}
			i = next
		case c == ';' || c == '{' || c == '}':
			rule = nil
			i++
		case c == '@':
			end := cssName(s, i+1)
			rule, i = s[i+1:end], end
		case isCSSName(c):
			end := cssName(s, i)
			if !equalFold(s[i:end], "url") || end == len(s) || s[end] != '(' {
				i = end
				continue
			}
			value, next := cssURL(s, end+1)
			if !equalFold(rule, "namespace") {
				x.embed(page, value)
			}
			i = next
		case c == '\\':
			i += 2
		default:
			i++
		}
	}
}

// embed notes a requisite that CSS names.
func (x *Extractor) embed(page *Page, value []byte) {
	if value = trimSpace(cssUnescape(value)); len(value) > 0 && value[0] != '#' {
		x.add(page, value, href{kind: link.KindRequisite, literal: true})
	}
}

// cssURL returns what url( names, s[i:] being behind the parenthesis, and where to go on.
func cssURL(s []byte, i int) (value []byte, next int) {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		return cssString(s, i)
	}
	from := i
	for ; i < len(s) && s[i] != ')'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	i = min(i, len(s))
	return s[from:i], i
}

// cssString returns the string whose quote is at i, and where to go on: behind the next such quote,
// or at the end of the line.
func cssString(s []byte, i int) (value []byte, next int) {
	quote, from := s[i], i+1
	for i++; i < len(s); i++ {
		switch s[i] {
		case quote:
			return s[from:i], i + 1
		case '\n':
			return nil, i // a bad string
		case '\\':
			i++
		}
	}
	return s[from:], len(s)
}

// cssUnescape replaces the escapes of a value.
func cssUnescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			i++
			continue
		}
		from := i + 1
		for i = from; i < len(s) && i < from+6 && isHexadecimal(s[i]); i++ {
		}
		switch code, err := strconv.ParseUint(string(s[from:i]), 16, 32); {
		case err == nil:
			out = utf8.AppendRune(out, rune(code)) // U+FFFD if it is none
			if i < len(s) && isSpace(s[i]) {
				i++
			}
		case s[i] == '\n':
			i++ // the string goes on
		default:
			out = append(out, s[i])
			i++
		}
	}
	return out
}

// cssName returns where the name ends that begins at i.
func cssName(s []byte, i int) int {
	for i < len(s) && isCSSName(s[i]) {
		i++
	}
	return i
}

func isCSSName(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c >= utf8.RuneSelf }
