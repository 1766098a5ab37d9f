package extract

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/apoidea/apoidea/crawl/link"
)

// StyleSheet extracts the requisites of a CSS body: imports, images and fonts. The error means that
// pageURL is not crawlable.
func (x *Extractor) StyleSheet(page *Page, pageURL string, header http.Header, body []byte) error {
	base, err := x.begin(page, pageURL)
	if err != nil || MediaType(ContentType(header)) != "text/css" {
		return err
	}
	x.css(page, []byte(link.EscapeInvalid(string(body))))
	x.resolve(page, base)
	x.finish(page)
	return nil
}

// css adds the URLs of url() and @import in CSS, which is text in UTF-8 (CSS Syntax Level 3,
// section 4; hexadecimal escapes are not decoded). It skips fragments, which are parts of the
// document itself, and the url() of @namespace, which is only a name.
func (x *Extractor) css(page *Page, s []byte) {
	var rule []byte // name of the current at-rule
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '/' && i+1 < len(s) && s[i+1] == '*':
			n := bytes.Index(s[i+2:], []byte("*/"))
			if n < 0 {
				return
			}
			i += n + len("/**/")
		case c == '"' || c == '\'':
			value, next := cssUntil(s, i+1, c)
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
			begin, end := i, byte(')')
			if i = cssName(s, i); !equalFold(s[begin:i], "url") || i == len(s) || s[i] != '(' {
				continue
			}
			for i++; i < len(s) && isSpace(s[i]); i++ {
			}
			if i < len(s) && (s[i] == '"' || s[i] == '\'') {
				end = s[i]
				i++
			}
			var value []byte
			if value, i = cssUntil(s, i, end); !equalFold(rule, "namespace") {
				x.embed(page, value)
			}
		case c == '\\':
			i += 2
		default:
			i++
		}
	}
}

// embed adds a requisite of a style sheet.
func (x *Extractor) embed(page *Page, value []byte) {
	if value = trimSpace(value); len(value) > 0 && value[0] != '#' {
		x.add(page, value, href{kind: link.KindRequisite, literal: true})
	}
}

// cssUntil returns a copy of the text before an end byte, without backslashes, and the index after
// it. A string without end is invalid, and ends with its line.
func cssUntil(s []byte, i int, end byte) (value []byte, next int) {
	for ; i < len(s) && s[i] != end; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		} else if s[i] == '\n' && end != ')' {
			return nil, i
		}
		value = append(value, s[i])
	}
	return value, min(i+1, len(s))
}

// cssName returns the end of the name that begins at i.
func cssName(s []byte, i int) int {
	for i < len(s) && isCSSName(s[i]) {
		i++
	}
	return i
}

func isCSSName(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c >= utf8.RuneSelf }

// requisite adds the requisite in an attribute.
func (w *walk) requisite(s *scanner, a attr) {
	if value, ok := s.get(a); ok && len(trimSpace(value)) > 0 {
		w.x.add(w.page, value, href{kind: link.KindRequisite})
	}
}

// requisites adds the requisites of an element.
func (w *walk) requisites(s *scanner, el element) {
	switch el {
	case elImg, elSource:
		w.requisite(s, attrSrc)
		w.srcset(s, attrSrcset)
	case elVideo:
		w.requisite(s, attrSrc)
		w.requisite(s, attrPoster)
	case elScript, elAudio, elTrack, elEmbed:
		w.requisite(s, attrSrc)
	case elInput:
		if s.is(attrType, "image") {
			w.requisite(s, attrSrc)
		}
	case elObject:
		w.requisite(s, attrData)
	case elBody:
		w.requisite(s, attrBackground)
	}
}

// style adds the requisites of a style attribute.
func (w *walk) style(s *scanner) {
	if value, ok := s.get(attrStyle); ok && w.opt.Requisites && w.inert == 0 {
		w.x.css(w.page, w.x.decode(value))
	}
}

// styleElement adds the requisites of a style element's text, in which character references do not
// exist.
func (w *walk) styleElement(text []byte) {
	if w.opt.Requisites && w.inert == 0 {
		w.x.css(w.page, w.x.text(text))
	}
}

// srcset adds the candidates of a srcset.
func (w *walk) srcset(s *scanner, a attr) {
	value, ok := s.get(a)
	if !ok {
		return
	}
	list := bytes.Clone(w.x.decode(value))
	for len(list) > 0 {
		var url []byte
		if url, list = nextCandidate(list); len(url) > 0 {
			w.x.add(w.page, url, href{kind: link.KindRequisite, literal: true})
		}
	}
}

// nextCandidate splits off the first URL of a srcset (HTML standard, "parse a srcset attribute"): a
// comma within a URL is part of it, one at its end is not, and one in parentheses is part of the
// descriptor.
func nextCandidate(s []byte) (url, rest []byte) {
	for len(s) > 0 && (isSpace(s[0]) || s[0] == ',') {
		s = s[1:]
	}
	n := 0
	for n < len(s) && !isSpace(s[n]) {
		n++
	}
	url, rest = s[:n], s[n:]
	if n > 0 && url[n-1] == ',' {
		return bytes.TrimRight(url, ","), rest
	}
	depth := 0
	for i, c := range rest {
		switch {
		case c == '(':
			depth = 1
		case c == ')':
			depth = 0
		case c == ',' && depth == 0:
			return url, rest[i+1:]
		}
	}
	return url, nil
}
